"""Compaction by a leader over a real file: what goes is gone from there, what is held is not."""

import asyncio
import contextlib

from leasehold.coordinator.runtime import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.upkeep.retention import Retaining
from leasehold.coordinator.writer import Writer
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, Txn
from leasehold.limits.metastorage import RETENTION_HOLD_NS, RETENTION_NS
from leasehold.metastorage.sqlite import SqliteMetaStorage

CLUSTER_ID = "c" * 32


class Hands:
    """A clock that stands until it is moved. Whoever sleeps by it wakes when it is told to."""

    def __init__(self):
        self.at_ns = 0
        self._asleep, self._woken = asyncio.Event(), asyncio.Event()

    def now_ns(self):
        return self.at_ns

    async def sleep_until(self, _deadline_ns):
        self._asleep.set()
        await self._woken.wait()
        self._woken.clear()

    async def wake(self):
        """Wakes the sleeper, and waits until it sleeps again."""
        await self._asleep.wait()
        self._asleep.clear()
        self._woken.set()
        await self._asleep.wait()


@contextlib.asynccontextmanager
async def running(retaining):
    """While it runs; what ends it early is raised."""
    async with asyncio.TaskGroup() as group:
        life = group.create_task(retaining.run())
        yield
        life.cancel()


async def test_old_revisions_go_and_held_ones_stay(tmp_path):
    storage = await SqliteMetaStorage.open(tmp_path / "meta.db")
    try:
        leadership = await storage.campaign("c1")
        await storage.txn(Txn(then=first_records(CLUSTER_ID, DEFAULT_SETTINGS)))
        clock = Hands()

        async def retaining():
            writer = Writer(storage, leadership, await read_catalog(storage), lambda _batch, _after: None, clock.now_ns)
            return Retaining(storage, leadership, writer, clock)

        async def write(times):
            for number in range(times):
                await storage.txn(Txn(then=(Change(keys.LINEAGE, b"%032d" % number),)))

        await write(20)
        kept = await retaining()
        newest = (await storage.status()).latest
        async with running(kept):
            clock.at_ns = RETENTION_HOLD_NS
            await clock.wake()
            assert (await storage.status()).minimum == 1, "nothing is as old as that"
            clock.at_ns = RETENTION_NS
            kept.hold(1, newest - 5)
            await clock.wake()
            assert (await storage.status()).minimum == newest - 5
            clock.at_ns += RETENTION_HOLD_NS
            await clock.wake()
            assert (await storage.status()).minimum == newest
        # One that is elected later finds what is forgotten already, and asks for nothing below it.
        await write(5)
        later = await retaining()
        clock.at_ns += RETENTION_NS + RETENTION_HOLD_NS
        later.hold(1, newest - 3)
        async with running(later):
            await clock.wake()
            assert (await storage.status()).minimum == newest
            await clock.wake()
    finally:
        await storage.close()
