"""One cluster and one Spark session for all tests of the connector: a session takes seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import session
from tests.e2e.cluster import RunningCluster

WORKERS = Path(__file__).parent / "workers"
"""What Spark's Python workers run when they start."""


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("spark") / "cluster", nodes=2, tls=True) as cluster:
        with cluster.connect() as connection:
            connection.sql("CREATE DATABASE e2e")
        yield cluster


@pytest.fixture(scope="session")
def spark(running: RunningCluster) -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(WORKERS), prepend=os.pathsep)
        # Four attempts per task: a local session has one unless its master says so.
        spark = session("leasehold-tests", cluster=running.directory, master="local[2,4]", **settings)
    yield spark
    spark.stop()


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as connection:
        yield connection


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A path that tasks use to tell their first attempt from the second."""
    return tmp_path / "tried"
