"""Streams are written while nodes, coordinators and drivers are killed and stopped: each row is there once."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import table
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark import stream_job
from tests.e2e.spark.test_changes_under_faults import faults
from tests.e2e.waiting import wait_until
from tests.few import few

pytestmark = [pytest.mark.spark, pytest.mark.processes]

ROWS = 20
"""Of a file."""
RUNS_MAX = 40
KILLS = 10


def fill(spark: SparkSession, folder: Path, files: int) -> None:
    spark.range(0, files * ROWS, 1, files).write.parquet(str(folder))


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row["id"] for row in table(spark, name).collect())


def finish(spark: SparkSession, folder: Path, checkpoint: Path, name: str) -> list[str]:
    """Starts the query again until it has written all that there is; why it ended before."""
    failures: list[str] = []
    while True:
        files = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(folder))
        writer = files.writeStream.format("leasehold").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(name)
        try:
            query.awaitTermination()
        except PySparkException as error:
            failures.append(str(error)[:500])
            assert len(failures) < RUNS_MAX, failures
        else:
            return failures


@pytest.mark.parametrize("seed", few(1, range(20)))
def test_each_row_of_a_stream_is_there_once_whatever_is_killed_or_stopped(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    name, files = f"e2e.streamed_hard_{seed}", 12
    cluster.sql(f"CREATE TABLE {name} (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    fill(spark, tmp_path / "in", files)
    with faults(running, random.Random(seed)):
        failures = finish(spark, tmp_path / "in", tmp_path / "checkpoint", name)
    assert ids(spark, name) == list(range(files * ROWS)), failures


def is_alive(group: int) -> bool:
    """Whether a process of the group is left, or a thread: Java may end what it does to a file after it was killed."""
    for one in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(one.pid) == group and (one.info["status"] != psutil.STATUS_ZOMBIE or one.num_threads() > 1):
                return True
    return False


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.long)])
def test_each_row_of_a_stream_is_there_once_however_often_its_driver_is_killed(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, kills: int
) -> None:
    name, files, drawn = f"e2e.streamed_killed_{kills}", 8 * kills, random.Random(kills)
    cluster.sql(f"CREATE TABLE {name} (id BIGINT)")
    fill(spark, tmp_path / "in", files)
    words = (str(running.directory), str(tmp_path / "in"), str(tmp_path / "checkpoint"), name)
    for number in range(kills):
        before = len(cluster.plan(name).segments)
        log = tmp_path / f"driver-{number}"
        with log.open("wb") as said:
            driver = subprocess.Popen(
                [sys.executable, "-m", stream_job.__name__, *words],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        try:
            while driver.poll() is None and len(cluster.plan(name).segments) == before:
                sleep_ns(20_000_000)
            sleep_ns(drawn.randrange(1_500) * 1_000_000)
            assert driver.poll() is None, log.read_text()[-2_000:]
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
                wait_until(lambda group=driver.pid: not is_alive(group))
    failures = finish(spark, tmp_path / "in", tmp_path / "checkpoint", name)
    assert ids(spark, name) == list(range(files * ROWS)), failures
    assert not failures, "\n".join(failures)
