"""What is on too few nodes is counted from the commit on, whatever happens to nodes and tables."""

import asyncio
from collections import Counter

import pytest

from leasehold.coordinator.replicas import repair
from leasehold.core.replicas.copies import Copies
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import NodeRemoved, RemoveNode
from leasehold.core.words.records import BucketRecord
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.simulation import simulate as simulate_random
from leasehold.testing.writers import SimulatedWriter, WriteFate
from tests.few import few
from tests.sim.data_words import ALWAYS_ONE, TABLE, Ground, simulate


class Checked(Copies):
    """Compares what it has kept up with a count of everything, at each revision."""

    revisions = 0
    counted_short = 0

    def committed(self, changes, catalog):
        super().committed(changes, catalog)
        if not self.is_due and self._tallies is not None:
            expected = by_looking_at_all(catalog)
            assert self._tallies == expected, f"revision {catalog.revision}"
            Checked.revisions += 1
            Checked.counted_short += bool(expected)


def by_looking_at_all(catalog):
    """The same, from each entry of the manifest."""
    found: dict[object, Counter[tuple[int, ...]]] = {}
    for bucket in catalog.segments:
        for segment in catalog.segments.passing(bucket):
            holders = sorted(node for node in segment.holders if not catalog.nodes[node].removed)
            if segment.table in catalog.tables and len(holders) < catalog.tables[segment.table].replication:
                found.setdefault(bucket, Counter())[tuple(holders)] += 1
    return found


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(repair, "Copies", Checked)
    Checked.revisions = Checked.counted_short = 0


@pytest.mark.parametrize("seeds", few(1, [range(2, 3), range(3, 31)]), ids=str)
def test_random_clusters_count_what_lacks_copies_at_every_revision(seeds):
    for seed in seeds:
        simulate_random(seed)
    assert Checked.revisions > 50
    assert Checked.counted_short


async def status(ground: Ground):
    told = await ground.cluster.status()
    return told.segments_short, told.segments_lost, {one.id: one.segments_alone for one in told.nodes}


def test_what_was_written_while_a_node_was_away_counts_until_it_has_fetched_it():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        (in_sync,) = ground.in_sync()
        first, away = (ground.node(one) for one in in_sync)
        await away.kill()
        await ground.write(20)
        told = await ground.cluster.status()
        count = len(ground.manifest())
        assert (told.segments_short, told.segments_lost) == (count, 0)
        by_name = {one.id: one for one in told.nodes}
        assert by_name[first.published.node].segments_alone == count
        assert by_name[in_sync[1]].segments_short == count
        away.start(ground.group)
        await ground.wait_for(lambda: len(ground.manifest()[0].holders) == 2)
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        assert Checked.counted_short

    simulate(scenario)


async def set_replication(ground: Ground, replicas: int) -> None:
    await ground.cluster.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('replication' = '{replicas}')")


def test_a_table_that_wants_more_copies_gets_them_and_then_outlives_its_first_node():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1, buckets=2)
        await ground.write(20)
        before, count = await ground.read(), len(ground.manifest())
        first = {one.holders[0] for one in ground.manifest()}
        await asyncio.sleep(2 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)  # nothing else is due any more
        await set_replication(ground, 3)
        assert (await status(ground))[:2] == (count, 0), "counted from the statement on"
        await ground.wait_for(lambda: all(len(one.holders) == 3 for one in ground.manifest()))
        await ground.wait_for(lambda: all(len(one) == 3 for one in ground.in_sync()))
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        for number in first:
            node = ground.node(number)
            await node.kill()
            assert await ground.read() == before
            node.start(ground.group)
            await ground.wait_for(lambda node=node: node.guard() is not None)

    simulate(scenario)


def buckets(ground: Ground) -> list[BucketRecord]:
    page = ground.cluster.store.page(keys.BUCKETS, keys.BUCKETS + b"\xff", None, 1_000)
    return [decode_record(BucketRecord, one.value) for one in page.items]


def copies_on_disks(ground: Ground) -> list[int]:
    """How many disks hold each segment of the manifest."""
    return [sum(ground.holds(node, one) for node in ground.cluster.nodes) for one in ground.manifest()]


def test_a_table_that_wants_fewer_copies_loses_them_one_by_one_and_no_row():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3, buckets=2)
        await ground.write(20)
        before = await ground.read()
        await asyncio.sleep(2 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)  # nothing else is due any more
        await set_replication(ground, 1)
        await ground.wait_for(lambda: set(copies_on_disks(ground)) == {1})
        assert {len(one.holders) for one in ground.manifest()} == {1}
        assert [(len(one.replicas), one.in_sync == one.replicas, one.retired) for one in buckets(ground)] == [
            (1, True, ())
        ] * 2
        assert await ground.read() == before
        assert await status(ground) == (0, 0, {1: 0, 2: 0, 3: 0})
        await ground.write(20)
        await set_replication(ground, 3)
        await ground.wait_for(lambda: set(copies_on_disks(ground)) == {3})

    simulate(scenario)


def test_a_copy_stays_while_the_only_other_one_is_away():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        await ground.write(20)
        (pair,) = ground.in_sync()
        first, away = (ground.node(one) for one in pair)
        await away.kill()
        await ground.write(20)  # one copy
        await set_replication(ground, 1)
        await ground.wait_for(lambda: [one.retired or len(one.replicas) for one in buckets(ground)] == [1])
        assert [one.replicas for one in buckets(ground)] == [(first.published.node,)], "what is behind goes"
        before = await ground.read()
        away.start(ground.group)
        await ground.wait_for(lambda: not any(ground.holds(away, one) for one in ground.manifest()))
        assert await ground.read() == before

    simulate(scenario)


class Late(SimulatedWriter):
    """A writer that commits once it may."""

    may_commit: asyncio.Event

    async def _commit(self, facts, written, segments):
        await self.may_commit.wait()
        return await super()._commit(facts, written, segments)


def test_a_write_that_was_staged_on_a_copy_that_goes_is_committed_and_copied_from_there():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        (pair,) = ground.in_sync()
        stays, goes = (ground.node(one) for one in sorted(pair))
        writer = Late(**ground.common(), rows=ground.numbers, habits=ALWAYS_ONE)
        writer.may_commit = asyncio.Event()
        await stays.kill()
        writing = ground.group.create_task(writer.write(TABLE, 20))
        await ground.wait_for(goes.data.disk.listing)
        stays.start(ground.group)
        await ground.wait_for(lambda: stays.guard() is not None)
        await set_replication(ground, 1)
        await ground.wait_for(lambda: [one.retired for one in buckets(ground)] == [(goes.published.node,)])
        await asyncio.sleep(3 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)
        writer.may_commit.set()
        assert (await writing).fate is WriteFate.COMMITTED
        assert [one.holders for one in ground.manifest()] == [(goes.published.node,)]
        await ground.wait_for(lambda: [one.holders for one in ground.manifest()] == [(stays.published.node,)])
        await ground.wait_for(lambda: not goes.data.disk.listing())
        assert (await ground.read()).total() == 20
        assert [one.retired for one in buckets(ground)] == [()]

    simulate(scenario)


def test_copies_that_a_table_wants_are_made_by_the_next_leader():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(20)
        await set_replication(ground, 2)
        await ground.cluster.kill_coordinator()
        await ground.cluster.start_coordinator(ground.group)
        await ground.wait_for(lambda: all(len(one.holders) == 2 for one in ground.manifest()))

    simulate(scenario)


def test_what_is_written_while_copies_are_made_has_all_of_them():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        for _ in range(3):
            await ground.write(20)
        await set_replication(ground, 2)
        await ground.write(20)
        await ground.wait_for(lambda: [len(one) for one in ground.in_sync()] == [2])
        assert {len(one.holders) for one in ground.manifest()} == {2}
        assert (await status(ground))[:2] == (0, 0)

    simulate(scenario)


def test_what_a_removed_node_held_alone_counts_as_lost():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(20)
        count = len(ground.manifest())
        holder = ground.node(ground.manifest()[0].holders[0])
        number = holder.published.node
        assert (await status(ground))[:2] == (0, 0)
        await holder.kill()
        request = RemoveNode(cluster_id=None, name=str(number), force=True)
        await ground.cluster.ask(request, NodeRemoved)
        assert (await status(ground))[:2] == (count, count)

    simulate(scenario)


def test_appends_go_on_with_as_many_live_replicas_as_their_table_says() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        await ground.cluster.sql("ALTER TABLE d.t SET TBLPROPERTIES ('min_in_sync' = '1')")
        back, gone = ground.node(1), ground.node(2)
        await back.kill()
        await gone.kill()
        await ground.write(5)
        await ground.cluster.sql("ALTER TABLE d.t SET TBLPROPERTIES ('min_in_sync' = '2')")
        written = await ground.writer().write(TABLE, 5)
        assert (written.fate, written.error) == (WriteFate.ABORTED, "TOO_FEW_HOLDERS")
        back.start(ground.group)
        await ground.wait_for(lambda: back.guard() is not None)
        await ground.write(5)
        assert (await ground.read()).total() == 10

    simulate(scenario)
