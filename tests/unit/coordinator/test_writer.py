"""The writer over a meta storage with faults: commands joined, refusals kept apart, never a wrong answer."""

import asyncio
import gc
import weakref
from contextlib import asynccontextmanager

import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.writer import StoreDeclined, Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import HorizonRecord, NodeRecord
from leasehold.errors import Indefinite, Refused, gravest
from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.metastorage import TRANSACTION_BYTES_MAX
from leasehold.limits.requests import COMMANDS_PER_TRANSACTION_MAX, COMMANDS_TURN_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.requests import RequestFate


def horizon(table, us=1):
    return put(keys.horizon(table), HorizonRecord(table=table, horizon_us=us))


def gone(table):
    return Change(keys.horizon(table), None)


def bulky(number, size):
    """A record of about `size` bytes."""
    record = NodeRecord(
        id=number,
        name="n",
        address="a" * size,
        token_hash=b"",
        incarnation=1,
        nonce=None,
        session_hash=None,
        removed=False,
    )
    return Change(keys.node(number), encode(record))


class Ground:
    """A store that is initialised, and a writer on it."""

    def __init__(self, store):
        self.store = store
        self.storage = MemoryMetaStorage(store)
        self.seen = []
        self.now_ns = 0
        self.wall_us = 0
        self.writer = None
        self.leadership = None

    async def lead(self):
        self.leadership = await self.storage.campaign("c1")
        if (await self.storage.status()).cluster_id is None:
            await self.storage.txn(Txn(then=first_records("c" * 32, DEFAULT_SETTINGS)))
        catalog = await read_catalog(self.storage)
        self.writer = Writer(
            self.storage,
            self.leadership,
            catalog,
            lambda batch, after: self.seen.append((batch, after)),
            lambda: self.now_ns,
            lambda: self.wall_us,
        )
        return self.writer

    def submit(self, *commands):
        return [asyncio.ensure_future(self.writer.submit(one)) for one in commands]

    async def history(self):
        """Every revision of the watched range, as a node would follow it."""
        latest = (await self.storage.status()).latest
        catalog = Catalog()
        watch = self.storage.watch(keys.WATCH_START, keys.WATCH_END, 1)
        async for batch in watch:
            catalog = catalog.applying(batch)
            if batch.revision == latest:
                break
        await watch.aclose()
        return catalog


@asynccontextmanager
async def running(store=None):
    """A writer that runs; what ends it early is raised at the end."""
    ground = Ground(store or MemoryStore())
    await ground.lead()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(ground.writer.run())
        yield ground
        run.cancel()
    await ground.storage.close()


def says(*changes):
    return lambda _catalog: changes


def refuses(_catalog):
    raise Refused("no", code="NO", hint="ask for something else")


async def settle(tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_commands_that_wait_are_joined_in_one_revision():
    async with running() as ground:
        before = ground.writer.catalog.revision
        tasks = ground.submit(*(says(horizon(number)) for number in range(1, 6)))
        assert set(await settle(tasks)) == {before + 1}
        assert len(ground.seen) == 1
        batch, after = ground.seen[0]
        assert [change.key for change in batch.changes] == sorted([keys.LINEAGE, *map(keys.horizon, range(1, 6))])
        assert sorted(after.horizons) == [1, 2, 3, 4, 5]
        assert await ground.history() == ground.writer.catalog == after


async def test_each_command_is_decided_on_what_those_before_it_will_have_done():
    seen = []

    def count(catalog):
        seen.append(len(catalog.horizons))
        return (horizon(len(catalog.horizons) + 1),)

    async with running() as ground:
        await settle(ground.submit(*[count] * 4))
        assert sorted(ground.writer.catalog.horizons) == [1, 2, 3, 4]
        assert len(ground.seen) == 1
    assert seen == [0, 1, 2, 3]


async def test_a_refusal_disturbs_nobody_else():
    async with running() as ground:
        tasks = ground.submit(says(horizon(1)), refuses, says(horizon(2)), refuses)
        first, no, second, again = await settle(tasks)
        assert first == second == ground.writer.catalog.revision
        assert {no.code, again.code} == {"NO"}
        assert len(ground.seen) == 1
        assert await ground.history() == ground.writer.catalog


async def test_others_have_their_turn_between_commands_that_take_long():
    def slow(_catalog):
        ground.now_ns += COMMANDS_TURN_NS
        refuses(_catalog)

    async with running() as ground:
        tasks = ground.submit(*[slow] * 4)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert not all(one.done() for one in tasks)
        await settle(tasks)


async def test_what_a_refused_command_asks_for_is_freed_at_once():
    class Request:
        """It may be large."""

    async def refused():
        request = Request()
        with pytest.raises(Refused):
            await ground.writer.submit(lambda catalog: refuses((catalog, request)))
        return weakref.ref(request)

    async with running() as ground:
        gc.collect()
        gc.disable()  # in a process with many objects it comes late
        try:
            request = await refused()
            await ground.writer.submit(says(horizon(1)))  # the writer has the last command until the next
            assert request() is None
        finally:
            gc.enable()


async def test_what_changes_nothing_takes_no_revision():
    async with running() as ground:
        before, newest = ground.writer.catalog.revision, ground.store.newest
        assert await settle(ground.submit(says(), says())) == [before, before]
        assert ground.store.newest == newest
        assert ground.seen == []


async def test_a_key_put_and_then_deleted_is_split_in_two_transactions():
    async with running() as ground:
        before = ground.writer.catalog.revision
        tasks = ground.submit(says(horizon(1)), says(gone(1)), says(horizon(1, us=2)))
        first, second, third = await settle(tasks)
        assert (first, second, third) == (before + 1, before + 2, before + 2)
        assert ground.writer.catalog.horizons[1].horizon_us == 2
        assert await ground.history() == ground.writer.catalog, "no revision lost a change that its hash counts"


async def test_so_many_commands_go_into_one_transaction():
    async with running() as ground:
        count = COMMANDS_PER_TRANSACTION_MAX + 1
        revisions = await settle(ground.submit(*(says(horizon(number)) for number in range(1, count + 1))))
        assert revisions.count(revisions[0]) == COMMANDS_PER_TRANSACTION_MAX
        assert revisions[-1] == revisions[0] + 1


@pytest.mark.parametrize(
    "changes",
    [
        (bulky(1, VALUE_BYTES_MAX),),
        tuple(bulky(number, VALUE_BYTES_MAX // 2) for number in range(1, 32)),
    ],
)
async def test_what_the_meta_storage_would_refuse_is_refused_to_its_asker_alone(changes):
    async with running() as ground:
        before, too_large, after = await settle(ground.submit(says(horizon(1)), says(*changes), says(horizon(2))))
        assert too_large.code == "TOO_LARGE"
        assert before == after == ground.writer.catalog.revision


async def test_commands_that_are_too_large_together_are_written_one_after_the_other():
    size = TRANSACTION_BYTES_MAX * 2 // 3 // 20
    async with running() as ground:
        commands = [says(*(bulky(number, size) for number in range(start, start + 20))) for start in (1, 21, 41)]
        revisions = await settle(ground.submit(*commands))
        assert revisions == [revisions[0], revisions[0] + 1, revisions[0] + 2]
        assert await ground.history() == ground.writer.catalog


async def test_a_command_whose_asker_has_gone_before_its_turn_never_happens():
    async with running() as ground:
        gone_away, stays = ground.submit(says(horizon(1)), says(horizon(2)))
        await asyncio.sleep(0)
        gone_away.cancel()
        await settle([gone_away, stays])
        assert sorted(ground.writer.catalog.horizons) == [2]


async def test_an_asker_who_goes_while_it_is_written_takes_nothing_back():
    async with running() as ground:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def held(request):
            if request == "txn":
                reached.set()
                await go_on.wait()
            return RequestFate.ANSWERED

        ground.storage.before = held
        tasks = ground.submit(says(horizon(1)), says(horizon(2)))
        await reached.wait()
        tasks[0].cancel()
        await settle(tasks[:1])
        go_on.set()
        await settle(tasks)
        assert sorted(ground.writer.catalog.horizons) == [1, 2]


async def test_a_full_disk_refuses_those_who_asked_and_the_leader_goes_on():
    async with running() as ground:

        async def full(request):
            if request == "txn":
                raise Refused("the disk is full", code="DISK_FULL", hint="make room")
            return RequestFate.ANSWERED

        undisturbed, ground.storage.before = ground.storage.before, full
        answers = await settle(ground.submit(says(horizon(1)), says(horizon(2))))
        assert [(type(one), one.code, one.hint) for one in answers] == [(StoreDeclined, "DISK_FULL", "make room")] * 2
        assert len(ground.writer.catalog.horizons) == 0
        ground.storage.before = undisturbed
        await settle(ground.submit(says(horizon(3))))
        assert await ground.history() == ground.writer.catalog


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER])
async def test_a_lost_answer_ends_the_writer_and_leaves_everybody_in_doubt(fate):
    store = MemoryStore()
    ground = Ground(store)
    writer = await ground.lead()

    async def lose(request):
        return fate if request == "txn" else RequestFate.ANSWERED

    ground.storage.before = lose
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            tasks = [asyncio.ensure_future(writer.submit(one)) for one in (says(horizon(1)), says(gone(1)))]
            await asyncio.sleep(0)
            group.create_task(writer.run())
    assert isinstance(gravest(caught.value), Indefinite)
    for answer in await settle(tasks):
        assert isinstance(answer, Indefinite), "also for what waited behind it"
        assert answer.hint
    with pytest.raises(Indefinite):
        await writer.submit(says(horizon(3)))
    assert ground.seen == [], "nothing is announced that is not known to be durable"
    assert writer.catalog.horizons.get(1) is None
    await ground.storage.close()
    # The next leader finds out which it was, and goes on from there.
    async with running(store) as after:
        assert (1 in after.writer.catalog.horizons) == (fate is RequestFate.LOST_AFTER)
        await settle(after.submit(says(horizon(2))))
        assert await after.history() == after.writer.catalog


@pytest.mark.parametrize("how", ["deposed", "second handle"])
async def test_a_leader_that_was_overtaken_writes_nothing_and_says_so(how):
    store = MemoryStore()
    old, new = Ground(store), Ground(store)
    writer = await old.lead()
    if how == "deposed":
        store.depose()
    else:
        await old.leadership.resign()
    await new.lead()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            task = asyncio.ensure_future(writer.submit(says(horizon(1))))
            group.create_task(writer.run())
    assert isinstance(gravest(caught.value), LeadershipLost)
    assert isinstance((await settle([task]))[0], Indefinite)
    assert old.seen == []
    assert await new.history() == new.writer.catalog
    assert 1 not in new.writer.catalog.horizons
    for one in (old, new):
        await one.storage.close()


async def test_two_leaders_of_one_history_can_not_both_write():
    """Even if the fence failed, the lineage compare would not: the second writer's past is not the newest one."""
    store = MemoryStore()
    first, second = Ground(store), Ground(store)
    await first.lead()

    class Unfenced:
        term = 2

        def fence(self):
            return ()

        def deadline_ns(self):
            return None

    second.storage = MemoryMetaStorage(store)
    blind = Writer(
        second.storage, Unfenced(), await read_catalog(second.storage), lambda *_: None, lambda: 0, lambda: 0
    )
    async with asyncio.TaskGroup() as group:
        run = group.create_task(first.writer.run())
        await settle(first.submit(says(horizon(1))))
        run.cancel()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            task = asyncio.ensure_future(blind.submit(says(horizon(2))))
            group.create_task(blind.run())
    assert isinstance(gravest(caught.value), LeadershipLost)
    assert isinstance((await settle([task]))[0], Indefinite)
    assert sorted((await first.history()).horizons) == [1]
    for one in (first, second):
        await one.storage.close()


async def test_a_stopped_writer_answers_those_who_wait_and_those_who_come_later():
    ground = Ground(MemoryStore())
    writer = await ground.lead()
    async with asyncio.TaskGroup() as group:
        stuck = asyncio.Event()

        async def never(request):
            if request == "txn":
                stuck.set()
                await asyncio.Event().wait()
            return RequestFate.ANSWERED

        ground.storage.before = never
        run = group.create_task(writer.run())
        tasks = [asyncio.ensure_future(writer.submit(says(horizon(1))))]
        await stuck.wait()
        tasks.append(asyncio.ensure_future(writer.submit(says(horizon(2)))))
        await asyncio.sleep(0)
        run.cancel()
    tasks.append(asyncio.ensure_future(writer.submit(says(horizon(3)))))
    assert [type(one) for one in await settle(tasks)] == [Indefinite] * 3
    await ground.storage.close()


async def test_the_lineage_ties_every_revision_to_all_before_it():
    async with running() as ground:
        for number in range(1, 30):
            await settle(ground.submit(says(horizon(number % 5, us=number)), says(horizon(number))))
        assert await ground.history() == ground.writer.catalog
        assert [after.revision for _, after in ground.seen] == [batch.revision for batch, _ in ground.seen]
        found = await ground.storage.get(keys.LINEAGE)
        assert found.value == ground.writer.catalog.lineage
