"""What tests of several coordinators ask them, and do with them again and again."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import Receipt, Rows
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.local.process import Process
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import leasehold
from tests.e2e.waiting import wait_until


def leader(cluster: RunningCluster) -> str | None:
    """The name of the coordinator that says that it leads."""
    for name, address in read_cluster_file(cluster.directory).coordinators.items():
        try:
            with Coordinators(address) as asked:
                if asked.whoami().leader:
                    return name
        except LeaseholdError:
            continue
    return None


def present_leader(cluster: RunningCluster) -> str:
    """As `leader`, once there is one."""
    found: list[str] = []

    def leads() -> bool:
        name = leader(cluster)
        found.extend([] if name is None else [name])
        return bool(found)

    wait_until(leads)
    return found[0]


def rows(cluster: RunningCluster) -> int:
    with cluster.connect() as client:
        return client.table("d.t").scan().read_all().num_rows


def committed(cluster: RunningCluster, text: str) -> None:
    with cluster.connect() as client:
        receipt = client.sql(text, timeout=60)
    assert isinstance(receipt, Receipt)
    assert receipt.outcome == "COMMITTED"


def tables(cluster: RunningCluster, database: str) -> set[str]:
    """Their names."""
    with cluster.connect() as client:
        shown = client.sql(f"SHOW TABLES IN {database}")
    assert isinstance(shown, Rows)
    return {str(row[1]) for row in shown.rows}


def declaring(database: str) -> Callable[[Cluster, int], None]:
    """Work of `Busy`: tables t0, t1 .. of a database."""

    def declare(client: Cluster, number: int) -> None:
        receipt = client.sql(f"CREATE TABLE {database}.t{number} (a INT)", timeout=60)
        assert isinstance(receipt, Receipt)
        assert receipt.outcome == "COMMITTED"

    return declare


@contextmanager
def hanging_leader(cluster: RunningCluster) -> Generator[None]:
    """Another coordinator leads, and its event loop stands still during the block; then it is started anew."""

    def start(process: Process, words: list[str]) -> None:
        process.run([sys.executable, "-m", "tests.e2e.hanging_coordinator", *words])

    old = present_leader(cluster)
    name = next(one for one in read_cluster_file(cluster.directory).coordinators if one != old)
    cluster.kill(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Process, "start", start)
        cluster.restart(name)
    leasehold("leader", "transfer", name, "-o", "json", directory=cluster.directory).json()
    assert present_leader(cluster) == name
    cluster.local.node(name).signal(signal.SIGUSR1)
    try:
        yield
    finally:
        cluster.kill(name)
        cluster.restart(name)


PAUSE_NS = 20_000_000
"""Between pieces of work that are done all the time: without it they take a processor, and faults meet no more."""


class Busy(threading.Thread):
    """Does one piece of work after the other with a client of its own, until it is ended."""

    def __init__(self, cluster: RunningCluster, work: Callable[[Cluster, int], None]) -> None:
        super().__init__()
        self.done = 0
        self._cluster = cluster
        self._work = work
        self._more = threading.Condition()
        self._ends = False
        self._failed: Exception | None = None

    def run(self) -> None:
        try:
            with self._cluster.connect() as client:
                while not self._ends:
                    self._work(client, self.done)
                    with self._more:
                        self.done += 1
                        self._more.notify_all()
                    sleep_ns(PAUSE_NS)
        except Exception as error:  # noqa: BLE001 - `check` raises it in the test
            self._failed = error

    def wait_for_more(self, count: int) -> None:
        until = self.done + count
        with self._more:
            assert self._more.wait_for(lambda: self.done >= until or self._failed, timeout=120)
        self.check()

    def check(self) -> None:
        if self._failed is not None:
            raise self._failed

    def end(self) -> None:
        self._ends = True
        self.join()
        self.check()


class Reading(threading.Thread):
    """Reads all rows by one plan again and again, until no replica serves."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__()
        self.client = cluster.connect()
        self.scans = 0
        self.failed: LeaseholdError | None = None
        self._plan = self.client.plan("d.t")

    def run(self) -> None:
        try:
            while True:
                assert self.client.within(1).read(self._plan).read_all().num_rows == 100
                self.scans += 1
        except LeaseholdError as error:
            self.failed = error


def has_quorum(cluster: RunningCluster) -> bool:
    """False once all coordinators that are asked have found out that the store has none."""
    with cluster.connect() as client:
        try:
            client.whoami()
        except Unreachable as error:
            return error.code != ErrorCode.NO_QUORUM
    return True


def delete(replica: Path) -> None:
    replica.unlink()


def truncate(replica: Path) -> None:
    with replica.open("r+b") as file:
        file.truncate(replica.stat().st_size // 2)


def flip(replica: Path) -> None:
    """One bit of each page but the first, which is the one of the schema."""
    blob = bytearray(replica.read_bytes())
    for place in range(4096 + 500, len(blob), 4096):
        blob[place] ^= 1
    replica.write_bytes(blob)


def garble(replica: Path) -> None:
    replica.write_bytes(os.urandom(replica.stat().st_size))


DAMAGES = [delete, truncate, flip, garble]
