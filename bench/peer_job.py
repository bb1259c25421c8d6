"""Writes with Spark into tables of one kind, and the same with Spark's own Parquet beside it, in one session.

`python -m bench.peer_job KIND FOLDER SIZE` prints what each round took, as JSON. It imports nothing of Leasehold, so it
runs with any Spark, in an environment of its own (`bench/spark_peers.py`).
"""

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.readings import COLUMNS, readings

DAYS, DAY = 365, 166
"""The day of the year that is replaced."""
FILES = 32
APPEND, REPLACE, MERGE, COMPACT, COMMITS = "append", "replace", "merge", "compact", "commits"


class Size(NamedTuple):
    """How much is written."""

    rows: int
    """Of an append."""
    table_rows: int
    """Of the tables that are changed."""
    commits: int
    rounds: int


class Tables(Protocol):
    """Tables of one kind. Each takes rows with the columns of `readings`."""

    def create(self, name: str) -> None: ...

    def append(self, name: str, rows: Any) -> None: ...

    def replace(self, name: str, rows: Any, where: str) -> None:
        """Puts rows in the place of those that fulfil a condition."""
        ...

    def merge(self, name: str, rows: Any) -> None:
        """Rows with a new `reading` are added, the others take the place of what is there."""
        ...

    def compact(self, name: str) -> None: ...


class DeltaTables:
    """Of Delta Lake."""

    package = "io.delta:delta-spark_4.2_2.13:4.4.0"
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # for a log this small the default of 50 takes seconds
    }

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def create(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        self._spark.sql(f"CREATE TABLE {self._named(name)} ({COLUMNS}) USING delta")

    def append(self, name: str, rows: Any) -> None:
        rows.write.format("delta").mode("append").save(str(self._folder / name))

    def replace(self, name: str, rows: Any, where: str) -> None:
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", where)
        writer.save(str(self._folder / name))

    def merge(self, name: str, rows: Any) -> None:
        merge_by_statement(rows, self._named(name))

    def compact(self, name: str) -> None:
        self._spark.sql(f"OPTIMIZE {self._named(name)}")

    def _named(self, name: str) -> str:
        return f"delta.`{self._folder / name}`"


class IcebergTables:
    """Of Iceberg, in a catalog that is a folder."""

    package = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer.type": "hadoop",
    }

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        spark.conf.set("spark.sql.catalog.peer.warehouse", str(folder))

    def create(self, name: str) -> None:
        self._spark.sql(f"DROP TABLE IF EXISTS peer.db.{name} PURGE")
        self._spark.sql(f"CREATE TABLE peer.db.{name} ({COLUMNS}) USING iceberg")

    def append(self, name: str, rows: Any) -> None:
        rows.writeTo(f"peer.db.{name}").append()

    def replace(self, name: str, rows: Any, where: str) -> None:
        """In two commits: an overwrite by a condition replaces whole files only."""
        self._spark.sql(f"DELETE FROM peer.db.{name} WHERE {where}")
        self.append(name, rows)

    def merge(self, name: str, rows: Any) -> None:
        merge_by_statement(rows, f"peer.db.{name}")

    def compact(self, name: str) -> None:
        self._spark.sql(f"CALL peer.system.rewrite_data_files(table => 'db.{name}')").collect()


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
}
KINDS = {"delta": DeltaTables, "iceberg": IcebergTables}


def merge_by_statement(rows: Any, table: str) -> None:
    rows.createOrReplaceTempView("given")
    rows.sparkSession.sql(
        f"MERGE INTO {table} t USING given s ON t.reading = s.reading"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


class Took(NamedTuple):
    """Milliseconds."""

    wall: float
    cpu: float
    """Of all processes."""


class Rounds:
    """Does everything in each round, with tables of one kind and with Parquet, one directly after the other."""

    def __init__(
        self, spark: SparkSession, tables: Tables, folder: Path, size: Size, cpu_ms: Callable[[], float]
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._folder = folder
        self._size = size
        self._cpu_ms = cpu_ms
        self.taken: dict[str, list[tuple[Took, Took]]] = {}
        """What it took with tables, and with Parquet."""

    def run(self) -> None:
        for number in range(self._size.rounds + 1):
            for part in (self._append, self._change, self._compact, self._commit):
                part()
            if not number:
                self.taken.clear()  # the first round warms up

    def _measure(self, what: str, ours: Callable[[], object], native: Callable[[], object]) -> None:
        self.taken.setdefault(what, []).append((self._took(ours), self._took(native)))

    def _took(self, work: Callable[[], object]) -> Took:
        before, began = self._cpu_ms(), time.perf_counter()
        work()
        return Took((time.perf_counter() - began) * 1_000, self._cpu_ms() - before)

    def _fresh(self, name: str) -> str:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        return str(self._folder / name)

    def _rows(self, begin: int = 0, end: int | None = None) -> Any:
        total = self._size.table_rows
        return readings(self._spark, begin, total if end is None else end, total)

    def _append(self) -> None:
        rows = readings(self._spark, 0, self._size.rows, self._size.rows).cache()
        rows.count()
        self._tables.create("appended")
        path = self._fresh("native")
        self._measure(APPEND, lambda: self._tables.append("appended", rows), lambda: rows.write.parquet(path))
        rows.unpersist()

    def _change(self) -> None:
        total = self._size.table_rows
        self._tables.create("changed")
        self._tables.append("changed", self._rows())
        native, written = self._fresh("native"), self._fresh("written")
        self._rows().write.parquet(native)
        before = self._spark.read.parquet(native)
        begin, end = total * DAY // DAYS, total * (DAY + 1) // DAYS
        where = f"reading >= {begin} AND reading < {end}"
        day = self._rows(begin, end).withColumn("level", F.lit(-1)).cache()
        day.count()
        self._measure(
            REPLACE,
            lambda: self._tables.replace("changed", day, where),
            lambda: before.where(f"NOT ({where})").unionByName(day).write.parquet(written),
        )
        some = self._rows().where("reading % 100 = 0").withColumn("measure", F.lit(0.5)).cache()
        some.count()
        merged = self._fresh("merged")
        self._measure(
            MERGE,
            lambda: self._tables.merge("changed", some),
            lambda: before.join(some, "reading", "left_anti").unionByName(some).write.parquet(merged),
        )
        day.unpersist()
        some.unpersist()

    def _compact(self) -> None:
        total = self._size.table_rows
        native, written = self._fresh("native"), self._fresh("written")
        self._tables.create("files")
        for number in range(FILES):
            part = self._rows(total * number // FILES, total * (number + 1) // FILES).coalesce(1)
            self._tables.append("files", part)
            part.write.mode("append").parquet(native)
        self._measure(
            COMPACT,
            lambda: self._tables.compact("files"),
            lambda: self._spark.read.parquet(native).coalesce(2).write.parquet(written),
        )

    def _commit(self) -> None:
        """Small appends, one after the other."""
        self._tables.create("small")
        rows, native = self._rows(0, 100).coalesce(1).cache(), self._fresh("native")
        rows.count()

        def often(append: Callable[[], object]) -> None:
            for _ in range(self._size.commits):
                append()

        self._measure(
            COMMITS,
            lambda: often(lambda: self._tables.append("small", rows)),
            lambda: often(lambda: rows.write.mode("append").parquet(native)),
        )
        rows.unpersist()


def cpu_ms() -> float:
    """Of this process and of all that it has started."""
    found = 0.0
    for one in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found += times.user + times.system
    return found * 1_000


def main(kind: str, folder: str, size: str) -> None:
    tables = KINDS[kind]
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", tables.package)
    for key, value in {**tables.settings, **SETTINGS}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rounds = Rounds(spark, tables(spark, Path(folder)), Path(folder), Size(*json.loads(size)), cpu_ms)
    rounds.run()
    print(json.dumps(rounds.taken))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
