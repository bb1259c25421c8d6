"""Compaction by a leader over a real file: what goes is gone from there, what is held is not."""

from leasehold.coordinator.retaining import Retaining
from leasehold.coordinator.runtime import DEFAULT_SETTINGS, first_records, read_catalog
from leasehold.coordinator.writer import Writer
from leasehold.core import keys
from leasehold.core.operations import Change, Txn
from leasehold.limits.metastorage import RETENTION_HOLD_NS, RETENTION_NS
from leasehold.metastorage.sqlite import SqliteMetaStorage

CLUSTER_ID = "c" * 32


class Hands:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.at_ns = 0

    def now_ns(self):
        return self.at_ns


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
        clock.at_ns = RETENTION_HOLD_NS
        await kept._compact()
        assert (await storage.status()).minimum == 1, "nothing is as old as that"
        clock.at_ns = RETENTION_NS
        kept.hold(1, newest - 5)
        await kept._compact()
        assert (await storage.status()).minimum == newest - 5
        clock.at_ns += RETENTION_HOLD_NS
        await kept._compact()
        assert (await storage.status()).minimum == newest
        # One that is elected later finds what is forgotten already, and asks for nothing below it.
        await write(5)
        later = await retaining()
        clock.at_ns += RETENTION_NS + RETENTION_HOLD_NS
        later.hold(1, newest - 3)
        await later._compact()
        assert (await storage.status()).minimum == newest
        await later._compact()
    finally:
        await storage.close()
