"""A cluster with TLS, of real processes: who comes in, who does not, and what goes on as without TLS."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest

from leasehold.certificates.files import CA
from leasehold.client.cluster import Cluster, connect
from leasehold.client.locate import read_cluster_file
from leasehold.errors import LeaseholdError, Refused, Unreachable
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.waiting import wait_until

ROWS = 1_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster.start(tmp_path_factory.mktemp("tls") / "cluster", nodes=2, tls=True) as one:
        with one.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            create = "CREATE TABLE d.t (a BIGINT) CLUSTERED BY (a) INTO 4 BUCKETS TBLPROPERTIES ('replication' = '2')"
            cluster.sql(create)
            cluster.table("d.t").append(pa.table({"a": range(ROWS)}))
        yield one


def address(running: RunningCluster) -> str:
    return ",".join(read_cluster_file(running.directory).coordinators.values())


def rows(cluster: Cluster) -> int:
    return cluster.table("d.t").scan().read_all().num_rows


def starting(running: RunningCluster, directory: Path, bundle: str) -> Ran:
    """What becomes of a node with that bundle."""
    tls = str(running.directory / "tls" / bundle)
    where = (
        "--dir",
        str(directory),
        "--coordinator",
        address(running),
        "--listen",
        "127.0.0.1:0",
        "--restart",
        "never",
    )
    return leasehold("node", "start", "--name", "node-9", "--tls", tls, *where)


class Tap:
    """Passes on to another address what comes to its own, and keeps it; a context manager."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._moving: list[threading.Thread] = []
        self._open = [self._listening]
        self.address = f"127.0.0.1:{self._listening.getsockname()[1] - 1}"
        """For a client that shows no certificate: it goes to the next port."""
        self.seen = bytearray()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for moving in self._moving:
            moving.join(30)
        for one in self._open:
            one.close()

    def _start(self, work: Callable[..., None], *words: socket.socket) -> None:
        self._moving.append(threading.Thread(target=work, args=words, daemon=True))
        self._moving[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._to)
                self._open += near, far
                self._start(self._move, near, far)
                self._start(self._move, far, near)

    def _move(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while some := source.recv(65536):
                self.seen += some
                target.sendall(some)
            target.shutdown(socket.SHUT_WR)


def test_its_owner_needs_to_know_nothing_of_tls(running: RunningCluster) -> None:
    assert read_cluster_file(running.directory).tls
    assert leasehold("sql", "SHOW NODES", directory=running.directory).code == 0
    with running.connect() as cluster:
        assert rows(cluster) == ROWS
        assert not cluster.status().anybody_may_join


def test_who_knows_the_root_alone_is_served_on_this_machine(running: RunningCluster) -> None:
    with connect(address(running), tls=running.directory / "tls" / CA) as cluster:
        assert rows(cluster) == ROWS


def test_who_knows_nothing_of_tls_is_told_so(running: RunningCluster) -> None:
    with connect(address(running), timeout=1) as cluster, pytest.raises(Unreachable, match="TLS"):
        cluster.status()


@pytest.mark.parametrize("bundle", ["node-1", "coordinator", "client"])
def test_a_node_does_not_start_with_the_certificate_of_another(
    running: RunningCluster, tmp_path: Path, bundle: str
) -> None:
    refused = starting(running, tmp_path / "n", bundle)
    refused.refused(2, "BAD_CERTIFICATE", "node-9" if bundle == "node-1" else "not of a node")
    assert not (tmp_path / "n").exists(), "nothing was made"


def test_a_password_is_enough_once_there_are_users(running: RunningCluster) -> None:
    roots = running.directory / "tls" / CA
    with running.connect() as owner:
        owner.sql("CREATE USER ann PASSWORD 'first-one'")
    try:
        with connect(address(running), tls=roots, user="ann", password="first-one") as cluster:
            assert rows(cluster) == ROWS
        with connect(address(running), tls=roots) as cluster, pytest.raises(LeaseholdError) as caught:
            cluster.sql("SHOW NODES")
        assert caught.value.code == "UNAUTHENTICATED"
        with running.connect() as cluster, pytest.raises(Refused):
            cluster.sql("SHOW NODES")  # its certificate says who it is, and no user
    finally:
        with connect(address(running), tls=roots, user="ann", password="first-one") as cluster:
            cluster.sql("DROP USER ann")
    wait_until(lambda: leasehold("sql", "SHOW NODES", directory=running.directory).code == 0)
