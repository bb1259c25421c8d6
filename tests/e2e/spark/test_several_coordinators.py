"""Spark with several coordinators, of which it was given two addresses: one is dead, and the leader dies too."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.locate import read_cluster_file
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.spark import session, table
from tests.e2e.cluster import RunningCluster
from tests.e2e.several_coordinators import present_leader
from tests.e2e.spark.holding import once, until_there
from tests.etcd_cluster import etcd_program

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    monkeypatch.setenv(PROGRAM_VARIABLE, etcd_program())
    with RunningCluster.start(tmp_path / "several", nodes=1, coordinators=3) as made:
        with made.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.t (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
        yield made


@pytest.fixture
def in_session(spark: SparkSession, running: RunningCluster) -> Iterator[SparkSession]:
    """The session of all tests, which knows their cluster again afterwards."""
    yield spark
    session(cluster=running.directory, master="local[2,4]")


def append(frame: DataFrame) -> None:
    frame.write.format("leasehold").option("table", "d.t").mode("append").save()


def test_the_first_address_is_dead_and_the_leader_dies_between_planning_and_running(
    in_session: SparkSession, several: RunningCluster, tmp_path: Path
) -> None:
    addresses = read_cluster_file(several.directory).coordinators
    leader = present_leader(several)
    dead, other = (name for name in addresses if name != leader)
    several.kill(dead)
    spark = session(cluster=f"{addresses[dead]},{addresses[other]}", master="local[2,4]")

    append(spark.range(100))
    with several.connect() as cluster:
        cluster.sql("DELETE FROM d.t WHERE id < 10")  # so tasks ask the leader which rows are deleted
    planned = table(spark, "d.t", local=False)
    assert planned.count() == 90

    opened, killed = tmp_path / "opened", tmp_path / "killed"

    held = until_there(killed)

    def hesitate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Runs in a worker, which can import the product but not the tests.
        opened.touch()
        held()
        yield from batches

    thread = once(opened.exists, lambda: several.kill(leader), killed)
    append(spark.range(100, 200).mapInArrow(hesitate, "id bigint"))
    thread.join()
    assert sorted(row["id"] for row in planned.collect()) == list(range(10, 100))
    assert sorted(row["id"] for row in table(spark, "d.t").collect()) == list(range(10, 200))
    assert present_leader(several) == other
