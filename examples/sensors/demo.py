"""Readings of a house and of this machine, through the pipeline, in a minute or two. Kill it, and run it again.

Progress goes to stderr, the tables of the results to stdout. The exit code is 0 only if the roll-ups are right.
"""

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pipeline import Pipeline, hours_of, roll_up
from pyspark.sql import SparkSession
from readings import land, land_later, land_machine, put

import leasehold
import leasehold.spark
from leasehold.cli.output import note, show_table

BEGAN = time.monotonic()
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # compiles less, for a minute of work
}


def step(what: str) -> None:
    note(f"[{time.monotonic() - BEGAN:5.1f} s] {what}")


def cli(*words: str) -> None:
    """Runs `leasehold ..`; what it says on stderr is shown as it comes."""
    done = subprocess.run([sys.executable, "-m", "leasehold.cli.main", *words], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise SystemExit(f"`leasehold {' '.join(words)}` ended with exit code {done.returncode}")


def first_day(folder: Path) -> date:
    """The day on which this directory was used first: its readings are those of the days before."""
    put(folder / "began.json", [json.dumps(datetime.now(UTC).date().isoformat())])
    return date.fromisoformat(json.loads((folder / "began.json").read_text()))


def run(spark: SparkSession, cluster: leasehold.Cluster, folder: Path, seed: int, readings: int) -> bool:
    """Runs the pipeline over what comes first, then over what comes later; whether the roll-ups are right."""
    pipeline, landing, today = Pipeline(spark, cluster, folder), folder / "landing", first_day(folder)
    land(landing, seed, today)
    runs = [pipeline.run(step)]
    step("late readings, a corrected day and readings of this machine come")
    land_later(landing, seed, today)
    land_machine(landing, readings)
    runs.append(pipeline.run(step))
    for began in runs:
        columns = ["step", "rows_in", "rows_out", "quarantined", "seconds"]
        report = leasehold.spark.table(spark, "sensors.runs", where=f"run = TIMESTAMP '{began.isoformat()}'")
        rows: list[Any] = report.orderBy("ended").select(*columns).collect()
        show_table([f"run of {began:%H:%M:%S}", *columns[1:]], rows)
    show(
        spark, "sensors.quarantine", "SELECT reason, count(*) AS rows FROM {0} GROUP BY ALL ORDER BY rows DESC, reason"
    )
    show(spark, "sensors.hourly", "SELECT * EXCEPT (revision) FROM {0} ORDER BY hour DESC, sensor LIMIT 8")
    return is_right(spark)


def show(spark: SparkSession, table: str, query: str) -> None:
    frame = leasehold.spark.sql(spark, query.format(table))
    rows: list[Any] = frame.collect()
    show_table([f"{table}: {frame.columns[0]}", *frame.columns[1:]], rows)


def is_right(spark: SparkSession) -> bool:
    """Whether the roll-ups are those that a new GROUP BY over all readings gives."""
    readings = leasehold.spark.table(spark, "sensors.readings")
    kept = leasehold.spark.table(spark, "sensors.hourly", where="readings > 0").drop("revision")
    fresh = roll_up(hours_of(readings), readings)
    differ = kept.exceptAll(fresh).union(fresh.exceptAll(kept)).count()
    step(f"{kept.count()} hours, of which {differ} are not as a new GROUP BY has them")
    return differ == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("sensors-output"), help="where the cluster and the files are")
    parser.add_argument("--seed", type=int, default=1, help="what the readings of the house are made from")
    parser.add_argument("--readings", type=int, default=5, help="how many seconds of this machine are read")
    arguments = parser.parse_args()
    folder: Path = arguments.dir.absolute()
    where = folder / "cluster"
    if (where / "cluster.json").exists():  # of a run that was killed
        cli("down", "--dir", str(where))
    step("starting a coordinator and two nodes")
    cli("up", "--nodes", "2", "--detach", "--dir", str(where))
    try:
        step("starting Spark")
        spark = leasehold.spark.session("sensors", cluster=where, **SETTINGS)
        with leasehold.connect(where) as cluster:
            held = run(spark, cluster, folder, arguments.seed, arguments.readings)
        spark.stop()
    finally:
        cli("down", "--dir", str(where))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
