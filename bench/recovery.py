"""Recovery: how long a node takes from its start until it serves, with 10,000 to 1,000,000 keys of metadata in each
case of DESIGN section 6, after a clean stop and after a crash; and two hundred nodes that register at once.

The keys are segments of a node that is away, put into the store while nothing runs, by the leader's writer. What
follows is the production processes.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.ddl import statement
from bench.figures import Figure, median, show, timed_ms
from bench.renewals import many_nodes
from leasehold.client.cluster import Cluster
from leasehold.coordinator.runtime import read_catalog
from leasehold.coordinator.writer import Writer
from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.operations import Change
from leasehold.core.plan import put
from leasehold.core.records import BucketRecord, ColumnStatistics, SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import BucketNumber, FieldId, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.local.processes import LocalCluster, Process
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock

SIZES = (10_000, 100_000, 1_000_000)
GAPS = (1_000, 4_000)
"""Revisions that a node misses, for case b: fewer than there are keys, else a snapshot is less work."""
TABLES, BUCKETS = 50, 16
AT_ONCE = 10_000
STARTS = 5
STORM = 200
AWAY = "node-4"
FEW, MANY = 100, 200_000
"""Revisions that the cluster keeps: so few that a node which was away needs a snapshot, or the default."""


# ---------------------------------------------------------------- filling


async def write(path: Path, parts: Iterable[Callable[[Catalog], tuple[Change, ...]]]) -> None:
    """Each part in a transaction of its own, into a store that nobody uses."""
    storage = await SqliteMetaStorage.open(path)
    leadership = await storage.campaign("bench")
    writer = Writer(storage, leadership, await read_catalog(storage), lambda *_: None, BoottimeClock().now_ns)
    running = asyncio.ensure_future(writer.run())
    for part in parts:
        await writer.submit(part)
    running.cancel()
    await asyncio.wait([running])
    await storage.close()


def segments(
    first: int, last: int, tables: list[ObjectId], away: NodeId
) -> Iterator[Callable[..., tuple[Change, ...]]]:
    """Manifest entries number `first` to `last`, spread over the buckets of these tables."""
    for start in range(first, last, AT_ONCE):
        records = [_segment(number, tables, away) for number in range(start, min(start + AT_ONCE, last))]
        changes = tuple(put(keys.segment(one.table, one.bucket, one.id), one) for one in records)
        yield lambda _, changes=changes: changes


def _segment(number: int, tables: list[ObjectId], away: NodeId) -> SegmentRecord:
    place, of = divmod(number, len(tables))
    return SegmentRecord(
        id=SegmentId(f"{number:032x}-{number:032x}"),
        table=tables[of],
        bucket=BucketNumber(place % BUCKETS),
        schema_version=SchemaVersion(1),
        rows=1_000_000,
        size_bytes=50_000_000,
        sha256=number.to_bytes(32),
        statistics=tuple(
            ColumnStatistics(field=FieldId(field), nulls=0, minimum=number, maximum=number + 1_000_000)
            for field in (1, 2)
        ),
        holders=(away,),
    )


def moved(catalog: Catalog, away: NodeId) -> tuple[Change, ...]:
    """All buckets assigned to the node that is away: the others know of the segments, and need none of them."""
    return tuple(
        put(keys.bucket(one.table, one.bucket), _of(one, away)) for one in sorted(catalog.buckets.values(), key=_place)
    )


def _place(bucket: BucketRecord) -> tuple[ObjectId, BucketNumber]:
    return bucket.table, bucket.bucket


def _of(bucket: BucketRecord, node: NodeId) -> BucketRecord:
    return BucketRecord(table=bucket.table, bucket=bucket.bucket, replicas=(node,), in_sync=(node,))


def rewritten(count: int, tables: list[ObjectId], away: NodeId) -> Iterator[Callable[..., tuple[Change, ...]]]:
    """So many revisions of one change each."""
    for number in range(count):
        record = _segment(number, tables, away)
        change = put(keys.segment(record.table, record.bucket, record.id), record)
        yield lambda _, change=change: (change,)


# ---------------------------------------------------------------- measuring


class Bench:
    """One cluster that grows from size to size."""

    def __init__(self, local: LocalCluster) -> None:
        self._local = local
        local.up(4)
        local.wait_until_active()
        with Cluster(local.directory) as cluster:
            statement(cluster, "CREATE DATABASE bench")
            for number in range(TABLES):
                statement(
                    cluster,
                    f"CREATE TABLE bench.t{number} (a BIGINT, b BIGINT) CLUSTERED BY (a) INTO {BUCKETS} BUCKETS",
                )
            self._tables = [cluster.facts(f"bench.t{number}").table for number in range(TABLES)]
            self._away = next(node.id for node in cluster.status().nodes if node.name == AWAY)
        self._filled = 0
        local.node(AWAY).stop()
        self._others = [one.name for one in local.nodes() if one.name != AWAY]
        self.offline(lambda: [lambda catalog: moved(catalog, self._away)])

    def offline(self, parts: Callable[[], Iterable[Callable[..., tuple[Change, ...]]]]) -> None:
        """Writes while no coordinator runs; the nodes that run follow afterwards."""
        self._local.coordinator.stop()
        asyncio.run(write(self._local.coordinator.directory / "meta.db", parts()))
        address = self._local.restart_coordinator()
        with Cluster(address) as cluster:
            while True:
                try:
                    cluster.status()
                except LeaseholdError:  # it is still starting
                    time.sleep(0.02)
                else:
                    return

    def grow(self, keys_total: int) -> None:
        """Until there are so many keys."""
        first, self._filled = self._filled, keys_total
        self.offline(lambda: segments(first, keys_total, self._tables, self._away))
        self._local.wait_until_active(*self._others)

    def miss(self, revisions: int) -> None:
        """The node that is asked about misses so many revisions."""
        self.offline(lambda: rewritten(revisions, self._tables, self._away))
        self._local.wait_until_active(*self._others[1:])

    def keep(self, revisions: int) -> None:
        with Cluster(self._local.directory) as cluster:
            statement(cluster, f"ALTER CLUSTER SET retention_revisions = {revisions}")

    @property
    def asked(self) -> Process:
        return self._local.node(self._others[0])

    def start(self) -> float:
        """Seconds from its start until it serves."""
        return timed_ms(self._start) / 1000

    def _start(self) -> None:
        self._local.start_node(self.asked)
        self._local.wait_until_active(self.asked.name)

    def taken(self) -> str:
        """Which case its last start took."""
        with Cluster(self._local.directory) as cluster:
            (node,) = [one for one in cluster.status().nodes if one.name == self.asked.name]
        assert node.recovery is not None
        return node.recovery.case


def _until_forgotten(bench: Bench) -> None:
    """The node is told that what it missed is gone, so it takes a snapshot; else what it was asked shows nothing."""
    bench.keep(FEW)
    time.sleep(12)  # the leader looks every five seconds


def measure(bench: Bench, size: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}

    def start(what: str, case: str) -> None:
        times.setdefault(what, []).append(bench.start())
        assert bench.taken() == case, f"{what}: case {bench.taken()} was taken"

    for _ in range(STARTS):
        bench.asked.stop()
        start("a: after a clean stop", "a")
    for gap in GAPS:
        if gap < size:
            bench.asked.stop()
            bench.miss(gap)
            start(f"b: {gap:,} revisions missed", "b")
    bench.asked.stop()
    bench.miss(2 * FEW)
    _until_forgotten(bench)
    start("c: a snapshot", "c")
    bench.keep(MANY)
    for _ in range(STARTS):
        bench.asked.signal(signal.SIGKILL)
        bench.asked.wait_until_gone()
        times.setdefault("after a crash: its old lease runs out first", []).append(bench.start())
    return times


def storm() -> float:
    """Seconds until so many nodes that register and join at once are all members."""
    began = time.perf_counter()
    with many_nodes(STORM):
        return time.perf_counter() - began


def figures(sizes: dict[int, dict[str, list[float]]], storm_s: float) -> list[Figure]:
    smallest = sizes[min(sizes)]
    rows: list[Figure] = []
    for size, times in sizes.items():
        for what, took in times.items():
            peer = smallest.get(what)
            rows.append(
                Figure(
                    what=f"{size:,} keys, {what}",
                    value=f"{median(took):.2f} s",
                    peer="" if peer is None else f"{median(peer):.2f} s with {min(sizes):,} keys",
                    ratio="" if peer is None else f"{median(took) / median(peer):.2f}",
                    aim="under 2 s, flat" if what.startswith("a") and "crash" not in what else "report",
                    holds=median(took) < 2 if what.startswith("a:") else None,
                )
            )
    return [*rows, Figure(what=f"{STORM} nodes register, join and recover at once", value=f"{storm_s:.2f} s")]


def run(results: Path | None) -> None:
    sizes: dict[int, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            bench = Bench(local)
            for size in SIZES:
                bench.grow(size)
                sizes[size] = measure(bench, size)
        finally:
            local.down()
    show("Recovery: from its start until a node serves", figures(sizes, storm()), results)
