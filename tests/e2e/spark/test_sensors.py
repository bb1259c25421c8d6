"""The pipeline of examples/sensors ends with the same rows, however often it is run, and wherever it is killed."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from examples.sensors import readings
from examples.sensors.pipeline import RULES, Pipeline
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from tests.documents import ROOT
from tests.e2e.cluster import RunningCluster
from tests.e2e.pages import blocks, commands
from tests.e2e.spark import sensors_job
from tests.e2e.spark.sensors_rows import Tables, expected, rolled_up, stored
from tests.few import few

pytestmark = pytest.mark.spark

PLACES = ("readings", "days", "late")
TODAY = datetime.now(UTC).date()
KILLS = 20


def quiet(_: str) -> None:
    """Nobody reads what a test is at."""


def rows_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    return cluster.table(name).scan().read_all().to_pylist()


def run(pipeline: Pipeline) -> Tables:
    pipeline.run(quiet)
    return stored(pipeline.cluster, pipeline.database)


def test_a_row_is_in_quarantine_for_the_first_rule_that_it_breaks(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, cluster, tmp_path, "sensors_rules")
    begin = readings.midnight(TODAY)
    lines = readings.bad_lines(begin)
    both = {"sensor": "attic", "at": None, "value": 20.0}
    words = {"sensor": "kitchen", "at": readings.written(begin), "value": "warm"}
    readings.put(tmp_path / "landing/readings/bad.json", [*lines, both, words])
    assert run(pipeline) == expected(tmp_path / "landing")
    found = rows_of(cluster, "sensors_rules.quarantine")
    assert Counter(one["reason"] for one in found) == Counter([*RULES, "unknown sensor", "not readable"])
    assert {one["broken"] for one in found if one["reason"] == "not readable"} == {lines[0], json.dumps(words)}


def test_a_second_run_changes_nothing_and_each_row_of_a_file_is_in_one_table(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    pipeline, landing = Pipeline(spark, cluster, tmp_path, "sensors_twice"), tmp_path / "landing"
    readings.land(landing, 1, TODAY)
    readings.land_later(landing, 1, TODAY)
    readings.land_machine(landing, 1)
    late = json.loads(next((landing / "late").glob("*")).read_text().splitlines()[0])
    readings.put(landing / "late/again.json", [{**late, "value": 21.5}])
    soon = datetime.now(UTC).timestamp() + 10
    os.utime(landing / "late/again.json", (soon, soon))
    first = run(pipeline)
    assert first.readings[late["sensor"], datetime.fromisoformat(late["at"]), 21.5] == 1, "the last word counts"
    assert first == expected(landing)
    assert run(pipeline) == first
    report = rows_of(cluster, "sensors_twice.runs")
    assert Counter(one["step"] for one in report) == Counter(2 * sensors_job.STEPS)
    counts = Counter[str]()
    for one in report:
        counts.update({f"{one['step']} {what}": one[what] for what in ("rows_in", "rows_out", "quarantined")})
    lines = {place: sum(len(one.read_text().splitlines()) for one in (landing / place).glob("*")) for place in PLACES}
    assert counts["ingest rows_in"] == lines["readings"]
    assert counts["quarantine rows_in"] == sum(lines.values())
    assert counts["quarantine quarantined"] == first.quarantine.total()
    assert counts["correct rows_in"] == 2 * lines["days"], "each run takes them all"
    assert counts["late rows_in"] == 2 * lines["late"]


def test_roll_ups_are_made_anew_where_nobody_can_tell_what_has_changed(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    pipeline, landing = Pipeline(spark, cluster, tmp_path, "sensors_deleted"), tmp_path / "landing"
    readings.land(landing, 2, TODAY)
    assert run(pipeline) == expected(landing)
    cluster.sql("DELETE FROM sensors_deleted.readings WHERE sensor = 'cellar'")
    found = run(pipeline)
    assert "cellar" not in {sensor for sensor, _ in found.hourly}
    assert found.hourly == rolled_up(found.readings)
    gone = [one for one in rows_of(cluster, "sensors_deleted.hourly") if one["sensor"] == "cellar"]
    assert {(one["readings"], one["mean"]) for one in gone} == {(0, None)}
    assert len(gone) == readings.DAYS * 24


@pytest.mark.parametrize("seed", few(1, range(KILLS)))
def test_the_pipeline_ends_with_the_same_rows_wherever_it_is_killed(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    """As a step begins, or somewhere in it; while all files are new, or after a first run."""
    drawn, name, landing = random.Random(seed), f"sensors_killed_{seed}", tmp_path / "landing"
    step = sensors_job.STEPS[(4 + seed) % len(sensors_job.STEPS)]
    after_ms = drawn.randrange(2_500) if seed % 4 < 2 else 0
    pipeline = Pipeline(spark, cluster, tmp_path, name)
    readings.land(landing, seed, TODAY)
    if (seed // len(sensors_job.STEPS)) % 2 == 0:
        assert run(pipeline) == expected(landing)
    readings.land_later(landing, seed, TODAY)
    done = sensors_job.run(running.directory, tmp_path, name, step, after_ms)
    assert done.returncode == -signal.SIGKILL or (done.returncode == 0 and after_ms), done.stderr[-4_000:]
    assert run(pipeline) == expected(landing), f"killed {after_ms} ms after the begin of {step}"


@pytest.mark.long
def test_the_commands_of_its_page(tmp_path: Path) -> None:
    for _, text in blocks("examples/sensors/README.md"):
        for command, _ in commands(text):
            words = command.replace("sensors-output", str(tmp_path / "out")).split()
            done = subprocess.run(
                [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, done.stderr[-4_000:]
            assert all(f" {step} " in done.stdout for step in sensors_job.STEPS)
            assert all(f" {rule} " in done.stdout for rule in RULES)
            assert "of which 0 are not" in done.stderr
