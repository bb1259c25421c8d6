"""The quota of a store: when its leader trims early, and when it lets nothing grow any more."""

import asyncio
import logging

import pytest

from leasehold.core.log.space import Room
from leasehold.core.words.records import LogBody
from leasehold.ids import Revision
from leasehold.metastorage.log.store import StoreFull
from leasehold.testing.log_store import MemoryLogStore
from tests.unit.metastorage.test_replicated import Coordinator, leading
from tests.unit.metastorage.upkeep_ground import World, filled, in_virtual_time, rewriting


class FreeingStore(MemoryLogStore):
    """Counts how often it was told to free its history."""

    freed = 0

    async def free_history(self) -> None:
        self.freed += 1


def used(world: World) -> int:
    return world.ground.kept.size().used_bytes


def quota(world: World, percent: int) -> None:
    """Sets the quota so that this much of it is used."""
    world.ground.kept.quota_bytes = used(world) * 100 // percent


async def with_freeing_store() -> tuple[World, FreeingStore]:
    world = await filled()
    store = FreeingStore(world.ground.kept)
    world.ground.log.store = store  # type: ignore[misc]
    world.upkeep.log_bytes_min = 1 << 40
    return world, store


def test_the_leader_frees_history_and_warns_once_as_the_store_fills_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        world, store = await with_freeing_store()
        for percent, room, freed, warnings in (
            (50, Room.AMPLE, 0, 0),
            (72, Room.SCARCE, 1, 1),
            (80, Room.SCARCE, 2, 1),
            (86, Room.NEARLY_FULL, 3, 2),
            (99, Room.NEARLY_FULL, 4, 2),
            (50, Room.AMPLE, 4, 2),
        ):
            quota(world, percent)
            await world.tidy()
            assert (world.upkeep.room, store.freed) == (room, freed)
            assert sum(one.levelno == logging.WARNING for one in caplog.records) == warnings
        assert [one.getMessage().partition(":")[0] for one in caplog.records] == [
            "the store of the log fills up",
            "the store of the log is nearly full",
            "the store of the log has room again",
        ]

    with caplog.at_level(logging.INFO, logger="leasehold.metastorage.log.upkeep"):
        in_virtual_time(main)


def test_a_store_that_is_full_is_nearly_full_whatever_is_used() -> None:
    async def main() -> None:
        world = await filled()
        world.ground.kept.is_full = True
        with pytest.raises(StoreFull):
            await world.tidy()
        assert world.upkeep.room is Room.NEARLY_FULL

    in_virtual_time(main)


async def rewritten(world: World, times: int) -> None:
    """One key again and again, and MM after it: a long log and a small state."""
    first = world.replica.position.revision + 1
    for revision in range(first, first + times):
        await world.append(rewriting(revision, b"key-0004", bytes(40_000)))
    await world.append(LogBody(minimum=Revision(first + times - 1)))


def test_a_scarce_store_is_trimmed_before_the_log_is_long() -> None:
    async def main() -> None:
        world, _ = await with_freeing_store()
        await rewritten(world, 30)
        world.upkeep.log_bytes_min = 1 << 40
        quota(world, 69)
        await world.tidy()
        assert await world.ground.log.checkpoint() is None
        quota(world, 70)
        await world.tidy()
        assert await world.ground.log.checkpoint() is not None
        await world.tidy()
        assert world.upkeep.room is Room.AMPLE

    in_virtual_time(main)


def test_a_store_that_is_nearly_full_of_log_is_trimmed_and_one_of_state_is_not() -> None:
    async def main() -> None:
        world, _ = await with_freeing_store()
        await rewritten(world, 30)
        quota(world, 95)
        await world.tidy()
        first = await world.ground.log.checkpoint()
        assert first is not None, "the state has 40 kB of 1.2 MB"
        await rewritten(world, 30)
        kept = world.ground.kept
        free_bytes = sum(one.size_bytes for one in first.checkpoint.chunks) - 1_000
        kept.quota_bytes = used(world) + free_bytes
        await world.tidy()
        assert world.upkeep.room is Room.NEARLY_FULL
        assert await world.ground.log.checkpoint() == first, "there is no space for two"
        assert all(int(name[:16]) == first.checkpoint.position.number for name in world.ground.names("chunk"))
        kept.quota_bytes += 2_000
        await world.tidy()
        assert await world.ground.log.checkpoint() != first

    in_virtual_time(main)


def test_what_is_nearly_full_is_known_to_who_leads_and_ends_with_the_term() -> None:
    async def main(coordinator: Coordinator) -> None:
        kept, storage = coordinator.store.kept, coordinator.storage
        await coordinator.put(b"a")
        assert not storage.is_nearly_full
        kept.quota_bytes = kept.size().used_bytes
        await asyncio.sleep(11)
        assert storage.is_nearly_full
        await coordinator.put(b"b")
        kept.quota_bytes *= 10
        await asyncio.sleep(10)
        assert not storage.is_nearly_full
        kept.is_full = True
        await asyncio.sleep(1)
        kept.is_full = False
        await coordinator.put(b"c")
        kept.quota_bytes = 1
        await asyncio.sleep(10)
        assert storage.is_nearly_full
        await coordinator.leadership.resign()
        await asyncio.sleep(10)
        assert not storage.is_nearly_full

    leading(main)
