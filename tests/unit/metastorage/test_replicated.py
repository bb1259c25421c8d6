"""The meta storage over a log: what it answers when its store or its replica declines."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import LogBody, LogPosition
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Indefinite, Refused
from leasehold.ids import Revision
from leasehold.limits.log import LOG_ENTRY_INLINE_BYTES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import Leadership, LeadershipLost
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import StoreFull, Swap
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.replica import CHUNK_ROWS, MemoryReplica, MemoryReplicaPlace
from leasehold.testing.requests import LATE_S, RequestFate
from leasehold.wire.ports import Entropy
from tests.unit.metastorage.log_ground import Fates, virtual_clock


class DecliningReplica(MemoryReplica):
    """Declines to apply, as on a full disk, while `full`."""

    full = False
    code = ErrorCode.DISK_FULL

    async def apply(self, position: LogPosition, bodies: Sequence[LogBody]) -> None:
        if self.full:
            raise Refused("no space for the replica", code=self.code, hint="free space")
        await super().apply(position, bodies)


class DecliningPlace(MemoryReplicaPlace):
    """Builds such replicas, and remembers the last."""

    replica: DecliningReplica

    async def build(self, *args, **kwargs) -> DecliningReplica:
        await super().build(*args, **kwargs)
        assert self.kept is not None
        self.replica = DecliningReplica(self, self.kept)
        return self.replica


class Coordinator:
    """A storage that leads, and its store."""

    def __init__(self, storage: ReplicatedMetaStorage, leadership: Leadership, store: MemoryLogStore) -> None:
        self.storage = storage
        self.leadership = leadership
        self.store = store
        self.fates = Fates()
        self.place = DecliningPlace()
        self.entropy: Entropy

    async def put(self, key: bytes, value: bytes = b"v") -> int:
        txn = Txn(compares=self.leadership.fence(), then=(Change(key, value),))
        return (await self.storage.txn(txn)).revision


def leading(main: Callable[[Coordinator], Awaitable[None]], *, holds: bool = True) -> None:
    """Runs `main` with a coordinator that leads."""

    async def run(random) -> None:
        fates, place, store = Fates(), DecliningPlace(), MemoryLogStore(KeptLog())
        entropy = SeededEntropy(random)
        storage = await ReplicatedMetaStorage.open(Log(store), place, virtual_clock(), entropy)
        leadership = await storage.campaign("c1")
        coordinator = Coordinator(storage, leadership, store)
        coordinator.fates, coordinator.place, coordinator.entropy = fates, place, entropy
        store.before = fates

        async def hold() -> None:
            with pytest.raises(LeadershipLost):
                await leadership.hold(lambda _: None)

        holding = asyncio.ensure_future(hold()) if holds else None
        await main(coordinator)
        if holding is not None:
            await leadership.resign()
            holding.cancel()
        await storage.close()

    run_virtual(run, 1)


async def value(storage: ReplicatedMetaStorage, key: bytes) -> bytes | None:
    found = await storage.get(key)
    return None if found is None else found.value


def test_what_the_replica_declines_has_happened_all_the_same() -> None:
    async def main(coordinator: Coordinator) -> None:
        storage = coordinator.storage
        await coordinator.put(b"a")
        coordinator.place.replica.full = True
        with pytest.raises(Indefinite, match="it is in the log, but not in the replica: no space"):
            await coordinator.put(b"b")
        with pytest.raises(Refused, match="no space"):
            await coordinator.put(b"c")
        coordinator.place.replica.full = False
        assert await coordinator.put(b"d") == 3
        assert [await value(storage, key) for key in (b"a", b"b", b"c", b"d")] == [b"v", b"v", None, b"v"]

    leading(main)


@pytest.mark.parametrize("code", [ErrorCode.DISK_FULL, ErrorCode.BUSY])
def test_a_follower_goes_on_once_its_replica_takes_entries_again(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(coordinator: Coordinator) -> None:
        place = DecliningPlace()
        shared = Log(MemoryLogStore(coordinator.store.kept))
        follower = await ReplicatedMetaStorage.open(shared, place, virtual_clock(), coordinator.entropy)
        place.replica.code, place.replica.full = code, True
        await coordinator.put(b"a")
        for _ in range(3):
            with pytest.raises(Indefinite, match="no space"):
                await follower.confirm()
        place.replica.full = False
        assert await follower.confirm() == 1
        assert await value(follower, b"a") == b"v"
        await follower.close()

    leading(main)
    assert sum("can't follow the log" in one.getMessage() for one in caplog.records) == 1


def test_an_error_that_nobody_expects_is_told_to_all(caplog: pytest.LogCaptureFixture) -> None:
    async def main(coordinator: Coordinator) -> None:
        place = MemoryReplicaPlace()
        shared = Log(MemoryLogStore(coordinator.store.kept))
        follower = await ReplicatedMetaStorage.open(shared, place, virtual_clock(), coordinator.entropy)

        def fail(_position: LogPosition, _store: MemoryStore) -> None:
            raise OSError("the disk is gone")

        place.on_apply = fail
        await coordinator.put(b"a")
        with pytest.raises(Indefinite):
            await follower.confirm()
        await asyncio.sleep(1)
        with pytest.raises(Refused, match="OSError: the disk is gone"):
            await follower.status()
        await follower.close()

    leading(main)
    assert [one.getMessage() for one in caplog.records if one.exc_info] == [
        "the meta storage has failed: the disk is gone"
    ]


def test_the_parts_of_an_entry_stay_that_is_in_the_log_but_not_in_the_replica() -> None:
    async def main(coordinator: Coordinator) -> None:
        store, storage = coordinator.store, coordinator.storage
        coordinator.place.replica.full = True
        with pytest.raises(Indefinite, match="it is in the log, but not in the replica"):
            await coordinator.put(b"large", bytes(2 * LOG_ENTRY_INLINE_BYTES_MAX))
        fence = await Log(store).term()
        assert fence is not None
        await storage.upkeep.tidy(fence)
        other = await ReplicatedMetaStorage.open(
            Log(MemoryLogStore(store.kept)), MemoryReplicaPlace(), virtual_clock(), coordinator.entropy
        )
        assert await value(other, b"large") == bytes(2 * LOG_ENTRY_INLINE_BYTES_MAX)
        await other.close()

    leading(main)


def test_appends_go_on_while_the_parts_of_earlier_entries_are_looked_at() -> None:
    async def main(coordinator: Coordinator) -> None:
        looking, go_on = asyncio.Event(), asyncio.Event()

        async def before(request: str) -> RequestFate:
            if request.startswith("get entry/"):
                looking.set()
                await go_on.wait()
            return RequestFate.ANSWERED

        for key in (b"a", b"b"):
            await coordinator.put(key, bytes(2 * LOG_ENTRY_INLINE_BYTES_MAX))
        coordinator.store.before = before
        await looking.wait()
        async with asyncio.timeout(5):
            assert await coordinator.put(b"large", bytes(2 * LOG_ENTRY_INLINE_BYTES_MAX)) == 3
        go_on.set()
        await asyncio.sleep(11)
        parts = [key for key in coordinator.store.kept.values if key.startswith("part/")]
        assert {key[:21] for key in parts} == {f"part/{number:016d}" for number in (1, 2, 3)}

    leading(main)


def test_a_full_store_declines_what_is_sent_once_and_goes_on_when_it_is_cleared() -> None:
    async def main(coordinator: Coordinator) -> None:
        await coordinator.put(b"a")
        coordinator.store.kept.is_full = True
        with pytest.raises(StoreFull) as caught:
            await coordinator.put(b"b")
        assert caught.value.hint
        coordinator.store.kept.is_full = False
        assert await coordinator.put(b"c") == 2
        assert await value(coordinator.storage, b"b") is None

    leading(main)


def test_a_full_store_says_nothing_about_an_append_that_got_no_answer_before() -> None:
    async def main(coordinator: Coordinator) -> None:
        kept = coordinator.store.kept

        async def late_then_full(request: str) -> RequestFate:
            if request.startswith("swap"):
                kept.is_full = True
                coordinator.store.before = coordinator.fates
                return RequestFate.LOST_BEFORE
            return RequestFate.ANSWERED

        coordinator.store.before = late_then_full
        putting = asyncio.ensure_future(coordinator.put(b"b"))
        await asyncio.sleep(1)
        assert not putting.done()
        kept.is_full = False
        assert await putting == 1

    leading(main)


def test_an_append_without_an_answer_ends_with_the_leadership_even_in_a_full_store() -> None:
    async def main(coordinator: Coordinator) -> None:
        kept = coordinator.store.kept

        async def late_then_full(request: str) -> RequestFate:
            if request.startswith("swap") and not kept.is_full:
                kept.is_full = True
                return RequestFate.LOST_BEFORE
            return RequestFate.ANSWERED

        coordinator.store.before = late_then_full
        clock = virtual_clock()
        began_ns = clock.now_ns()
        with pytest.raises(Indefinite, match="the leadership ended before it was known"):
            await coordinator.put(b"b")
        assert clock.now_ns() - began_ns < 4 * SECOND_NS

    leading(main, holds=False)


def test_a_store_that_stays_full_ends_the_term_and_one_that_has_room_again_begins_the_next() -> None:
    async def main(coordinator: Coordinator) -> None:
        coordinator.store.kept.is_full = True
        with pytest.raises(LeadershipLost):
            await coordinator.leadership.hold(lambda _: None)
        campaigning = asyncio.ensure_future(coordinator.storage.campaign("c1"))
        await asyncio.sleep(20)
        assert not campaigning.done()
        coordinator.store.kept.is_full = False
        assert (await campaigning).term == 2

    leading(main, holds=False)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_log_without_one_of_its_entries_is_corrupt(missing: int) -> None:
    async def main(coordinator: Coordinator) -> None:
        for key in (b"a", b"b", b"c"):
            await coordinator.put(key)
        kept = coordinator.store.kept.copy()
        kept.swap(Swap(unchanged={}, deletes=(f"entry/{missing:016d}",)))
        with pytest.raises(Corrupt, match=f"entry {missing} is not in the log any more"):
            await ReplicatedMetaStorage.open(
                Log(MemoryLogStore(kept)), MemoryReplicaPlace(), virtual_clock(), coordinator.entropy
            )

    leading(main)


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.LATE])
def test_a_lost_request_changes_no_outcome(fate: RequestFate) -> None:
    async def main(coordinator: Coordinator) -> None:
        for at in range(3):
            coordinator.fates.of({at: fate, at + 2: fate})
            before = (await coordinator.storage.range(b"", b"\xff", limit=1)).revision
            assert await coordinator.put(b"key-%d" % at) == before + 1
            await asyncio.sleep(LATE_S + 1)
            assert (await coordinator.storage.range(b"", b"\xff", limit=1)).revision == before + 1

    leading(main)


def test_a_replica_that_is_far_behind_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def main(coordinator: Coordinator) -> None:
        storage = coordinator.storage
        storage.upkeep.log_bytes_min = 1
        for number in range(3 * CHUNK_ROWS):
            await coordinator.put(b"key-%02d" % number)
        await storage.compact(Revision(3 * CHUNK_ROWS), coordinator.leadership.fence())
        await asyncio.sleep(11)
        for number in range(7):
            await coordinator.put(b"large", b"%d" % number * LOG_ENTRY_INLINE_BYTES_MAX)
        kept = coordinator.store.kept

        async def slow(request: str) -> RequestFate:
            await asyncio.sleep(2 if request.startswith(("get chunk", "page entry")) else 0)
            return RequestFate.ANSWERED

        store = MemoryLogStore(kept, before=slow)
        other = await ReplicatedMetaStorage.open(Log(store), MemoryReplicaPlace(), virtual_clock(), coordinator.entropy)
        await other.close()

    with caplog.at_level(logging.INFO, logger="leasehold.metastorage.log.bootstrap"):
        leading(main)
    assert [one.getMessage() for one in caplog.records] == [
        "chunks of the checkpoint that the replica has loaded: 2 of 3",
        "entries of the log that the replica has applied: 24 of 29",
        "entries of the log that the replica has applied: 26 of 29",
        "entries of the log that the replica has applied: 28 of 29",
    ]


def test_a_campaign_that_is_cancelled_leaves_no_replica_half_built() -> None:
    """A replica that is built anew ends the watches of the old one, and with them the coordinator's campaign."""

    async def main(coordinator: Coordinator) -> None:
        storage, kept = coordinator.storage, coordinator.store.kept
        place = MemoryReplicaPlace()
        store = MemoryLogStore(kept)
        other = await ReplicatedMetaStorage.open(Log(store), place, virtual_clock(), coordinator.entropy)
        is_cut, building = True, asyncio.Event()

        async def before(request: str) -> RequestFate:
            nonlocal is_cut
            if request.startswith("get chunk") and not building.is_set():
                building.set()
                await asyncio.sleep(1)
            is_cut = is_cut and request != "swap log/leader log/term"
            return RequestFate.LOST_BEFORE if is_cut and request == "get log/head" else RequestFate.ANSWERED

        store.before = before
        storage.upkeep.log_bytes_min = 1
        for number in range(3 * CHUNK_ROWS):
            await coordinator.put(b"key-%02d" % number)
        await storage.compact(Revision(3 * CHUNK_ROWS), coordinator.leadership.fence())
        await asyncio.sleep(11)
        await coordinator.leadership.resign()
        campaigning = asyncio.ensure_future(other.campaign("c2"))
        await building.wait()
        campaigning.cancel()
        await asyncio.wait([campaigning])
        left = await other.leader()
        assert left is not None
        assert (left.term, left.holder) == (2, ""), "nobody waits for the end of a term that nobody serves"
        assert await other.confirm() == 3 * CHUNK_ROWS
        assert await value(other, b"key-20") == b"v"
        await other.close()

    leading(main)


@pytest.mark.parametrize("lost", [0, 1])
def test_who_gives_up_says_so_until_the_store_has_heard_it(lost: int) -> None:
    async def main(coordinator: Coordinator) -> None:
        coordinator.fates.of({lost: RequestFate.LOST_BEFORE})
        await coordinator.leadership.resign()
        left = await coordinator.storage.leader()
        assert left is not None
        assert (left.term, left.holder) == (1, "")

    leading(main, holds=False)
