"""`leasehold meta migrate` with real processes: a cluster moves into etcd and back, and its nodes come back at once."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leasehold.client.locate import COORDINATOR, KEY_FILE, read_cluster_file
from leasehold.local.process import Process
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.waiting import wait_until_whole
from tests.etcd_cluster import EtcdCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ROWS = 300


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The place of a log in an etcd."""
    cluster = EtcdCluster(tmp_path / "etcd", 1)
    cluster.start()
    yield f"etcd://{cluster.endpoints[0]}/moved"
    cluster.kill()


class Moving:
    """A cluster whose coordinator has another directory after each move, and always the same address."""

    def __init__(self, running: RunningCluster) -> None:
        self.running = running
        self.address = read_cluster_file(running.directory).coordinators[COORDINATOR]
        self.coordinator = running.local.coordinator

    def stop_nodes(self) -> None:
        for name in self.running.names():
            self.running.local.node(name).stop()

    def stop(self) -> None:
        self.stop_nodes()
        self.coordinator.stop()

    def start(self, name: str, *words: str) -> None:
        """A coordinator in a directory of this name, then the nodes."""
        self.coordinator = Process(self.running.directory / name)
        self.coordinator.start(self.words(name, *words))
        for node in self.running.names():
            self.running.local.start(node)
        self.running.wait_until_active()

    def words(self, name: str, *words: str) -> list[str]:
        key = str(self.running.directory / KEY_FILE)
        return [
            *("coordinator", "--dir", str(self.running.directory / name)),
            *("--listen", self.address, "--cluster-key", key, *words),
        ]

    def refused(self, name: str, *words: str) -> Ran:
        return leasehold(*self.words(name, *words))

    def goes_on(self, database: str, rows: int) -> None:
        """Each node has come back without a snapshot, and all works."""
        with self.running.connect() as cluster:
            told = {node.name: node.recovery for node in cluster.status().nodes}
            assert {None if one is None else one.case for one in told.values()} <= {"a", "b"}, told
            assert cluster.table("d.t").scan().read_all().num_rows == rows
            cluster.sql(f"CREATE DATABASE {database}")
            append(self.running)
            assert cluster.table("d.t").scan().read_all().num_rows == rows + ROWS


def append(running: RunningCluster) -> None:
    with running.connect() as cluster:
        assert cluster.table("d.t").append(pa.table({"a": pa.array(range(ROWS), pa.int64())})) == ROWS
        wait_until_whole(cluster)


def test_a_cluster_moves_into_a_store_and_back(tmp_path: Path, store: str) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=2) as running:
        moving = Moving(running)
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.t (a BIGINT) TBLPROPERTIES ('replication' = '2')")
        append(running)
        running.local.node("node-2").stop()
        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE that_node_2_has_not_seen")
        first = str(moving.coordinator.directory)
        to_store = ("meta", "migrate", "--dir", first, "--to", store)
        leasehold(*to_store).refused(3, "BAD_DIRECTORY", "in use by process")
        moving.stop()
        done = leasehold(*to_store, "-o", "json").json()
        assert (done["generation"], done["to"]) == (1, store)
        leasehold(*to_store).refused(3, "META_MOVED", store)
        moving.refused(COORDINATOR).refused(3, "META_MOVED", f"has moved to {store}", f"--meta {store}")
        moving.refused(COORDINATOR, "--meta", store).refused(3, "META_MOVED", "an empty --dir")
        leasehold("recover", "--dir", first).refused(3, "META_MOVED")

        moving.start("second", "--meta", store)
        moving.goes_on("in_the_store", ROWS)
        moving.stop_nodes()
        third = running.directory / "third"
        to_file = ("meta", "migrate", "--meta", store, "--to", "sqlite", "--dir", str(third))
        leasehold(*to_file).refused(3, "STILL_LED", "leads in the log")
        assert not third.exists()
        moving.stop()
        ran = leasehold(*to_file)
        assert ran.code == 0, ran.err
        assert f"cluster {done['cluster_id']} has moved to {third}, as generation 1" in ran.out
        assert f"--dir {third}" in ran.err
        moving.refused("second", "--meta", store).refused(3, "META_MOVED", str(third))
        moving.refused("fourth", "--meta", store).refused(3, "META_MOVED", str(third))

        moving.start("third")
        moving.goes_on("in_a_file", 2 * ROWS)


def test_what_can_not_be_moved_is_refused(tmp_path: Path) -> None:
    directory = str(tmp_path / "coordinator")
    leasehold("meta", "migrate", "--to", "etcd://127.0.0.1:1/x").refused(2, "BAD_SETTINGS", "--dir")
    leasehold("meta", "migrate", "--to", "sqlite", "--dir", directory).refused(2, "BAD_SETTINGS", "--meta")
    leasehold(
        "meta", "migrate", "--meta", "etcd://127.0.0.1:1/x", "--to", "etcd://127.0.0.1:1/y", "--dir", directory
    ).refused(2, "BAD_SETTINGS", "both --dir and --meta")
    leasehold("meta", "migrate", "--to", "file", "--dir", directory).refused(2, "BAD_CONFIG")
    quick = ("--to", "etcd://127.0.0.1:1/x", "--timeout", "1s")
    leasehold("meta", "migrate", "--dir", directory, *quick).refused(5, "UNREACHABLE")
    assert list(tmp_path.iterdir()) == []
