"""Snapshots at a coordinator: what they hold, whatever is compacted meanwhile, and how many are sent at once."""

from contextlib import aclosing

import pytest

from leasehold.coordinator.nodes.snapshots import Snapshots
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.messages import AskSnapshot, SnapshotBegin, SnapshotEnd, Watched, WatchFailed
from leasehold.core.words.operations import Change, Txn
from leasehold.errors import Refused, Superseded
from leasehold.limits.metastorage import RETENTION_HOLD_NS
from leasehold.limits.recovery import SNAPSHOTS_AT_ONCE
from leasehold.limits.units import SECOND_NS
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.requests import RequestFate
from tests.scenarios.admission_words import at_a_desk
from tests.scenarios.snapshot_words import digest, items, told

REQUEST = AskSnapshot(cluster_id="c" * 32, node=1, incarnation=1, session="5" * 32)
"""Whose speaker nobody looks at."""


# ---------------------------------------------------------------- what a snapshot holds


def test_a_snapshot_is_all_of_the_watched_range_at_one_revision_while_writes_go_on():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(30)
        at = desk.catalog
        expected = (await desk.storage.range(keys.WATCH_START, keys.WATCH_END, limit=1_000)).items
        async with aclosing(desk.coordinator.stream(node.snapshot())) as stream:
            begun = await anext(stream)
            await desk.write(5)
            rest = await told(stream)
        assert begun == SnapshotBegin(revision=at.revision, keys=len(expected))
        assert [(one.key, one.value) for one in items(rest)] == [(one.key, one.value) for one in expected]
        assert rest[-1] == SnapshotEnd(
            revision=at.revision, lineage=at.lineage, keys=len(expected), digest=digest(items(rest))
        )
        assert Catalog.restored(at.revision, at.lineage, items(rest)) == at

    at_a_desk(scenario)


class NoHolds:
    """Retention that is not asked for."""

    def hold(self, node, revision):
        del node, revision

    def renew(self, node):
        del node


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_R11_pages_go_on_behind_the_last_key_and_skip_none_that_begins_with_it(limit):
    storage = MemoryMetaStorage(MemoryStore(), page_max=limit)
    names = [b"c/a", b"c/a\x00", b"c/a\x00\x00", b"c/ab", b"c/a\xff", b"c/b", b"c/b/1", b"c/b/10", b"c/b/2"]
    await storage.txn(Txn(then=tuple(Change(name, name) for name in names)))
    at = 1
    # What is written and deleted later is no part of it.
    await storage.txn(Txn(then=(Change(b"c/aa", b"late"), Change(b"c/b", None))))
    served = Snapshots(storage, NoHolds(), lambda: 9, lambda: 0)
    whole = await told(served.serve(REQUEST, Catalog(revision=at)))
    assert [one.key for one in items(whole)] == names
    assert whole[-1].keys == len(names)
    assert len(whole) == 2 + -(-len(names) // limit)
    await storage.close()


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_R11_a_leader_reads_all_there_is_page_by_page_as_of_one_revision(limit):
    """Each page but the first comes after one more statement."""

    async def scenario(desk):
        for number in range(12):
            await desk.node(f"n{number}")
        await desk.write(12)
        await desk.sleep(SECOND_NS)
        expected = desk.catalog
        storage, pages = MemoryMetaStorage(desk.store, page_max=limit), []

        async def write_between(request):
            if request == "range":
                pages.append(request)
                if len(pages) > 1:
                    await desk.sql(f"DROP DATABASE {min(desk.catalog.database_names)}")
                    await desk.write(2)
            return RequestFate.ANSWERED

        storage.before = write_between
        assert await read_catalog(storage) == expected
        assert len(pages) > 40 // limit
        await storage.close()

    at_a_desk(scenario)


async def test_a_page_is_cut_where_it_would_grow_too_large():
    storage = MemoryMetaStorage(MemoryStore())
    large = bytes(1024 * 1024 - 100)
    for number in range(12):
        await storage.txn(Txn(then=(Change(b"c/%02d" % number, large),)))
    whole = await told(Snapshots(storage, NoHolds(), lambda: 12, lambda: 0).serve(REQUEST, Catalog(revision=12)))
    assert [len(page.items) for page in whole[1:-1]] == [5, 5, 2]
    assert whole[-1].digest == digest(items(whole))
    await storage.close()


def test_a_snapshot_is_only_for_the_newest_process_of_a_node():
    async def scenario(desk):
        node = await desk.node()
        older = node.snapshot()
        await node.join()
        for request, kind, code in (
            (older, Superseded, "SUPERSEDED"),
            (node.snapshot(session="e" * 32), Superseded, "SUPERSEDED"),
            (node.snapshot(cluster_id="d" * 32), Refused, "OTHER_CLUSTER"),
        ):
            with pytest.raises(kind) as caught:
                await told(desk.coordinator.stream(request))
            assert caught.value.code == code

    at_a_desk(scenario)


def test_only_so_many_snapshots_are_sent_at_once_and_the_next_asks_again():
    async def scenario(desk):
        nodes = [await desk.node(f"n{number}") for number in range(SNAPSHOTS_AT_ONCE + 1)]
        *running, last = [desk.coordinator.stream(node.snapshot()) for node in nodes]
        for one in running:
            await anext(one)
        with pytest.raises(Refused) as caught:
            await anext(last)
        assert caught.value.code == "BUSY"
        await running[0].aclose()
        assert (await told(desk.coordinator.stream(nodes[-1].snapshot())))[-1].keys
        for one in running[1:]:
            await one.aclose()

    at_a_desk(scenario)


def test_a_snapshot_that_is_compacted_away_under_way_is_asked_for_again():
    async def scenario(desk):
        desk.storage.page_max = 2
        node = await desk.node()
        stream = desk.coordinator.stream(node.snapshot())
        await anext(stream)
        await anext(stream)
        await desk.write(5)
        await desk.storage.compact(desk.catalog.revision)  # as if nobody held it
        with pytest.raises(Refused) as caught:
            await told(stream)
        assert caught.value.code == "BUSY"
        assert isinstance((await told(desk.coordinator.stream(node.snapshot())))[-1], SnapshotEnd)

    at_a_desk(scenario)


# ---------------------------------------------------------------- MM beyond LM, by compactions of others


@pytest.mark.parametrize("page", [2, 1_000])
def test_R3_a_snapshot_of_the_newest_change_is_read_where_only_beats_were_compacted(page):
    """Before its first page, and between two."""

    async def scenario(desk):
        node = await desk.node()
        await desk.write(5)
        at = desk.catalog
        await desk.compact_beyond()
        desk.storage.page_max = page
        async with aclosing(desk.coordinator.stream(node.snapshot())) as stream:
            whole = [await anext(stream), await anext(stream)]
            MemoryStore.lead(desk.store, "another")
            await desk.storage.compact(desk.store.newest)
            whole += await told(stream)
        assert whole[-1].revision == at.revision
        assert Catalog.restored(at.revision, at.lineage, items(whole)) == at

    at_a_desk(scenario)


def test_R3_a_session_follows_from_the_newest_change_on_where_only_beats_were_compacted():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(5)
        newest = desk.catalog.revision
        await desk.compact_beyond()
        line, opened = await node.open(watch_from=newest + 1)
        assert (opened.latest, opened.minimum) == (newest, newest + 2)
        behind, _ = await (await desk.node("n2")).open(watch_from=newest)
        assert (await behind.hear(WatchFailed, Watched)).code == "COMPACTED", "that change can't be told any more"
        await desk.write()
        batches = [(await line.hear(WatchFailed, Watched)).batch for _ in range(desk.catalog.revision - newest - 2)]
        assert [one.revision for one in batches] == list(range(newest + 3, desk.catalog.revision + 1))

    at_a_desk(scenario)


def test_R3_a_change_that_was_compacted_is_not_passed_over_however_far_others_compact():
    """Only what did not change is passed over: a change that was compacted is told by a snapshot."""

    async def scenario(desk):
        node = await desk.node()
        newest = desk.catalog.revision
        await desk.write()
        await desk.compact_beyond()
        line, opened = await node.open(watch_from=newest + 1)
        assert await line.hear(WatchFailed, Watched) == WatchFailed(code="COMPACTED", minimum=opened.minimum)

    at_a_desk(scenario)


# ---------------------------------------------------------------- how many at once


def test_a_node_takes_one_snapshot_at_a_time_and_the_newer_one_goes_on():
    async def scenario(desk):
        node = await desk.node()
        streams = [desk.coordinator.stream(node.snapshot()) for _ in range(SNAPSHOTS_AT_ONCE + 1)]
        for one in streams:
            await anext(one)
        for one in streams[:-1]:
            with pytest.raises(Refused) as caught:
                await told(one)
            assert caught.value.code == "BUSY"
        other = await desk.node("n2")
        assert isinstance((await told(desk.coordinator.stream(other.snapshot())))[-1], SnapshotEnd)
        assert isinstance((await told(streams[-1]))[-1], SnapshotEnd)

    at_a_desk(scenario)


def test_who_does_not_take_its_pages_loses_its_place_to_the_next():
    async def scenario(desk):
        nodes = [await desk.node(f"n{number}") for number in range(SNAPSHOTS_AT_ONCE + 1)]
        *slow, last = [desk.coordinator.stream(node.snapshot()) for node in nodes]
        for one in slow:
            await anext(one)
        await desk.sleep(RETENTION_HOLD_NS - SECOND_NS)
        await anext(slow[0])  # this one still takes some
        await desk.sleep(SECOND_NS)
        assert isinstance((await told(last))[-1], SnapshotEnd)
        assert isinstance((await told(slow[0]))[-1], SnapshotEnd)
        for one in slow[1:]:
            with pytest.raises(Refused) as caught:
                await told(one)
            assert caught.value.code == "BUSY"

    at_a_desk(scenario)
