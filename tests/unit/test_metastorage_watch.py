"""The fan-out's two states with a tiny queue, and the fault knobs of the in-memory meta storage."""

import asyncio
from contextlib import aclosing

import pytest

from leasehold.core.words.operations import Change, RevisionChanges, Txn
from leasehold.errors import Indefinite
from leasehold.ids import Revision
from leasehold.metastorage.contract import Compacted
from leasehold.metastorage.watch import Fanout, HistoryPart
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.requests import RequestFate


class Log:
    """A history with one change per revision; `reads` records from where it was read."""

    def __init__(self, fanout: Fanout, per_read: int = 2) -> None:
        self.fanout = fanout
        self.per_read = per_read
        self.batches: list[RevisionChanges] = []
        self.minimum = 1
        self.reads: list[int] = []

    def write(self, count: int = 1, *, key: bytes = b"k", publish: bool = True) -> None:
        for _ in range(count):
            batch = RevisionChanges(Revision(len(self.batches) + 1), (Change(key, b""),))
            self.batches.append(batch)
            if publish:
                self.fanout.publish((batch,))

    async def read(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        self.reads.append(from_revision)
        if from_revision < self.minimum:
            raise Compacted(Revision(self.minimum))
        found = self.batches[from_revision - 1 :][: self.per_read]
        covered = found[-1].revision if found else Revision(len(self.batches))
        within = tuple(batch for batch in found if start <= batch.changes[0].key < end)
        return HistoryPart(batches=within, covered=covered, complete=covered == len(self.batches))


class Unread:
    """Stands for a revision that is published when no watch is open: nobody may look at it."""

    @property
    def changes(self) -> tuple[Change, ...]:
        raise AssertionError("a watch that has ended was offered a revision")


def assert_nobody_watches(fanout: Fanout) -> None:
    fanout.publish((Unread(),))  # type: ignore[arg-type]


async def revisions(watch, count: int) -> list[int]:
    return [(await anext(watch)).revision for _ in range(count)]


async def test_history_is_read_in_parts_and_then_no_more() -> None:
    fanout = Fanout(3)
    log = Log(fanout)
    log.write(5)
    async with aclosing(fanout.follow(b"", b"z", Revision(1), log.read)) as watch:
        assert await revisions(watch, 5) == [1, 2, 3, 4, 5]
        for number in range(6, 12):
            waiting = asyncio.create_task(anext(watch))
            await asyncio.sleep(0)
            log.write()
            assert (await waiting).revision == number
    assert log.reads == [1, 3, 5]
    assert_nobody_watches(fanout)


async def test_what_commits_while_history_is_read_is_seen_once() -> None:
    fanout = Fanout(10)
    log = Log(fanout)
    log.write(3)
    async with aclosing(fanout.follow(b"", b"z", Revision(1), log.read)) as watch:
        seen: list[int] = []
        for _ in range(8):
            seen += await revisions(watch, 1)
            if len(log.batches) < 8:
                log.write()  # in the history that is still to be read, and in the queue
        assert seen == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_commit_published_after_it_was_read_is_not_repeated() -> None:
    fanout = Fanout(10)
    log = Log(fanout)
    log.write(2, publish=False)
    async with aclosing(fanout.follow(b"", b"z", Revision(1), log.read)) as watch:
        assert await revisions(watch, 2) == [1, 2]
        fanout.publish(log.batches)
        log.write()
        assert await revisions(watch, 1) == [3]


async def test_an_overflow_reads_on_from_the_first_revision_it_dropped() -> None:
    fanout = Fanout(3)
    log = Log(fanout, per_read=100)
    log.write()
    async with aclosing(fanout.follow(b"", b"z", Revision(1), log.read)) as watch:
        assert await revisions(watch, 1) == [1]
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        log.write(9)
        assert (await waiting).revision == 2
        assert await revisions(watch, 8) == list(range(3, 11))
        assert log.reads == [1, 5]
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        log.write()
        assert (await waiting).revision == 11, "live again"
        assert log.reads == [1, 5]


async def test_compaction_below_what_was_dropped_loses_nothing() -> None:
    fanout = Fanout(3)
    log = Log(fanout, per_read=100)
    log.write()
    async with aclosing(fanout.follow(b"", b"z", Revision(1), log.read)) as watch:
        assert await revisions(watch, 1) == [1]
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        log.write(9)
        log.minimum = 5
        assert [(await waiting).revision, *await revisions(watch, 8)] == list(range(2, 11))
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        log.write(9)
        log.minimum = 15
        assert [(await waiting).revision, *await revisions(watch, 2)] == [11, 12, 13]
        with pytest.raises(Compacted):
            await anext(watch)


async def test_a_watch_that_can_not_be_replayed_ends() -> None:
    fanout = Fanout(3)
    log = Log(fanout)
    log.write(5)
    log.minimum = 3
    with pytest.raises(Compacted):
        await anext(fanout.follow(b"", b"z", Revision(1), log.read))
    assert_nobody_watches(fanout)


async def test_compaction_of_what_others_wrote_meanwhile_loses_nothing() -> None:
    fanout = Fanout(3)
    log = Log(fanout, per_read=100)
    log.write()
    async with aclosing(fanout.follow(b"a", b"m", Revision(1), log.read)) as watch:
        assert await revisions(watch, 1) == [1]
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        log.write(3)
        log.write(5, key=b"z")
        log.write(2)
        log.minimum = 9
        assert [(await waiting).revision, *await revisions(watch, 4)] == [2, 3, 4, 10, 11]


# ------------------------------------------------------------ fault knobs


def put(value: bytes) -> Txn:
    return Txn(then=(Change(b"a", value),))


async def test_an_answer_lost_before_it_happened() -> None:
    async def lose(request: str) -> RequestFate:
        return RequestFate.LOST_BEFORE if request == "txn" else RequestFate.ANSWERED

    storage = MemoryMetaStorage(MemoryStore(), before=lose)
    with pytest.raises(Indefinite):
        await storage.txn(put(b"1"))
    assert await storage.get(b"a") is None


async def test_an_answer_lost_after_it_happened() -> None:
    async def lose(request: str) -> RequestFate:
        return RequestFate.LOST_AFTER if request in ("txn", "campaign") else RequestFate.ANSWERED

    storage = MemoryMetaStorage(MemoryStore(), before=lose)
    with pytest.raises(Indefinite):
        await storage.txn(put(b"1"))
    found = await storage.get(b"a")
    assert found is not None
    with pytest.raises(Indefinite):
        await storage.campaign("one")
    storage = MemoryMetaStorage(storage.store)
    assert (await storage.campaign("two")).term == 2, "the first election took a term, and holds nothing up"


async def test_delays_of_requests_and_of_answers() -> None:
    go, answer = asyncio.Event(), asyncio.Event()

    async def hold(request: str) -> RequestFate:
        await go.wait()
        return RequestFate.ANSWERED

    async def hold_answer(request: str) -> None:
        await answer.wait()

    store = MemoryStore()
    slow = MemoryMetaStorage(store, before=hold, after=hold_answer)
    other = MemoryMetaStorage(store)
    writing = asyncio.create_task(slow.txn(put(b"1")))
    assert await other.get(b"a") is None
    go.set()
    while await other.get(b"a") is None:
        assert not writing.done()
    assert not writing.done()
    answer.set()
    assert (await writing).revision == 1


async def test_a_severed_handle_changes_nothing_any_more() -> None:
    go = asyncio.Event()

    async def hold(request: str) -> RequestFate:
        await go.wait()
        return RequestFate.ANSWERED

    store = MemoryStore()
    dying = MemoryMetaStorage(store, before=hold)
    writing = asyncio.create_task(dying.txn(put(b"1")))
    other = MemoryMetaStorage(store)
    await other.status()
    dying.sever()
    go.set()
    with pytest.raises(Indefinite):
        await writing
    assert await other.get(b"a") is None


async def test_a_handle_that_dies_hands_leadership_over_and_a_deposed_one_is_fenced() -> None:
    store = MemoryStore()
    first, second = MemoryMetaStorage(store), MemoryMetaStorage(store)
    leading = await first.campaign("first")
    waiting = asyncio.create_task(second.campaign("second"))
    await second.status()
    assert not waiting.done()
    first.sever()
    following = await waiting
    assert following.term == leading.term + 1
    store.depose()
    third = await MemoryMetaStorage(store).campaign("third")
    fenced = Txn(compares=following.fence(), then=(Change(b"a", b"late"),))
    assert not (await second.txn(fenced)).succeeded
    assert third.term == following.term + 1
