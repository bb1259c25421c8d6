"""Compaction by a leader over a real file: what goes is gone from there, what is held is not."""

import asyncio
import contextlib

import msgspec

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.upkeep.retention import Retaining
from leasehold.coordinator.writer import Writer
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges, Txn
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
            catalog = await read_catalog(storage)
            writer = Writer(storage, leadership, catalog, lambda *_: None, clock.now_ns, lambda: 0)
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


async def test_what_is_more_than_so_many_bytes_goes_also_of_what_an_earlier_leader_wrote(tmp_path):
    how = msgspec.structs.replace(DEFAULT_SETTINGS, retention_bytes=100_000)
    storage = await SqliteMetaStorage.open(tmp_path / "meta.db")
    try:
        leadership = await storage.campaign("c1")
        await storage.txn(Txn(then=first_records(CLUSTER_ID, how)))
        clock = Hands()

        async def write(times):
            for number in range(times):
                changes = (Change(keys.LINEAGE, b"%032d" % number), Change(b"c/outside", bytes(1_000 - 200)))
                result = await storage.txn(Txn(then=changes))
                retaining.committed(RevisionChanges(result.revision, changes))
                writer.newest = result.revision

        class Newest:
            """What the retention asks of a writer."""

            newest = 0

            @property
            def catalog(self):
                return msgspec.structs.replace(catalog, revision=self.newest)

        async def led():
            writer.newest = (await storage.status()).latest
            return Retaining(storage, leadership, writer, clock)

        catalog, writer = await read_catalog(storage), Newest()
        retaining = await led()
        await write(80)
        retaining = await led()
        async with running(retaining):
            clock.at_ns = RETENTION_HOLD_NS
            await clock.wake()
            assert (await storage.status()).minimum == 1
            found = await storage.history_bytes()
            assert 60_000 < found < 100_000
            for _ in range(6):
                await write(10)
                await clock.wake()
                assert await storage.history_bytes() <= 100_000
            minimum = (await storage.status()).minimum
            assert 30 < minimum < 50
            retaining.hold(1, minimum)
            await write(60)
            await clock.wake()
            assert (await storage.status()).minimum == minimum
            assert await storage.history_bytes() > 100_000
    finally:
        await storage.close()
