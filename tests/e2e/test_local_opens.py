"""Local opens with real processes: once a destructive statement has returned, no file of the table can be opened."""

import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.local_opens import LocalOpen, open_locally
from leasehold.client.threads import THREADS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.processes

DRIVER = """
import sys
from leasehold.client.cluster import connect
from leasehold.client.local_opens import open_locally
with connect(sys.argv[1]) as cluster:
    plan = cluster.plan("db.t")
    open_ = open_locally(plan, [plan.segments], login=None, revision=plan.facts.revision, tls=cluster.tls)
    for folders in open_.folders:
        for folder in folders:
            for path in folder.iterdir():
                print(path)
    print("opened", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("local") / "c", nodes=2) as made:
        with made.connect() as cluster:
            cluster.sql("CREATE DATABASE db")
        yield made


@pytest.fixture
def cluster(running: RunningCluster) -> Generator[Cluster]:
    with running.connect() as made:
        made.sql("CREATE TABLE db.t (k BIGINT, v STRING)")
        made.table("db.t").append(pa.table({"k": list(range(1_000)), "v": ["v"] * 1_000}))
        yield made
        running.wait_until_active()
        made.sql("DROP TABLE IF EXISTS db.t")


def opened(cluster: Cluster) -> tuple[LocalOpen, list[Path]]:
    plan = cluster.plan("db.t")
    open_ = open_locally(plan, [plan.segments], login=None, revision=plan.facts.revision, tls=cluster.tls)
    assert open_.left_out == {}
    return open_, [file for folder in open_.folders[0] for file in folder.iterdir()]


def until(holds: Callable[[], bool]) -> None:
    until_ns = THREADS.now_ns() + 30 * SECOND_NS
    while not holds():
        assert THREADS.now_ns() < until_ns
        sleep_ns(20 * MILLISECOND_NS)


@pytest.mark.parametrize("fate", ["lives", "paused", "killed"])
def test_no_file_can_be_opened_once_a_drop_has_returned(running: RunningCluster, cluster: Cluster, fate: str) -> None:
    open_, paths = opened(cluster)
    assert sum(pq.read_metadata(path).num_rows for path in paths) == 1_000
    folders = {name: running.local.node(name).directory for name in running.names()}
    holders = [name for name, folder in folders.items() if any(path.is_relative_to(folder) for path in paths)]
    assert holders
    if fate == "paused":
        running.pause(holders[0])
    if fate == "killed":
        running.kill(holders[0])
    try:
        cluster.sql("DROP TABLE db.t")
        assert not any(path.exists() for path in paths)
        until(lambda: open_.ended is not None)
    finally:
        if fate == "paused":
            running.resume(holders[0])
        if fate == "killed":
            running.restart(holders[0])


def test_an_open_that_is_kept_outlasts_many_leases(cluster: Cluster) -> None:
    open_, paths = opened(cluster)
    until_ns = THREADS.now_ns() + 5 * SECOND_NS
    while THREADS.now_ns() < until_ns:
        assert open_.ended is None
        sleep_ns(100 * MILLISECOND_NS)
    assert all(path.exists() for path in paths)
    open_.close()
    assert not any(path.exists() for path in paths)


@contextmanager
def driver(running: RunningCluster) -> Generator[tuple["subprocess.Popen[str]", list[Path]]]:
    command = [sys.executable, "-c", DRIVER, str(running.directory)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        paths: list[Path] = []
        while (line := process.stdout.readline().strip()) != "opened":
            assert line, "the driver has failed"
            paths.append(Path(line))
        assert paths
        assert all(path.exists() for path in paths)
        yield process, paths
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_driver_that_hangs_or_dies_keeps_no_file_after_a_drop(
    running: RunningCluster, cluster: Cluster, number: signal.Signals
) -> None:
    with driver(running) as (process, paths):
        process.send_signal(number)
        cluster.sql("DROP TABLE db.t")
        assert not any(path.exists() for path in paths)


@pytest.mark.usefixtures("cluster")
def test_what_a_killed_driver_leaves_goes_with_its_sub_lease(running: RunningCluster) -> None:
    with driver(running) as (process, paths):
        process.kill()
        until(lambda: not any(path.exists() for path in paths))


@pytest.mark.usefixtures("cluster")
def test_a_driver_that_ends_removes_its_files(running: RunningCluster) -> None:
    with driver(running) as (process, paths):
        process.communicate("")
        assert process.returncode == 0
        assert not any(path.exists() for path in paths)
