"""Recovery: from the start of a node until it serves, with 10,000 to 1,000,000 keys of metadata: nothing missed, some
revisions missed, or all history forgotten; after a clean stop and after a crash. Beside that, how long the coordinator
takes with so many keys, and two hundred nodes that register at once.

The keys are segments of another node, which is away. They are put into the store while nothing runs, by the leader's
writer, and there the history is compacted too. What follows is the production processes.

A node that starts has its own join to replay at least. So nothing missed, which is case a for all but that, is told as
case b, of hardly any revisions.
"""

import asyncio
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from bench.ddl import statement
from bench.figures import Figure, Table, median, spread, timed_ms
from bench.filling import writing
from bench.renewals import many_nodes
from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.lease.drift import grant_bound_ns
from leasehold.core.words import keys
from leasehold.core.words.messages import ClusterStatus
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ColumnStatistics, SegmentRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import BucketNumber, FieldId, LineageHash, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.vault.store import FILE_NAME
from leasehold.wire.clock import BoottimeClock, sleep_ns

OWN = 4
"""So many revisions at most are of its own leaving, and of the elections meanwhile."""
BUCKETS = 16
AT_ONCE = 10_000
LOOK_NS, WAIT_NS = 10 * MILLISECOND_NS, 300 * SECOND_NS
AIM_S, FLAT = 2.0, 1.5
BOUND_NS = grant_bound_ns(DEFAULT_SETTINGS, DEFAULT_SETTINGS.lease_duration_ns)
"""How long a leader counts a lease as running: after a crash, and each one after its own election."""
CLEAN, CRASHED, SNAPSHOT = "after a clean stop", "after a crash", "all history forgotten: a snapshot"
COPIED, LEADING = "for a copy by plain SQLite", "the coordinator, until it answers"


class Took(NamedTuple):
    """Seconds by the clock, and of CPU: these are what other work on the machine hardly changes."""

    wall_s: float
    cpu_s: float


class Size(NamedTuple):
    """How much is done."""

    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    tables: int = 50
    missed: tuple[int, ...] = (1_000, 4_000)
    """For case b, fewer than there are keys, else a snapshot is less work: so many revisions of one table; and the
    first of these of all tables in turn, where there are several."""
    starts: int = 5
    crashes: int = 3
    storm: int = 200

    def gaps(self) -> dict[str, tuple[int, int]]:
        """How many revisions a node misses, and by how many segments each lies further on than the one before."""
        of_one = {f"{count:,} revisions of one table missed": (count, self.tables) for count in self.missed}
        of_all = {f"{count:,} revisions of all tables missed": (count, 1) for count in self.missed[:1]}
        return of_one if self.tables == 1 else {**of_one, **of_all}


SMALLEST = Size(keys=(500,), tables=1, missed=(20,), starts=1, crashes=1, storm=3)

Times: TypeAlias = dict[str, list[Took]]
"""Each thing as often as it was measured."""


# ---------------------------------------------------------------- filling


async def write(path: Path, parts: Iterable[tuple[Change, ...]], *, forget: bool = False) -> None:
    """Each part in a transaction of its own, into a store that nobody uses; then forgets all history, if told so."""
    async with writing(SqliteMetaStorage.open(path), _newest) as (storage, writer):
        for part in parts:
            await writer.submit(lambda _, part=part: part)
        if forget:
            await storage.compact((await storage.status()).latest)


async def _newest(storage: SqliteMetaStorage) -> Catalog:
    """Of the newest revision, but empty: nothing here is decided on what there is."""
    lineage = await storage.get(keys.LINEAGE)
    assert lineage is not None
    return Catalog(revision=lineage.modified, lineage=LineageHash(lineage.value))


class Segments:
    """Of one node, spread over the buckets of these tables."""

    def __init__(self, tables: list[ObjectId], holder: NodeId) -> None:
        self._tables = tables
        self._holder = holder

    def all(self, first: int, last: int) -> Iterator[tuple[Change, ...]]:
        """Number `first` up to `last`, in large parts."""
        for start in range(first, last, AT_ONCE):
            yield tuple(self._put(number) for number in range(start, min(start + AT_ONCE, last)))

    def one_by_one(self, count: int, step: int, total: int) -> Iterator[tuple[Change, ...]]:
        """So many revisions, each of which writes one of `total` anew."""
        for number in range(count):
            yield (self._put(number * step % total),)

    def _put(self, number: int) -> Change:
        place, table = divmod(number, len(self._tables))
        record = SegmentRecord(
            id=SegmentId(f"{number:032x}-{number:032x}"),
            table=self._tables[table],
            bucket=BucketNumber(place % BUCKETS),
            schema_version=SchemaVersion(1),
            rows=1_000_000,
            size_bytes=50_000_000,
            sha256=number.to_bytes(32),
            statistics=tuple(
                ColumnStatistics(field=FieldId(field), nulls=0, minimum=number, maximum=number + 1_000_000)
                for field in (1, 2)
            ),
            holders=(self._holder,),
        )
        return put(keys.segment(record.table, record.bucket, record.id), record)


# ---------------------------------------------------------------- measuring


class Bench:
    """One cluster that grows from size to size: the node that is asked about, and the one that has all segments."""

    def __init__(self, local: LocalCluster, size: Size) -> None:
        self._local = local
        self._size = size
        self._filled = 0
        local.up(2)
        local.wait_until_active()
        self._asked, away = local.nodes()
        self._asked.stop()
        with Cluster(local.directory) as cluster:
            statement(cluster, "CREATE DATABASE bench")
            for number in range(size.tables):
                text = f"(a BIGINT) CLUSTERED BY (a) INTO {BUCKETS} BUCKETS TBLPROPERTIES ('replication' = '1')"
                statement(cluster, f"CREATE TABLE bench.t{number} {text}")
            tables = [cluster.facts(f"bench.t{number}").table for number in range(size.tables)]
            (holder,) = [node.id for node in cluster.status().nodes if node.name == away.name]
        away.stop()
        self._segments = Segments(tables, holder)

    def measured(self, total: int) -> Times:
        """Everything, with so many keys."""
        times: Times = {}
        first, self._filled = self._filled, total
        self._write(times, self._segments.all(first, total))
        self._serve()
        for _ in range(self._size.starts):
            self._asked.stop()
            times.setdefault(CLEAN, []).append(self._start("b", 0))
        for _ in range(self._size.crashes):
            self._asked.signal(signal.SIGKILL)
            assert self._asked.wait_until_gone()
            times.setdefault(CRASHED, []).append(self._start("b", 0))
        self._asked.stop()
        for what, (gap, step) in self._size.gaps().items():
            self._write(times, self._segments.one_by_one(gap, step, total))
            times[what] = [self._start("b", gap)]
            self._asked.stop()
        self._write(times, self._segments.one_by_one(1, 1, total), forget=True)
        times[SNAPSHOT] = [self._start("c", 1)]
        self._asked.stop()
        times[COPIED] = [self._copy()]
        return times

    def _write(self, times: Times, parts: Iterable[tuple[Change, ...]], *, forget: bool = False) -> None:
        """While nothing runs; afterwards the coordinator does."""
        self._local.coordinator.stop()
        asyncio.run(write(self._local.coordinator.directory / "meta.db", parts, forget=forget))
        wall_s = timed_ms(self._lead) / 1000
        times.setdefault(LEADING, []).append(Took(wall_s, cpu_s(self._local.coordinator)))
        sleep_ns(BOUND_NS)  # else whoever joins is made to wait for what the leader before may have granted

    def _lead(self) -> None:
        self._local.start(COORDINATOR)
        self._status(lambda _: True)

    def _start(self, case: str, behind: int) -> Took:
        """From its start until it serves; checks the case, and how many revisions it was behind before."""
        was_behind = self._status(lambda _: True).revision - self._applied()
        took = Took(timed_ms(self._serve) / 1000, cpu_s(self._asked))
        (told,) = [one.recovery for one in self._status(lambda _: True).nodes if one.name == self._asked.name]
        assert told is not None
        assert told.case == case, told
        assert behind <= was_behind <= behind + OWN, f"{was_behind} revisions behind, {behind} were meant"
        return took

    def _serve(self) -> None:
        address = self._local.start_node(self._asked)  # of this process: the lease of one before may run on
        self._status(lambda status: any(one.address == address and one.state == "ACTIVE" for one in status.nodes))

    def _status(self, holds: Callable[[ClusterStatus], bool]) -> ClusterStatus:
        """Once that holds, looking again and again."""
        deadline_ns = BoottimeClock().now_ns() + WAIT_NS
        with Cluster(self._local.directory) as cluster:
            while BoottimeClock().now_ns() < deadline_ns:
                with suppress(LeaseholdError):  # it is still starting
                    status = cluster.status()
                    if holds(status):
                        return status
                sleep_ns(LOOK_NS)
        raise AssertionError(f"waited for {WAIT_NS // SECOND_NS} s in vain")

    def _applied(self) -> int:
        with closing(self._vault()) as vault:
            (revision,) = vault.execute("SELECT revision FROM applied").fetchone()
            return revision

    def _vault(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self._asked.directory / FILE_NAME}?mode=ro", uri=True)

    def _copy(self) -> Took:
        """All items that the node holds, into an empty file of plain SQLite."""
        began, used = time.perf_counter(), time.process_time()
        path = self._local.directory.parent / "plain.db"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as plain, closing(self._vault()) as vault:
            plain.execute("CREATE TABLE item (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
            items = vault.execute("SELECT key, value FROM projection ORDER BY key")
            plain.executemany("INSERT INTO item VALUES (?, ?)", items)
            plain.commit()
        return Took(time.perf_counter() - began, time.process_time() - used)


def cpu_s(process: Process) -> float:
    """What it has used since it began."""
    running = process.worker()
    assert running is not None
    used = running.cpu_times()
    return used.user + used.system


def storm(nodes: int) -> float:
    """Seconds until so many that register and join at once are members; with the start of a coordinator."""
    began = time.perf_counter()
    with many_nodes(nodes):
        return time.perf_counter() - began


# ---------------------------------------------------------------- figures


def of_size(total: int, gaps: Iterable[str], times: Times, smallest: Times) -> list[Figure]:
    """What one size took, each beside its peer: CPU beside that of the same with the fewest keys, or of a copy; after a
    crash, the time by the clock beside that after a clean stop."""
    limits_s = {CLEAN: AIM_S, CRASHED: AIM_S + BOUND_NS / SECOND_NS}
    figures: list[Figure] = []
    for what in (CLEAN, CRASHED, *gaps, SNAPSHOT, LEADING):
        wall_s, used_s = ([one[part] for one in times[what]] for part in (0, 1))
        if what == CRASHED:
            ours_s, peer_s, peer = median(wall_s), median([one.wall_s for one in times[CLEAN]]), CLEAN
        else:
            beside, peer = (times[COPIED], COPIED) if what == SNAPSHOT else (smallest[what], "with the fewest keys")
            ours_s, peer_s, peer = median(used_s), median([one.cpu_s for one in beside]), f"of CPU {peer}"
        aims: dict[str, bool] = {}
        if what in limits_s:
            aims[f"under {limits_s[what]:.1f} s"] = median(wall_s) < limits_s[what]
        if what == CLEAN or what in gaps:
            aims[f"flat: at most {FLAT}"] = ours_s <= FLAT * peer_s
        figures.append(
            Figure(
                what=f"{total:,} keys: {what}",
                value=f"{spread(wall_s, 's')}; {median(used_s):.2f} s of CPU",
                peer=f"{peer_s:.2f} s {peer}",
                ratio=f"{ours_s / peer_s:.2f}",
                aim=", ".join(aims) or "report",
                holds=all(aims.values()) if aims else None,
            )
        )
    return figures


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster", pause=lambda _: sleep_ns(LOOK_NS))
        try:
            bench = Bench(local, size)
            times = {total: bench.measured(total) for total in size.keys}
        finally:
            local.down()
    gaps = tuple(size.gaps())
    figures = [one for total in size.keys for one in of_size(total, gaps, times[total], times[size.keys[0]])]
    storm_s, alone_s = storm(size.storm), storm(1)
    figures.append(
        Figure(
            what=f"{size.storm} nodes register and join at once, and are members",
            value=f"{storm_s:.2f} s, with the start of their coordinator",
            peer=f"{alone_s:.2f} s for one node",
            ratio=f"{storm_s / alone_s:.2f}",
            aim="report",
        )
    )
    return [Table(title="Recovery: from its start until a node serves", figures=figures)]
