"""What Spark reads of a table, against its own reader of the same rows as it writes them itself, in one session.

The rows of a year in order of time: once in one append, once in 365 daily ones. Each is read over Flight, and from the
files of the nodes. A ratio is the time of Spark's own reader divided by ours, so 1.0 is as fast. Each round asks every
question of all readers, one directly after the other.
"""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, cluster_of
from bench.figures import Figure, Table, median, quantile, ratios, spread, timed_ms
from bench.readings import COLUMNS, readings
from bench.spark import KINDS, WALL, cost_ms, leasehold_write, spark_session
from leasehold.client.cluster import Cluster
from leasehold.local.processes import LocalCluster

ROWS = 10_000_000
BUCKETS = 4
DAY = "at >= TIMESTAMP '2025-06-15 00:00:00Z' AND at < TIMESTAMP '2025-06-16 00:00:00Z'"
WHOLE, DAILY, MANY = "whole", "daily", "many"
"""The tables: of one append, of an append for each day, and of very many segments."""


class Size(NamedTuple):
    """How much is measured."""

    nodes: int
    rows: int
    days: int
    segments: int
    """Of the table of which frames are only made."""
    rounds: int
    frames: int
    """That are open while a table is altered."""
    alters: int


FULL = Size(nodes=NODES, rows=ROWS, days=365, segments=10_000, rounds=5, frames=50, alters=100)
SMALLEST = Size(nodes=SMALLEST_NODES, rows=3_650, days=4, segments=8, rounds=1, frames=2, alters=2)


class Question(NamedTuple):
    """What is asked of a table, with the least ratios that we want of its wall time: over Flight, and from files."""

    what: str
    table: str
    work: Callable[[DataFrame], object]
    columns: list[str] | None = None
    where: str | None = None
    aims: tuple[float | None, float | None] = (None, None)


READERS = ("over Flight", "from files")
NATIVE = "native"


def consume(frame: DataFrame) -> object:
    """Reads every column of every row."""
    sums = [F.sum(one) for one in ("reading", "measure", "level")]
    return frame.agg(*sums, F.count("tag"), F.count("station"), F.max("at")).collect()


def plan(frame: DataFrame) -> object:
    """Plans a read, down to its tasks, and reads no row."""
    return frame.rdd.getNumPartitions()


QUESTIONS = (
    Question("full scan", WHOLE, consume, aims=(1.0, 1.0)),
    Question("one column", WHOLE, lambda frame: frame.agg(F.sum("measure")).collect(), ["measure"], aims=(0.35, 0.95)),
    Question("count(*)", WHOLE, lambda frame: frame.count(), ["reading"], aims=(0.6, 1.0)),
    Question(
        "group by",
        WHOLE,
        lambda frame: frame.groupBy("tag").agg(F.sum("measure")).collect(),
        ["tag", "measure"],
        aims=(0.4, 0.95),
    ),
    Question("one day of a year, one append", WHOLE, consume, where=DAY, aims=(1.0, 2.0)),
    Question("one day of a year, daily appends", DAILY, consume, where=DAY, aims=(1.0, 2.0)),
    *(Question("a frame planned, nothing read", table, plan) for table in (WHOLE, DAILY, MANY)),
)


class Ground:
    """The same rows in tables of the cluster and in directories of Spark."""

    def __init__(self, spark: SparkSession, cluster: Cluster, native: Path, size: Size) -> None:
        self._spark = spark
        self._cluster = cluster
        self._native = native
        self._size = size

    def write(self) -> None:
        """Writes everything; nothing is measured meanwhile."""
        self._cluster.sql("CREATE DATABASE bench")
        for table in (WHOLE, DAILY, MANY):
            self._cluster.sql(f"CREATE TABLE bench.{table} ({COLUMNS}) CLUSTERED BY (reading) INTO {BUCKETS} BUCKETS")
        rows, days = self._size.rows, self._size.days
        whole = self._readings(0, rows)
        leasehold_write(whole, f"bench.{WHOLE}")
        whole.write.parquet(self._directory(WHOLE))
        table = self._cluster.table(f"bench.{DAILY}")
        for day in range(days):
            frame = self._readings(rows * day // days, rows * (day + 1) // days).coalesce(1)
            table.append(frame.toArrow())
            frame.write.mode("append").parquet(self._directory(DAILY))
        self._write_many()

    def _write_many(self) -> None:
        """Few rows, many segments; and as many files as Spark would have written, all with the same rows."""
        few = self._readings(0, 100).coalesce(1)
        table, rows = self._cluster.table(f"bench.{MANY}"), few.toArrow()
        for _ in range(self._size.segments // BUCKETS):
            table.append(rows)
        few.write.parquet(self._directory(MANY))
        folder = Path(self._directory(MANY))
        (written,) = folder.glob("part-*")
        for number in range(1, self._size.segments):
            shutil.copyfile(written, folder / f"part-{number:05d}{written.name.removeprefix('part-00000')}")

    def segments(self, table: str) -> int:
        return len(self._cluster.plan(f"bench.{table}").segments)

    def ours(self, asked: Question, reader: str) -> DataFrame:
        local = reader == "from files"
        return leasehold.spark.table(self._spark, f"bench.{asked.table}", asked.columns, where=asked.where, local=local)

    def ask(self, asked: Question, reader: str) -> object:
        return asked.work(self.theirs(asked) if reader == NATIVE else self.ours(asked, reader))

    def alter(self, table: str) -> None:
        self._cluster.sql(f"ALTER TABLE bench.{table} ADD COLUMN more BIGINT")
        self._cluster.sql(f"ALTER TABLE bench.{table} DROP COLUMN more")

    def theirs(self, asked: Question) -> DataFrame:
        frame = self._spark.read.parquet(self._directory(asked.table))
        frame = frame if asked.columns is None else frame.select(*asked.columns)
        return frame if asked.where is None else frame.where(asked.where)

    def _directory(self, table: str) -> str:
        return str(self._native / table)

    def _readings(self, begin: int, end: int) -> Any:
        return readings(self._spark, begin, end, self._size.rows)


@contextmanager
def ground_of(size: Size) -> Generator[tuple[LocalCluster, Ground]]:
    with cluster_of(size.nodes) as (local, cluster), spark_session(local.directory) as spark:
        ground = Ground(spark, cluster, local.directory.parent / "native", size)
        ground.write()
        yield local, ground


def run(smallest: bool, rows: int = ROWS) -> list[Table]:
    size = SMALLEST if smallest else FULL._replace(rows=rows)
    costs: list[dict[str, list[dict[str, float]]]] = [{one: [] for one in (*READERS, NATIVE)} for _ in QUESTIONS]
    with ground_of(size) as (local, ground):
        load = os.getloadavg()[0]
        for number in range(size.rounds + 1):
            for asked, cost in zip(QUESTIONS, costs, strict=True):
                for reader, samples in cost.items():
                    sample = cost_ms(local, partial(ground.ask, asked, reader))
                    if number:  # the first round warms up
                        samples.append(sample)
        shown = [
            figure
            for asked, cost in zip(QUESTIONS, costs, strict=True)
            for figure in figures(asked, ground.segments(asked.table), cost)
        ]
        shown += [*altered(ground, size), *restarted(local, ground, size)]
    title = (
        f"Spark's reads of {size.rows:,} rows with 6 columns, against its own reader of the same rows, {size.rounds} "
        f"rounds in turn. Ratio: its time / ours, so 1.0 is as fast; load at the start {load:.1f}"
    )
    return [Table(title=title, figures=shown)]


def altered(ground: Ground, size: Size) -> Generator[Figure]:
    """How long a column takes to come and go, with and without frames that read files of its table."""
    without = [timed_ms(partial(ground.alter, WHOLE)) for _ in range(size.alters)]
    frames = [ground.ours(QUESTIONS[0], "from files") for _ in range(size.frames)]
    beside = [timed_ms(partial(ground.alter, WHOLE)) for _ in range(size.alters)]
    assert all(plan is not None and not plan.remote for plan in map(leasehold.spark.last_plan, frames))
    for what, share in (("median", 0.5), ("p99", 0.99)):
        mine, other = quantile(beside, share), quantile(without, share)
        yield Figure(
            what=f"ADD COLUMN and DROP COLUMN while {size.frames} frames read files of the table, {what}",
            value=f"{mine:.0f} ms",
            peer=f"{other:.0f} ms without frames",
            ratio=f"{mine / other:.2f}",
            aim="at most 2" if share > 0.5 else "report",
            holds=mine <= 2 * other if share > 0.5 else None,
        )


def restarted(local: LocalCluster, ground: Ground, size: Size) -> Generator[Figure]:
    """The first read after a start, in which a node holds each file against its SHA-256, beside the next ones."""
    asked = QUESTIONS[0]
    for reader in READERS:
        first, next_ = [], []
        for _ in range(size.rounds):
            local.down()
            local.up(size.nodes)
            local.wait_until_active()
            first.append(timed_ms(partial(ground.ask, asked, reader)))
            next_.append(timed_ms(partial(ground.ask, asked, reader)))
        yield Figure(
            what=f"{asked.what} after the nodes have started, {reader}",
            value=spread(first, "ms", 0),
            peer=f"{spread(next_, 'ms', 0)}, the next one",
            ratio=f"{median(ratios(first, next_)):.2f}",
            aim="report",
        )


def figures(asked: Question, segments: int, costs: dict[str, list[dict[str, float]]]) -> Generator[Figure]:
    """The wall time, and the CPU time of all processes."""
    for reader, least in zip(READERS, asked.aims, strict=True):
        for kind, kinds in (("", (WALL,)), ("; CPU time", KINDS)):
            mine, other = ([sum(one[each] for each in kinds) for one in costs[by]] for by in (reader, NATIVE))
            ratio = median(ratios([max(one, 1.0) for one in other], [max(one, 1.0) for one in mine]))
            aim = least if kinds == (WALL,) else None
            yield Figure(
                what=f"{asked.what}, {segments:,} segments, {reader}{kind}",
                value=spread(mine, "ms", 0),
                peer=spread(other, "ms", 0),
                ratio=f"{ratio:.2f}",
                aim="report" if aim is None else f"at least {aim}",
                holds=None if aim is None else ratio >= aim,
            )
