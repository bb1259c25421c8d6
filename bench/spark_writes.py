"""What it takes to write through Spark and to keep a table in order: against Spark's own Parquet, and Delta Lake.

A ratio is the time of the other one divided by ours, so 1.0 is as fast. Each round does everything once, one directly
after the other. Parquet files of Spark are neither synced nor part of a transaction, and have no second copy. Delta
Lake is `deltalake`, which needs no Spark: one copy, and no server.
"""

import os
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, cluster_of
from bench.figures import Figure, Table, median, ratios, spread
from bench.readings import COLUMNS, readings
from bench.spark import KINDS, WALL, cost_ms, spark_session
from bench.spark_reads import consume
from leasehold.client.cluster import Cluster
from leasehold.local.processes import LocalCluster

DAYS = 365
BUCKETS = 4
DAY_BEGIN, DAY_END = 166, 167
"""The day of the year that is replaced."""


class Size(NamedTuple):
    """How much is written."""

    nodes: int
    rows: int
    """Of an append."""
    table_rows: int
    """Of the tables that are changed."""
    commits: int
    commit_rows: int
    rounds: int


FULL = Size(nodes=NODES, rows=10_000_000, table_rows=2_000_000, commits=200, commit_rows=100, rounds=5)
SMALLEST = Size(nodes=SMALLEST_NODES, rows=3_650, table_rows=3_650, commits=20, commit_rows=10, rounds=1)


class Sample(NamedTuple):
    """What one round has measured of one thing, in milliseconds of wall time and of CPU time."""

    wall: float
    cpu: float


class Ground:
    """A session, a cluster and a folder, and what was measured there."""

    def __init__(self, spark: SparkSession, local: LocalCluster, cluster: Cluster, size: Size) -> None:
        self.spark = spark
        self.cluster = cluster
        self.size = size
        self.local = local
        self.folder = local.directory.parent / "peers"
        self.folder.mkdir()
        self.samples: dict[str, dict[str, list[Sample]]] = {}

    def measure(self, what: str, by: str, work: Callable[[], object]) -> None:
        cost = cost_ms(self.local, work)
        sample = Sample(cost[WALL], sum(cost[kind] for kind in KINDS))
        self.samples.setdefault(what, {}).setdefault(by, []).append(sample)

    def fresh(self, name: str) -> Path:
        """The path of a peer's table that is not there."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def table(self, name: str, replication: int = 2) -> str:
        """A new table without rows."""
        self.cluster.sql(f"DROP TABLE IF EXISTS bench.{name}")
        self.cluster.sql(
            f"CREATE TABLE bench.{name} ({COLUMNS}) CLUSTERED BY (reading) INTO {BUCKETS} BUCKETS"
            f" TBLPROPERTIES ('replication' = '{min(replication, self.size.nodes)}')"
        )
        return f"bench.{name}"

    def rows(self, begin: int = 0, end: int | None = None) -> Any:
        total = self.size.table_rows
        return readings(self.spark, begin, total if end is None else end, total)

    def day(self) -> Any:
        total = self.size.table_rows
        return self.rows(total * DAY_BEGIN // DAYS, total * DAY_END // DAYS)


LEASEHOLD, NATIVE, DELTA = "leasehold", "Parquet of Spark", "Delta Lake without Spark"


def append(ground: Ground) -> None:
    """The rows lie in memory, so that nobody has to make them."""
    rows = readings(ground.spark, 0, ground.size.rows, ground.size.rows).cache()
    rows.count()
    path = str(ground.fresh("append"))
    ground.measure("append", NATIVE, lambda: rows.write.parquet(path))
    for replication in (1, 2):
        name = ground.table("append", replication)
        ground.measure(f"append {replication}", LEASEHOLD, lambda name=name: leasehold.spark.write(rows, name))
    rows.unpersist()


def change(ground: Ground) -> None:
    """A day of the year is replaced, then 1 % of the rows get new values by their key."""
    name, native, delta = ground.table("changed"), str(ground.fresh("native")), str(ground.fresh("delta"))
    leasehold.spark.write(ground.rows(), name)
    ground.rows().write.parquet(native)
    write_deltalake(delta, ground.rows().toArrow())
    begin, end = (f"reading {sign} {ground.size.table_rows * day // DAYS}" for sign, day in ((">=", 166), ("<", 167)))
    where = f"{begin} AND {end}"
    day = ground.day().withColumn("level", F.lit(-1)).cache()
    day_rows = day.toArrow()
    ground.measure("replace a day", LEASEHOLD, lambda: leasehold.spark.write(day, name, "overwrite", where=where))
    rewritten = str(ground.fresh("rewritten"))
    before = ground.spark.read.parquet(native)
    ground.measure(
        "replace a day", NATIVE, lambda: before.where(f"NOT ({where})").unionByName(day).write.parquet(rewritten)
    )
    ground.measure("replace a day", DELTA, lambda: write_deltalake(delta, day_rows, mode="overwrite", predicate=where))
    some = ground.rows().where("reading % 100 = 0").withColumn("measure", F.lit(0.5)).cache()
    some_rows = some.toArrow()
    ground.measure("merge 1 %", LEASEHOLD, lambda: leasehold.spark.merge(some, name, on=["reading"]))
    merged = str(ground.fresh("merged"))
    ground.measure(
        "merge 1 %",
        NATIVE,
        lambda: before.join(some, "reading", "left_anti").unionByName(some).write.parquet(merged),
    )
    ground.measure("merge 1 %", DELTA, lambda: delta_merge(delta, some_rows))
    day.unpersist()
    some.unpersist()


def delta_merge(path: str, rows: pa.Table) -> None:
    merging = DeltaTable(path).merge(rows, "t.reading = s.reading", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def small_commits(ground: Ground) -> None:
    size = ground.size
    name, once, path = ground.table("small"), ground.table("once"), str(ground.fresh("small"))
    by_itself = ground.table("by_itself")
    ground.cluster.sql(f"ALTER TABLE {by_itself} SET TBLPROPERTIES ('compact' = 'auto')")
    total = size.commits * size.commit_rows
    whole: pa.Table = readings(ground.spark, 0, total, total).toArrow()
    parts = [whole.slice(begin, size.commit_rows) for begin in range(0, total, size.commit_rows)]
    ground.cluster.table(once).append(whole)

    def ours(name: str) -> None:
        table = ground.cluster.table(name)
        for part in parts:
            table.append(part)

    def theirs() -> None:
        for part in parts:
            write_deltalake(path, part, mode="append")

    ground.measure("small commits", LEASEHOLD, lambda: ours(name))
    ground.measure("small commits", DELTA, theirs)

    def scan(table: str) -> Callable[[], object]:
        return lambda: consume(leasehold.spark.table(ground.spark, table))

    ground.measure("scan of one commit", LEASEHOLD, scan(once))
    ground.measure("scan of small commits", LEASEHOLD, scan(name))
    ground.cluster.compact(name)
    ground.measure("scan after compaction", LEASEHOLD, scan(name))
    ground.measure("small commits, compacting", LEASEHOLD, lambda: ours(by_itself))
    ground.measure("scan, compacting", LEASEHOLD, scan(by_itself))


def compaction(ground: Ground) -> None:
    """As many files as a compaction joins, with all rows of the table in them."""
    name, native, files = ground.table("files"), str(ground.fresh("files")), 32
    total = ground.size.table_rows
    table = ground.cluster.table(name)
    for number in range(files):
        part = ground.rows(total * number // files, total * (number + 1) // files).coalesce(1)
        table.append(part.toArrow())
        part.write.mode("append").parquet(native)
    written = str(ground.fresh("joined"))
    ground.measure("compaction", LEASEHOLD, lambda: ground.cluster.compact(name))
    ground.measure(
        "compaction", NATIVE, lambda: ground.spark.read.parquet(native).coalesce(BUCKETS).write.parquet(written)
    )


def stream(ground: Ground) -> None:
    """All rows of a directory, by a streaming query that ends when it has read them."""
    name, source = ground.table("streamed"), str(ground.folder / "native")
    frame = ground.spark.readStream.schema(ground.rows().schema).parquet(source)

    def query(kind: str, target: str) -> None:
        writer = frame.writeStream.format(kind).option("checkpointLocation", str(ground.fresh(f"state-{kind}")))
        writer.trigger(availableNow=True).start(target).awaitTermination()

    parquet = str(ground.fresh("streamed"))
    ground.measure("stream", LEASEHOLD, lambda: query("leasehold", name))
    ground.measure("stream", NATIVE, lambda: query("parquet", parquet))


def delays(ground: Ground) -> list[float]:
    """From the begin of an append until a running streaming query has its row."""
    name, found = ground.table("followed"), list[float]()
    arrived: list[int] = []

    def take(rows: DataFrame, _batch: int) -> None:
        arrived.extend(one[0] for one in rows.select("reading").collect())

    row: pa.Table = ground.rows(0, 1).toArrow()
    reading = ground.spark.readStream.format("leasehold").load(name)
    state = str(ground.fresh("state-followed"))
    running = reading.writeStream.foreachBatch(take).option("checkpointLocation", state).start()
    try:
        for number in range(2 * ground.size.rounds + 1):
            began = time.perf_counter()
            ground.cluster.table(name).append(row)
            while len(arrived) <= number:
                time.sleep(0.005)
            found.append((time.perf_counter() - began) * 1_000)
    finally:
        running.stop()
    return found[1:]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else FULL
    with cluster_of(size.nodes) as (local, cluster), spark_session(local.directory) as spark:
        cluster.sql("CREATE DATABASE bench")
        ground = Ground(spark, local, cluster, size)
        load = os.getloadavg()[0]
        for number in range(size.rounds + 1):
            for part in (append, change, small_commits, compaction, stream):
                part(ground)
            if not number:
                ground.samples.clear()  # the first round warms up
        shown = [*figures(ground), delay(ground)]
    title = (
        f"Writing with Spark, {size.rounds} rounds in turn. Ratio: the other's time / ours, so 1.0 is as fast; load at"
        f" the start {load:.1f}"
    )
    return [Table(title=title, figures=shown)]


def figures(ground: Ground) -> Generator[Figure]:
    size, taken = ground.size, ground.samples
    appended = f"append of {size.rows:,} rows, 6 columns"
    yield from beside(f"{appended}, one copy", taken["append 1"][LEASEHOLD], NATIVE, taken["append"][NATIVE], 0.9)
    yield from beside(f"{appended}, two copies", taken["append 2"][LEASEHOLD], NATIVE, taken["append"][NATIVE], 0.6)
    for what in ("replace a day", "merge 1 %"):
        shown = f"{what} of {size.table_rows:,} rows"
        yield from beside(shown, taken[what][LEASEHOLD], f"all written anew, {NATIVE}", taken[what][NATIVE], None)
        yield from beside(shown, taken[what][LEASEHOLD], DELTA, taken[what][DELTA], 1.0)
    commits = f"{size.commits} commits of {size.commit_rows} rows"
    yield from beside(commits, taken["small commits"][LEASEHOLD], DELTA, taken["small commits"][DELTA], 0.8)
    one = taken["scan of one commit"][LEASEHOLD]
    yield from beside(f"scan after {commits}", taken["scan of small commits"][LEASEHOLD], "one commit", one, 0.5)
    yield from beside("the same, compacted", taken["scan after compaction"][LEASEHOLD], "one commit", one, 0.95)
    yield from beside(
        f"{commits}, 'compact' = 'auto'",
        taken["small commits, compacting"][LEASEHOLD],
        DELTA,
        taken["small commits"][DELTA],
        None,
    )
    yield from beside("scan directly after them", taken["scan, compacting"][LEASEHOLD], "one commit", one, None)
    joined = f"compaction of {size.table_rows:,} rows in 32 files for each bucket"
    yield from beside(joined, taken["compaction"][LEASEHOLD], NATIVE, taken["compaction"][NATIVE], 0.7)
    streamed = f"stream of {size.table_rows:,} rows to a table"
    yield from beside(streamed, taken["stream"][LEASEHOLD], NATIVE, taken["stream"][NATIVE], None)


def beside(what: str, mine: list[Sample], peer: str, theirs: list[Sample], least: float | None) -> Generator[Figure]:
    for kind, aim in (("wall", least), ("cpu", None)):
        ours, others = ([max(1.0, getattr(one, kind)) for one in samples] for samples in (mine, theirs))
        ratio = median(ratios(others, ours))
        yield Figure(
            what=what if kind == "wall" else f"{what}; CPU time",
            value=spread(ours, "ms", 0),
            peer=f"{spread(others, 'ms', 0)}, {peer}",
            ratio=f"{ratio:.2f}",
            aim="report" if aim is None else f"at least {aim}",
            holds=None if aim is None else ratio >= aim,
        )


def delay(ground: Ground) -> Figure:
    return Figure(what="from an append until a stream has the row", value=spread(delays(ground), "ms", 0), aim="report")
