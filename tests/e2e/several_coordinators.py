"""What tests of several coordinators ask them, and do with them again and again."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import Receipt
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Unreachable
from tests.e2e.cluster import RunningCluster
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
