"""A pipeline of sensor readings, from files to tables. Run again, or killed anywhere and started again, it ends with
the same rows: they depend on the files alone.

| step | what it does | why it may be repeated |
| --- | --- | --- |
| ingest | writes the good rows of `landing/readings` to `readings`: a stream | the cluster takes each batch once |
| quarantine | writes the rows of all files that break a rule to `quarantine`, with the rule: a stream | the same |
| correct | replaces a day by the rows of its file in `landing/days` | the same rows take the place of the same day |
| late | merges the rows of `landing/late` by their key | the same rows have the same keys |
| roll_up | brings `hourly` up to date from what has changed in `readings` | below |

The nodes join small files of the tables by themselves (`compact`), which changes no row.

How far the roll-ups are is in the roll-ups: `hourly.revision` is the revision of the cluster that a row was made from,
and one merge writes all rows of a step. So the greatest one says up to where changes are in the roll-ups. The report of
a run, in `runs`, has a row for each step that has ended.

The rules look at nothing that changes between two attempts: a time is in the future if it is later than its file.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import leasehold
import leasehold.spark
from leasehold.errors import LeaseholdError

KEPT = timedelta(days=30)
"""The `ttl` of the readings."""
ACCEPTED = KEPT - timedelta(days=1)
"""The roll-up of an hour is made anew only while all of its readings are still there."""

STATEMENTS = (
    "CREATE DATABASE IF NOT EXISTS {0}",
    """CREATE TABLE IF NOT EXISTS {0}.readings (sensor STRING NOT NULL, at TIMESTAMP NOT NULL, value DOUBLE NOT NULL)
       CLUSTERED BY (sensor) INTO 4 BUCKETS
       TBLPROPERTIES ('time_column' = 'at', 'ttl' = '30d', 'change_retention' = '7d', 'compact' = 'auto')""",
    """CREATE TABLE IF NOT EXISTS {0}.quarantine (
       file STRING, landed TIMESTAMP, reason STRING, sensor STRING, at TIMESTAMP, value DOUBLE, broken STRING)""",
    """CREATE TABLE IF NOT EXISTS {0}.hourly (
       sensor STRING NOT NULL, hour TIMESTAMP NOT NULL, readings BIGINT, low DOUBLE, mean DOUBLE, high DOUBLE,
       revision BIGINT) CLUSTERED BY (sensor) INTO 2 BUCKETS""",
    """CREATE TABLE IF NOT EXISTS {0}.runs (
       run TIMESTAMP, ended TIMESTAMP, step STRING, rows_in BIGINT, rows_out BIGINT, quarantined BIGINT,
       seconds DOUBLE) TBLPROPERTIES ('compact' = 'auto')""",
)

SENSORS = {
    "kitchen": (-10.0, 50.0),
    "cellar": (-10.0, 30.0),
    "roof": (-40.0, 60.0),
    "boiler": (0.0, 110.0),
    "cpu": (0.0, 100.0),
    "memory": (0.0, 100.0),
    "disk": (0.0, 100.0),
}
"""The lowest and the highest value that each can have."""

COLUMNS = "sensor STRING, at TIMESTAMP, value DOUBLE, broken STRING"
"""Of the files. `broken` is a line that can't be read."""
READING = {"columnNameOfCorruptRecord": "broken"}

RULES = {
    "not readable": "broken IS NOT NULL",
    "no sensor": "sensor IS NULL",
    "unknown sensor": "low IS NULL",
    "no time": "at IS NULL",
    "in the future": "at > landed + INTERVAL 5 MINUTES",
    "too old": f"at < landed - INTERVAL {ACCEPTED.days} DAYS",
    "no value": "value IS NULL OR isnan(value)",
    "out of range": "value NOT BETWEEN low AND high",
}
"""What breaks which rule. The first one is the reason that the quarantine tells."""


# ---------------------------------------------------------------- functions of frames


def judged(files: DataFrame) -> DataFrame:
    """Rows of files, with the file, when it came, and the rule that they break or NULL."""
    known = [(name, *ends) for name, ends in SENSORS.items()]
    sensors = files.sparkSession.createDataFrame(known, "sensor STRING, low DOUBLE, high DOUBLE")
    reasons = [F.when(F.expr(broken), reason) for reason, broken in RULES.items()]
    return (
        files.select("*", F.expr("_metadata.file_path AS file"), F.expr("_metadata.file_modification_time AS landed"))
        .join(F.broadcast(sensors), "sensor", "left")
        .select("file", "landed", F.coalesce(*reasons).alias("reason"), "sensor", "at", "value", "broken")
    )


def good(rows: DataFrame) -> DataFrame:
    return rows.where("reason IS NULL").select("sensor", "at", "value")


def latest(rows: DataFrame) -> DataFrame:
    """Of several good rows with the same sensor and time, the one whose file came last."""
    value = F.expr("max_by(value, struct(landed, file, value))").alias("value")
    return rows.where("reason IS NULL").groupBy("sensor", "at").agg(value)


def hours_of(readings: DataFrame) -> DataFrame:
    return readings.select("sensor", F.date_trunc("hour", "at").alias("hour")).distinct()


def roll_up(hours: DataFrame, readings: DataFrame) -> DataFrame:
    """The roll-up of each of the hours. One whose readings have all gone has 0 readings."""
    value = F.col("value")
    mean = F.avg(value.cast("decimal(18, 6)"))  # a mean of doubles would depend on the order of the rows
    return (
        hours.join(readings.withColumn("hour", F.date_trunc("hour", "at")), ["sensor", "hour"], "left")
        .groupBy("sensor", "hour")
        .agg(
            F.count(value).alias("readings"),
            F.min(value).alias("low"),
            mean.cast("double").alias("mean"),
            F.max(value).alias("high"),
        )
    )


# ---------------------------------------------------------------- the steps


@dataclass(frozen=True)
class Rows:
    """What a step has done."""

    read: int
    written: int
    quarantined: int = 0


@dataclass(frozen=True)
class Pipeline:
    """The steps, over the files below `folder`, into the tables of a database."""

    spark: SparkSession
    cluster: leasehold.Cluster
    folder: Path
    database: str = "sensors"

    def run(self, note: Callable[[str], None]) -> datetime:
        """Runs all steps; `note` hears of each as it begins. Answers under which time the report has this run."""
        began = datetime.now(UTC)
        for statement in STATEMENTS:
            self.cluster.sql(statement.format(self.database))
        for place in ("readings", "days", "late"):
            (self.folder / "landing" / place).mkdir(parents=True, exist_ok=True)
        for step in (self.ingest, self.quarantine, self.correct, self.late, self.roll_up):
            note(step.__name__)
            since = time.monotonic()
            rows = step()
            self.report(began, step.__name__, rows, time.monotonic() - since)
        return began

    def ingest(self) -> Rows:
        arrived = judged(self.arriving("landing/readings"))
        return Rows(*self.stream(good(arrived), "readings"))

    def quarantine(self) -> Rows:
        arrived = judged(self.arriving("landing/*"))
        read, written = self.stream(arrived.where("reason IS NOT NULL"), "quarantine")
        return Rows(read, 0, written)

    def correct(self) -> Rows:
        """A day of which there is a file has the rows of the file, and late ones."""
        total = Rows(0, 0)
        for path in sorted((self.folder / "landing/days").glob("*.json")):
            rows = self.lying(str(path))
            begin = date.fromisoformat(path.stem)
            where = f"at >= TIMESTAMP '{begin} 00:00:00Z' AND at < TIMESTAMP '{begin + timedelta(days=1)} 00:00:00Z'"
            leasehold.spark.write(good(rows), self.name("readings"), "overwrite", where=where)
            total = Rows(total.read + rows.count(), total.written + good(rows).count())
        return total

    def late(self) -> Rows:
        rows = self.lying("landing/late")
        merged = latest(rows)
        leasehold.spark.merge(merged, self.name("readings"), on=["sensor", "at"])
        return Rows(rows.count(), merged.count())

    def roll_up(self) -> Rows:
        """Hours that are older than what is accepted stay as they are: some of their readings may have expired."""
        now = self.cluster.sql(f"SHOW TABLES IN {self.database}").revision
        assert now is not None, "that of the catalog that was shown"
        hours = self.changed_hours(now).where(F.col("hour") > F.lit(datetime.now(UTC) - ACCEPTED))
        ends = (F.min("hour"), F.max("hour") + F.expr("INTERVAL 1 HOUR"))
        changed, first, last = hours.agg(F.count("*"), *(one.cast("string") for one in ends)).collect()[0]
        if changed:
            where = f"at >= TIMESTAMP '{first}Z' AND at < TIMESTAMP '{last}Z'"
            readings = leasehold.spark.table(self.spark, self.name("readings"), where=where, as_of=now)
            fresh = roll_up(hours, readings).withColumn("revision", F.lit(now).cast("long"))
            leasehold.spark.merge(fresh, self.name("hourly"), on=["sensor", "hour"])
        return Rows(changed, changed)

    def changed_hours(self, now: int) -> DataFrame:
        """The hours in which readings came or went since the roll-ups were made; all, if nobody can tell any more."""
        hourly = leasehold.spark.table(self.spark, self.name("hourly"), columns=["sensor", "hour", "revision"])
        done = hourly.agg(F.max("revision")).collect()[0][0]
        if done is not None:
            try:
                return hours_of(leasehold.spark.changes(self.spark, self.name("readings"), done, now))
            except LeaseholdError as error:
                if error.code not in {"TOO_OLD", "ROWS_TAKEN_AWAY"}:
                    raise
        readings = leasehold.spark.table(self.spark, self.name("readings"), columns=["sensor", "at"], as_of=now)
        return hours_of(readings).union(hourly.select("sensor", "hour")).distinct()

    # ------------------------------------------------------------ what they share

    def name(self, table: str) -> str:
        return f"{self.database}.{table}"

    def count(self, table: str) -> int:
        return leasehold.spark.table(self.spark, self.name(table)).count()

    def arriving(self, places: str) -> DataFrame:
        return self.spark.readStream.schema(COLUMNS).options(**READING).json(str(self.folder / places))

    def lying(self, place: str) -> DataFrame:
        """All rows of files that there are."""
        return judged(self.spark.read.schema(COLUMNS).options(**READING).json(str(self.folder / place)))

    def stream(self, rows: DataFrame, table: str) -> tuple[int, int]:
        """Writes what has come since the last time; answers how many rows were read and written."""
        before = self.count(table)
        writer = rows.writeStream.format("leasehold").option("checkpointLocation", str(self.folder / "state" / table))
        query = writer.trigger(availableNow=True).start(self.name(table))
        query.awaitTermination()
        read = sum(one["numInputRows"] for one in query.recentProgress)
        return read, self.count(table) - before

    def report(self, run: datetime, step: str, rows: Rows, seconds: float) -> None:
        counts = {"rows_in": rows.read, "rows_out": rows.written, "quarantined": rows.quarantined}
        line = {"run": run, "ended": datetime.now(UTC), "step": step, **counts, "seconds": round(seconds, 2)}
        self.cluster.table(self.name("runs")).append(pa.Table.from_pylist([line]))
