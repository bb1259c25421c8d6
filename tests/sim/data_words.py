"""A simulated cluster with a table, and clients that write and read it."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.ids import NodeId
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedNode
from leasehold.testing.loop import run_virtual
from leasehold.testing.readers import SimulatedReader
from leasehold.testing.rows import RowId
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written

TABLE = "d.t"
ALWAYS_ONE = Habits(tasks_max=1, pause_max_ns=0, dies=0, doubles=0)


class Over(Exception):
    pass


class Ground:
    """A cluster with a table, a writer and a reader."""

    def __init__(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        self.cluster = cluster
        self.group = group
        self.numbers = itertools.count(1)
        self.random = Random(cluster.random.getrandbits(64))
        self.clock = SimulatedClock(cluster.loop)
        self.removed: Counter[OnDisk] = Counter()
        for node in cluster.nodes:
            node.data.disk.on_removed = lambda *one: self.removed.update([OnDisk(*one)])
        self.reader = SimulatedReader(**self.common())

    def common(self) -> dict[str, object]:
        return {
            "transport": self.cluster.network.host(CLIENT),
            "coordinators": self.cluster.addresses,
            "clock": self.clock,
            "entropy": self.cluster.entropy,
            "random": self.random,
            "group": self.group,
        }

    def writer(self, habits: Habits = ALWAYS_ONE, **hooks: object) -> SimulatedWriter:
        return SimulatedWriter(**self.common(), rows=self.numbers, habits=habits, **hooks)

    async def create(self, *, replication: int = 2, buckets: int = 1) -> None:
        await self.cluster.sql("CREATE DATABASE d")
        await self.cluster.sql(
            f"CREATE TABLE {TABLE} (a INT, b STRING) CLUSTERED BY (a) INTO {buckets} BUCKETS"
            f" TBLPROPERTIES ('replication' = '{replication}')"
        )

    async def write(self, rows: int) -> Written:
        written = await self.writer().write(TABLE, rows)
        assert written.fate is WriteFate.COMMITTED, written
        return written

    async def read(self) -> Counter[RowId]:
        return Counter((await self.reader.scan(TABLE)).rows)

    def manifest(self) -> list[SegmentRecord]:
        page = self.cluster.store.page(keys.SEGMENTS, keys.SEGMENTS + b"\xff", None, 1_000)
        return sorted((decode_record(SegmentRecord, one.value) for one in page.items), key=lambda one: one.id)

    def in_sync(self) -> list[tuple[NodeId, ...]]:
        """The sync-state set of each bucket there is."""
        page = self.cluster.store.page(keys.BUCKETS, keys.BUCKETS + b"\xff", None, 1_000)
        return [decode_record(BucketRecord, one.value).in_sync for one in page.items]

    def node(self, number: int) -> SimulatedNode:
        return next(one for one in self.cluster.nodes if one.published.node == number)

    def holds(self, node: SimulatedNode, record: SegmentRecord) -> bool:
        return node.data.disk.holds(record.table, record.bucket, record.id)

    async def wait_for(self, holds: Callable[[], object]) -> None:
        await self.cluster.wait_for(holds)


Scenario = Callable[[Ground], Awaitable[None]]


def simulate(scenario: Scenario, *, seed: int = 1, nodes: int = 3) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=nodes)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(Ground(cluster, group))
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)


def on_disk(record: SegmentRecord) -> OnDisk:
    return OnDisk(record.table, record.bucket, record.id)
