"""One cluster and one Spark session for all tests of the connector: a session takes seconds to start."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Receipt
from leasehold.limits.units import SECOND_NS
from leasehold.spark import session
from leasehold.spark.types import spark_schema
from leasehold.wire.clock import sleep_ns
from tests import overdue
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark.kinds import EVERY_TYPE, rows

WHOLE_SECONDS = 400
"""Of the first test, which waits for the cluster and the session of all, on a busy machine."""
WORKERS = Path(__file__).parent / "workers"
"""What Spark's Python workers run when they start."""
STACKS_VARIABLE = "WORKER_STACKS"
"""Names the file to which the workers write where they are when they get SIGUSR1."""
STACKS_SHOWN = 3_000
"""Characters."""
TIMER = pytest.StashKey[threading.Timer]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test here more time, whichever comes first."""
    here = Path(__file__).parent
    for one in items:
        if one.path.is_relative_to(here) and one.get_closest_marker("timeout") is None:
            one.add_marker(pytest.mark.timeout(WHOLE_SECONDS))


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Ends Spark just before a test has had its time, so that nothing that tidies up waits for it.

    Spark still works on what it was asked, and answers each thread in order: every later call would wait too.
    """
    if item.path.is_relative_to(Path(__file__).parent):
        timer = threading.Timer(settings.timeout - 1, _end_spark, (item,))
        timer.daemon = True
        timer.start()
        item.stash[TIMER] = timer


def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    timer = item.stash.get(TIMER, None)
    if timer is not None:
        timer.cancel()


def _end_spark(item: pytest.Item) -> None:
    """The run ends with the test. Its last line says where the test was, its output where Java and the tasks were."""
    item.session.shouldfail = f"{item.name} took too long: {overdue.where()}"
    context: Any = SparkContext._active_spark_context
    if context is not None:
        java = psutil.Process(context._gateway.proc.pid)
        java.send_signal(signal.SIGQUIT)
        for one in java.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it may end at any time
                if "pyspark.daemon" in one.cmdline():
                    one.send_signal(signal.SIGUSR1)
                    sleep_ns(100_000_000)  # so that they do not write at once
        sleep_ns(SECOND_NS)  # Java writes for a while
        java.kill()
        context._gateway.proc.wait()
        stacks = Path(os.environ[STACKS_VARIABLE]).read_text()
        item.add_report_section("call", "stacks of Spark's Python workers", stacks[-STACKS_SHOWN:])


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("spark") / "cluster", nodes=2, tls=True) as cluster:
        with cluster.connect() as connection:
            connection.sql("CREATE DATABASE e2e")
        yield cluster


@pytest.fixture(scope="session")
def spark(running: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STACKS_VARIABLE, str(tmp_path_factory.mktemp("workers") / "stacks"))
        with patch.context() as beginning:
            beginning.setenv("PYTHONPATH", str(WORKERS), prepend=os.pathsep)
            # Four attempts per task: a local session has one unless its master says so.
            spark = session("leasehold-tests", cluster=running.directory, master="local[2,4]", **settings)
        yield spark
        context: Any = spark.sparkContext
        if context._gateway.proc.poll() is None:
            spark.stop()


@pytest.fixture(scope="session")
def kinds(running: RunningCluster, spark: SparkSession) -> list[Row]:
    """The table `e2e.kinds` with 40 rows in 4 buckets, written by three tasks; its rows."""
    with running.connect() as cluster:
        receipt = cluster.sql(f"CREATE TABLE e2e.kinds ({EVERY_TYPE}) CLUSTERED BY (id) INTO 4 BUCKETS")
        assert isinstance(receipt, Receipt)
        schema = spark_schema(cluster.facts("e2e.kinds").fields)
    written = rows()
    frame = spark.createDataFrame(written, schema).repartition(3)
    frame.write.format("leasehold").option("table", "e2e.kinds").mode("append").save()
    return written


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Cluster]:
    with running.connect() as connection:
        yield connection


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A path that tasks use to tell their first attempt from the second."""
    return tmp_path / "tried"
