"""Checkpoints and trimming: when, of what, and that no fault at any step loses anything."""

import asyncio
import contextlib
import itertools

import pytest

from leasehold.core.log.entry import draft
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import LogBody
from leasehold.errors import Indefinite, Refused
from leasehold.ids import Revision, Term
from leasehold.limits.log import LOG_ENTRY_INLINE_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS
from leasehold.metastorage.contract import LeadershipLost
from leasehold.metastorage.log.log import Log, Trimmed
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import LATE_S, RequestFate
from tests.unit.core.log.log_words import entry_id
from tests.unit.metastorage.log_ground import Ground, sized, virtual_clock
from tests.unit.metastorage.upkeep_ground import (
    CHUNKS,
    KEYS,
    Checked,
    World,
    content,
    filled,
    in_virtual_time,
    replica_at,
    rewriting,
    seen_by,
)

# ------------------------------------------------------------ what a checkpoint is


def test_a_checkpoint_holds_mm_and_the_log_goes_on_from_there() -> None:
    async def main() -> None:
        checked = await Checked.made()
        world = checked.world
        places = {number: await replica_at(world, number) for number in (0, 1, 2, 3, 4, 7)}
        await world.tidy()
        stored = await world.ground.log.checkpoint()
        assert stored is not None
        assert (stored.checkpoint.position.number, stored.checkpoint.position.revision) == (3, KEYS + 1)
        assert (stored.checkpoint.minimum, len(stored.checkpoint.chunks)) == (KEYS + 2, CHUNKS)
        assert world.ground.names("entry") == [f"{number:016d}" for number in (4, 5, 6, 7)]
        await checked.look()
        for number, place in places.items():
            before = place.kept
            assert await seen_by(world.ground.kept, place) == checked.expected
            assert place.kept is not None
            assert before is not None
            assert (place.kept.store is before.store) == (number >= 3), "a replica within the log goes on as it is"

    in_virtual_time(main)


def test_the_next_one_takes_its_place_once_more_lies_below_mm() -> None:
    async def main() -> None:
        checked = await Checked.made()
        world = checked.world
        await world.tidy()
        first = await world.ground.log.checkpoint()
        await world.tidy()
        assert await world.ground.log.checkpoint() == first, "nothing more lies below MM"
        world.upkeep.log_bytes_min = 0
        await world.append(LogBody(minimum=Revision(KEYS + 5)))
        await world.tidy()
        assert await world.ground.log.checkpoint() == first, "less lies below MM than the checkpoint has"
        for revision in range(KEYS + 7, KEYS + 60):
            await world.append(rewriting(revision, b"key-0004", b"x" * 50))
        await world.append(LogBody(minimum=Revision(KEYS + 58)))
        await world.tidy()
        second = await world.ground.log.checkpoint()
        assert second is not None
        assert second.checkpoint.minimum == KEYS + 58
        assert {int(name[:16]) for name in world.ground.names("chunk")} == {second.checkpoint.position.number}
        assert await seen_by(world.ground.kept, MemoryReplicaPlace()) == await content(world.replica)

    in_virtual_time(main)


def test_what_lies_above_mm_is_no_reason_for_a_checkpoint() -> None:
    async def main() -> None:
        world = await filled()
        entry = await world.ground.log.entry(3)
        assert entry is not None
        assert world.replica.position.log_bytes > entry.log_bytes
        world.upkeep.log_bytes_min = entry.log_bytes
        await world.tidy()
        assert await world.ground.log.checkpoint() is None
        world.upkeep.log_bytes_min = entry.log_bytes - 1
        await world.tidy()
        assert await world.ground.log.checkpoint() is not None

    in_virtual_time(main)


# ------------------------------------------------------------ faults


async def requests() -> int:
    """How many requests the store gets in a round with a checkpoint."""
    world = await filled()
    world.ground.fates.of({})
    await world.tidy()
    return len(world.ground.fates.asked)


def test_a_round_asks_for_each_step() -> None:
    async def main() -> None:
        world = await filled()
        world.ground.fates.of({})
        await world.tidy()
        assert world.ground.fates.asked == [
            *("size", "get", "page", "page", "get"),
            *("get", "get", "get"),  # the last entry below MM
            *["swap"] * CHUNKS,
            *("swap", "get"),
            *["delete_below"] * 3,
        ]
        assert await requests() == len(world.ground.fates.asked)

    in_virtual_time(main)


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.LATE])
def test_a_lost_request_loses_nothing(fate: RequestFate) -> None:
    async def main() -> None:
        for at in range(await requests()):
            checked = await Checked.made()
            world = checked.world
            world.ground.fates.of({at: fate})
            with contextlib.suppress(Indefinite):
                await world.tidy()
            await checked.look()
            await asyncio.sleep(LATE_S + 1)
            await checked.look()
            await checked.finish()

    in_virtual_time(main)


async def crash(at: int, *, happened: bool) -> None:
    checked = await Checked.made()
    fates, store = checked.world.ground.fates, checked.world.ground.log.store
    assert isinstance(store, MemoryLogStore)

    async def before(request: str) -> RequestFate:
        if len(fates.asked) == at and not happened:
            store.sever()
        return await fates(request)

    async def after(_: str) -> None:
        if len(fates.asked) == at + 1 and happened:
            store.sever()

    fates.of({})
    store.before, store.after = before, after
    with pytest.raises((Indefinite, Refused)):
        await checked.world.tidy()
    await checked.look()
    await checked.finish()


@pytest.mark.parametrize("happened", [False, True])
def test_a_crash_at_any_request_loses_nothing(happened: bool) -> None:
    async def main() -> None:
        for at in range(await requests()):
            await crash(at, happened=happened)

    in_virtual_time(main)


async def take_over(at: int, *, tidies: bool) -> None:
    checked = await Checked.made()
    old, other = checked.world, Ground()
    other.kept, other.log = old.ground.kept, Log(MemoryLogStore(old.ground.kept))

    async def before(request: str) -> RequestFate:
        if len(old.ground.fates.asked) == at:
            _, fence = await other.lead(2, "c2")
            new = World(other, fence)
            new.replica = old.replica
            if tidies:
                await new.tidy()
        return await old.ground.fates(request)

    store = old.ground.log.store
    assert isinstance(store, MemoryLogStore)
    old.ground.fates.of({})
    store.before = before
    with contextlib.suppress(Trimmed):
        await old.tidy()
    await checked.look()
    await checked.finish()


@pytest.mark.parametrize("tidies", [False, True])
def test_another_term_at_any_request_loses_nothing(tidies: bool) -> None:
    """The next leader may write a checkpoint of its own, while the old one still believes that it leads."""

    async def main() -> None:
        for at in range(await requests()):
            await take_over(at, tidies=tidies)

    in_virtual_time(main)


def test_an_ended_term_swaps_no_checkpoint_in() -> None:
    async def main() -> None:
        checked = await Checked.made()
        await checked.world.ground.lead(2, "c2")
        await checked.world.tidy()
        assert await checked.world.ground.log.checkpoint() is None
        assert len(checked.world.ground.names("entry")) == 7
        await checked.look()

    in_virtual_time(main)


def test_a_leader_whose_term_has_ended_does_not_ask_for_ever() -> None:
    async def main() -> None:
        world = await filled()
        asked = await requests()
        world.ground.fates.of(dict.fromkeys(range(8, asked + 1000), RequestFate.LOST_BEFORE))

        def end() -> None:
            world.leads = len(world.ground.fates.asked) < 50

        world.ground.fates.on_request = end
        with pytest.raises(Indefinite):
            await world.tidy()
        assert len(world.ground.fates.asked) == 50

    in_virtual_time(main)


# ------------------------------------------------------------ orphans, pace, compactions


def test_a_round_deletes_the_parts_that_an_earlier_leader_left() -> None:
    async def main() -> None:
        world = await filled()
        head = await world.ground.head()
        body = sized(head.position.revision + 1, 2 * LOG_ENTRY_INLINE_BYTES_MAX)
        world.ground.fates.of({1: RequestFate.LOST_BEFORE})
        with pytest.raises(Indefinite):
            await world.ground.log.append(draft(head.position, entry_id(7), Term(1), body), head, world.fence)
        assert len(world.ground.names("part")) == 1
        world.ground.fates.of({})
        _, world.fence = await world.ground.lead(2)
        await world.append(body)
        await world.tidy()
        assert [int(name[17:49], 16) for name in world.ground.names("part")] == [1007, 1007]
        world.ground.fates.of({})
        await world.tidy()
        assert world.ground.fates.asked[:4] == ["size", "get", "page", "get"], "an entry is not read again"

    in_virtual_time(main)


def test_a_round_rests_after_each_chunk_as_long_as_the_chunk_took() -> None:
    async def main() -> None:
        world = await filled()
        store = world.ground.log.store
        assert isinstance(store, MemoryLogStore)
        times: list[tuple[str, int]] = []

        async def slow(request: str) -> RequestFate:
            began_ns = now.now_ns()
            name = request.partition(" ")[0]
            await asyncio.sleep(0.05 if name == "swap" else 0)
            times.append((name, began_ns))
            return RequestFate.ANSWERED

        now = virtual_clock()
        store.before = slow
        await world.tidy()
        began = [at for request, at in times if request == "swap"]
        assert [later - at for at, later in itertools.pairwise(began)] == [100 * MILLISECOND_NS] * CHUNKS

    in_virtual_time(main)


def test_a_compaction_waits_until_the_state_at_mm_is_read() -> None:
    async def main() -> None:
        store = MemoryLogStore(KeptLog())
        storage = await ReplicatedMetaStorage.open(Log(store), MemoryReplicaPlace(), virtual_clock(), Counted())
        leadership = await storage.campaign("c1")
        storage.upkeep.log_bytes_min = 1

        async def lead() -> None:
            with contextlib.suppress(LeadershipLost, asyncio.CancelledError):
                await leadership.hold(lambda _: None)

        leading = asyncio.ensure_future(lead())
        for number in range(20):
            await storage.txn(Txn(then=(Change(b"key-%04d" % number, b"v"),)))
        await storage.compact(Revision(10), leadership.fence())
        going, chunks = asyncio.Event(), 0

        async def slow(request: str) -> RequestFate:
            nonlocal chunks
            if request.startswith("swap") and storage.upkeep.reading.locked():
                chunks += 1
                going.set()
                await asyncio.sleep(0.1)
            return RequestFate.ANSWERED

        store.before = slow
        await going.wait()
        compacting = asyncio.ensure_future(storage.compact(Revision(15), leadership.fence()))
        await asyncio.sleep(0.15)
        assert not compacting.done()
        await storage.txn(Txn(then=(Change(b"beside", b"v"),)))
        assert not compacting.done(), "a transaction does not wait"
        await compacting
        assert chunks >= 2
        await asyncio.sleep(1)
        stored = await storage.upkeep.reading.acquire() and await Log(store).checkpoint()
        assert stored
        assert stored.checkpoint.minimum == 10
        assert (await storage.status()).minimum == 15
        assert await seen_by(store.kept.copy(), MemoryReplicaPlace()) == await content(storage)
        leading.cancel()
        await storage.close()

    in_virtual_time(main)


class Counted:
    """Ids that differ."""

    def __init__(self) -> None:
        self._next = 0

    def hex_128(self) -> str:
        self._next += 1
        return entry_id(self._next)
