"""Spark scan and append through Leasehold, against native Parquet on the same disk, in turn in one session."""

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, cluster_of
from bench.figures import Figure, Table, median, ratios, spread, timed_ms
from leasehold.local.processes import LocalCluster

ROWS, ROUNDS = 2_000_000, 5
SMALLEST = SMALLEST_NODES, 1_000, 1
WALL, KINDS = "wall", ("JVM", "Python workers", "nodes", "driver and coordinator")


@contextmanager
def spark_session(cluster: Path, master: str = "local[2]") -> Generator[SparkSession]:
    """A session for the cluster, stopped in the end."""
    spark = leasehold.spark.session("bench", cluster=cluster, master=master)
    try:
        yield spark
    finally:
        spark.stop()


def sensors(spark: SparkSession, rows: int) -> Any:
    """Readings: a number, a tag of a thousand, a measure and a time."""
    return spark.range(rows).select(
        F.col("id").alias("reading"),
        F.concat(F.lit("sensor-"), (F.col("id") % 1000).cast("string")).alias("tag"),
        F.sin(F.col("id")).alias("measure"),
        F.timestamp_micros(F.col("id") * 1_000_000).alias("at"),
    )


def consume(frame: Any) -> None:
    """Reads every column of every row."""
    frame.agg(F.sum("reading"), F.count("tag"), F.sum("measure"), F.max("at")).collect()


def used_ms(local: LocalCluster) -> dict[tuple[str, psutil.Process], float]:
    """The CPU time of each process so far, by its kind."""
    java = next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")
    nodes, coordinators = (
        [worker for one in processes if (worker := one.worker()) is not None]
        for processes in (local.nodes(), local.coordinators())
    )
    found: dict[tuple[str, psutil.Process], float] = {}
    of_kinds = [java], java.children(recursive=True), nodes, [psutil.Process(), *coordinators]
    for kind, processes in zip(KINDS, of_kinds, strict=True):
        for one in processes:
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                found[kind, one] = (times.user + times.system) * 1_000
    return found


def cost_ms(local: LocalCluster, work: Callable[[], object]) -> dict[str, float]:
    """How long `work` takes, and how much CPU time of each kind of process."""
    before = used_ms(local)
    spent = {WALL: timed_ms(work)} | dict.fromkeys(KINDS, 0.0)
    for (kind, process), used in used_ms(local).items():
        spent[kind] += used - before.get((kind, process), 0.0)
    return spent


def run(smallest: bool) -> list[Table]:
    nodes, rows, rounds = SMALLEST if smallest else (NODES, ROWS, ROUNDS)
    writes: tuple[list[float], list[float]] = ([], [])
    reads: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    with cluster_of(nodes) as (local, cluster), spark_session(local.directory) as spark:
        cluster.sql("CREATE DATABASE bench")
        parquet = str(local.directory.parent / "native")
        source = sensors(spark, rows).cache()
        source.count()
        for number in range(rounds + 1):
            name = f"bench.t{number}"
            columns = "reading BIGINT, tag STRING, measure DOUBLE, at TIMESTAMP"
            cluster.sql(f"CREATE TABLE {name} ({columns}) CLUSTERED BY (reading) INTO 4 BUCKETS")
            shutil.rmtree(parquet, ignore_errors=True)
            sample = (
                timed_ms(lambda name=name: leasehold_write(source, name)),
                timed_ms(lambda: source.write.parquet(parquet)),
                cost_ms(local, lambda name=name: consume(leasehold.spark.table(spark, name))),
                cost_ms(local, lambda: consume(spark.read.parquet(parquet))),
            )
            if number:  # the first round warms up
                writes[0].append(sample[0])
                writes[1].append(sample[1])
                reads[0].append(sample[2])
                reads[1].append(sample[3])
            cluster.sql(f"DROP TABLE {name}")
        source.unpersist()
    figures = [
        Figure(
            what=what,
            value=spread(ours, "ms", 0),
            peer=spread(theirs, "ms", 0),
            ratio=f"{median(ratios(ours, theirs)):.2f}",
            aim="report",
        )
        for what, (ours, theirs) in (
            (f"append {rows:,} rows, 2 replicas, synced", writes),
            (f"scan {rows:,} rows, 4 columns", tuple([one[WALL] for one in costs] for costs in reads)),
        )
    ]
    figures += [
        Figure(
            what=f"CPU time of that scan: {kind}",
            value=spread([one[kind] for one in reads[0]], "ms", 0),
            peer=spread([one[kind] for one in reads[1]], "ms", 0),
            aim="report",
        )
        for kind in KINDS
    ]
    return [Table(title="Spark: against native Parquet on the same disk", figures=figures)]


def leasehold_write(frame: Any, table: str) -> None:
    frame.write.format("leasehold").mode("append").option("table", table).save()
