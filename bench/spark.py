"""Spark scan and append through Leasehold, against native Parquet on the same disk, in turn in one session."""

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import leasehold.spark
from bench.ddl import cluster_of_three
from bench.figures import Figure, median, ratios, show, spread, timed_ms

ROWS, ROUNDS = 2_000_000, 5


def sensors(spark: Any) -> Any:
    """Two million readings: a number, a tag of a thousand, a measure and a time."""
    return spark.range(ROWS).select(
        F.col("id").alias("reading"),
        F.concat(F.lit("sensor-"), (F.col("id") % 1000).cast("string")).alias("tag"),
        F.sin(F.col("id")).alias("measure"),
        F.timestamp_micros(F.col("id") * 1_000_000).alias("at"),
    )


def consume(frame: Any) -> None:
    """Reads every column of every row."""
    frame.agg(F.sum("reading"), F.count("tag"), F.sum("measure"), F.max("at")).collect()


def run(results: Path | None) -> None:
    with cluster_of_three() as (local, cluster):
        cluster.sql("CREATE DATABASE bench")
        spark = leasehold.spark.session("bench", cluster=str(local.directory))
        parquet = str(local.directory.parent / "native")
        source = sensors(spark).cache()
        source.count()
        writes: tuple[list[float], list[float]] = ([], [])
        reads: tuple[list[float], list[float]] = ([], [])
        for number in range(ROUNDS + 1):
            name = f"bench.t{number}"
            columns = "reading BIGINT, tag STRING, measure DOUBLE, at TIMESTAMP"
            cluster.sql(f"CREATE TABLE {name} ({columns}) CLUSTERED BY (reading) INTO 4 BUCKETS")
            shutil.rmtree(parquet, ignore_errors=True)
            sample = (
                timed_ms(lambda name=name: leasehold_write(source, name)),
                timed_ms(lambda: source.write.parquet(parquet)),
                timed_ms(lambda name=name: consume(leasehold.spark.table(spark, name))),
                timed_ms(lambda: consume(spark.read.parquet(parquet))),
            )
            if number:  # the first round warms up
                writes[0].append(sample[0])
                writes[1].append(sample[1])
                reads[0].append(sample[2])
                reads[1].append(sample[3])
            cluster.sql(f"DROP TABLE {name}")
        spark.stop()
    figures = [
        Figure(
            what=what,
            value=spread(ours, "ms", 0),
            peer=spread(theirs, "ms", 0),
            ratio=f"{median(ratios(ours, theirs)):.2f}",
            aim="report",
        )
        for what, (ours, theirs) in (
            (f"append {ROWS:,} rows, 2 replicas, synced", writes),
            (f"scan {ROWS:,} rows, 4 columns", reads),
        )
    ]
    show("Spark: against native Parquet on the same disk", figures, results)


def leasehold_write(frame: Any, table: str) -> None:
    frame.write.format("leasehold").mode("append").option("table", table).save()
