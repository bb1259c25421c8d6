"""How fast buckets move to other nodes, and what is felt meanwhile: nodes are drained, one after the other.

A drain copies all segments of one node to the others. Beside it, the same files go over one connection of the
loopback interface into files that are synced, one after the other: what the machine can do along the same way.

Then nodes are drained at the rate that a cluster has by default, while one client scans, one appends and one changes a
table. They do the same for as long while nothing moves, in turn.

Then a node that is empty gets its share by a rebalance. The bytes of the files that are new on any node are compared
with the least that bring it within the tolerance.

At last a node is killed, and the others make the copies that are lost with it.
"""

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from tests.soak.grounds import NODES, LocalGround

from bench.figures import Figure, Table, median, quantile, ratios, spread
from bench.threads import Threads
from leasehold.cli.questions import ask
from leasehold.client.cluster import Cluster, connect
from leasehold.limits.membership import SPREAD_PERCENT
from leasehold.limits.replication import REPAIR_RATE, REPAIR_RATE_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns

MIB: Final = 1024 * 1024
MOVED, SCANNED, APPENDED, ALTERED = TABLES = ("bench.moved", "bench.scanned", "bench.appended", "bench.altered")
REPLICATION: Final = 2
TEXT_BYTES: Final = 256
RATE_AIM: Final = 0.7
FELT_AIM: Final = 1.5
BYTES_AIM: Final = 1.1
POLL_NS: Final = 20 * MILLISECOND_NS
PAUSE_S: Final = 0.01


class Size(NamedTuple):
    """How many rows move, in so many appends, and how often."""

    rows: int = 4_800_000
    appends: int = 24
    rounds: int = 2


SMALLEST = Size(rows=600, appends=1, rounds=1)


class Bench:
    """Nodes, and a table of two replicas."""

    def __init__(self, ground: LocalGround, cluster: Cluster, size: Size) -> None:
        self._ground = ground
        self._cluster = cluster
        self._size = size
        self._turn = 0
        self.ours: list[float] = []
        """MiB per second; `theirs` likewise."""
        self.theirs: list[float] = []
        self.during: dict[str, list[float]] = {kind: [] for kind in CALLS}
        """Milliseconds of each call while a node was drained, by its kind; `without` likewise."""
        self.without: dict[str, list[float]] = {kind: [] for kind in CALLS}
        self.moved_mib = self.least_mib = 0.0
        """What a rebalance moved, and what it had to."""
        self.repaired: list[float] = []
        """MiB per second of a repair; `copied` of a plain copy."""
        self.copied: list[float] = []

    def prepare(self) -> None:
        two = f"TBLPROPERTIES ('replication' = '{REPLICATION}')"
        self._cluster.sql("CREATE DATABASE bench")
        self._cluster.sql(f"CREATE TABLE {MOVED} (k BIGINT, v STRING) CLUSTERED BY (k) INTO 12 BUCKETS {two}")
        for name in (SCANNED, APPENDED, ALTERED):
            self._cluster.sql(f"CREATE TABLE {name} (k BIGINT, v STRING) CLUSTERED BY (k) INTO 3 BUCKETS {two}")
        each = self._size.rows // self._size.appends
        for first in range(0, self._size.rows, each):
            self._cluster.table(MOVED).append(_rows(first, each))
        self._cluster.table(SCANNED).append(_rows(0, 1_000))

    def compare_rates(self, scratch: Path) -> None:
        """As fast as it goes, and a plain copy of the same files, in turn."""
        self._cluster.sql(f"ALTER CLUSTER SET repair_rate = '{REPAIR_RATE_MAX}'")
        for _ in range(self._size.rounds):
            node = self._next_node()
            mib, copied = self._copied(node, scratch)
            self.theirs.append(copied)
            self.ours.append(mib / self._drained_s(node))

    def compare_repair(self, scratch: Path) -> None:
        """As `compare_rates`, from when the buckets of a killed node get other replicas until these are in sync."""
        self._cluster.sql(f"ALTER CLUSTER SET repair_rate = '{REPAIR_RATE_MAX}', replace_after = '5s'")
        node = self._next_node()
        mib, copied = self._copied(node, scratch)
        self.copied.append(copied)
        self._ground.kill(node)
        while all(len(replicas) == REPLICATION for replicas, _ in self._buckets()):
            sleep_ns(POLL_NS)
        began_ns = BoottimeClock().now_ns()
        while any(replicas != in_sync or node in replicas for replicas, in_sync in self._buckets()):
            sleep_ns(POLL_NS)
        self.repaired.append(mib * SECOND_NS / (BoottimeClock().now_ns() - began_ns))

    def _buckets(self) -> list[tuple[list[str], list[str]]]:
        """The replicas of each bucket, and those that are in sync."""
        shown = [one for table in TABLES for one in ask(self._cluster, f"SHOW BUCKETS OF {table}")]
        return [(one["replicas"].split(", "), one["in_sync"].split(", ")) for one in shown]

    def _copied(self, node: str, scratch: Path) -> tuple[float, float]:
        """The MiB of a node's segments, and how many of them a plain copy moves per second."""
        held = self._files()[node]  # other files may go at any time
        found = (self._ground.directory / node / "segments").rglob("*.parquet")
        files = [one for one in found if one.stem in held]
        assert len(files) == len(held)
        mib = sum(one.stat().st_size for one in files) / MIB
        return mib, mib / copied_s(files, scratch)

    def compare_calls(self) -> None:
        """At the default rate, and for as long without a drain, in turn."""
        self._cluster.sql(f"ALTER CLUSTER SET repair_rate = '{REPAIR_RATE}'")
        for _ in range(self._size.rounds):
            node = self._next_node()
            with Threads() as clients:
                _call(clients, self._ground.address(), self.during)
                lasted_s = self._drained_s(node)
            with Threads() as clients:
                _call(clients, self._ground.address(), self.without)
                time.sleep(lasted_s)

    def compare_bytes(self) -> None:
        """A node is empty, and gets its share."""
        node = self._next_node()
        self._drained_s(node)
        before = self._files()
        mean = sum(sum(sizes.values()) for sizes in before.values()) / len(NODES)
        self.least_mib = mean * (1 - SPREAD_PERCENT / 100) / MIB
        self._cluster.sql("ALTER CLUSTER REBALANCE")
        while self._is_rebalancing():
            sleep_ns(POLL_NS)
        after = self._files()
        new = [size for one in NODES for file, size in after[one].items() if file not in before[one]]
        self.moved_mib = sum(new) / MIB

    def _is_rebalancing(self) -> bool:
        return {one["setting"]: one["value"] for one in ask(self._cluster, "SHOW CLUSTER")}["rebalancing"] == "yes"

    def _files(self) -> dict[str, dict[str, int]]:
        """The segments that the manifest names, by the nodes that hold them, with their bytes."""
        numbers = {one.id: one.name for one in self._cluster.status().nodes}
        found: dict[str, dict[str, int]] = {name: {} for name in NODES}
        for table in TABLES:
            for segment in self._cluster.plan(table).segments:
                for holder in segment.holders:
                    found[numbers[holder]][segment.id] = segment.size_bytes
        return found

    def figures(self) -> Iterator[Figure]:
        yield _rate("segments of a drained node, as fast as it goes", self.ours, self.theirs)
        for kind in CALLS:
            during, without = quantile(self.during[kind], 0.99), quantile(self.without[kind], 0.99)
            yield Figure(
                what=f"{kind} while a node is drained at the default rate, p99",
                value=f"{during:.0f} ms of {len(self.during[kind])}",
                peer=f"{without:.0f} ms of {len(self.without[kind])} without",
                ratio=f"{during / without:.2f}",
                aim=f"at most {FELT_AIM}",
                holds=during <= FELT_AIM * without,
            )
        yield _rate("segments of a node that was lost, as fast as it goes", self.repaired, self.copied)
        ratio = self.moved_mib / self.least_mib
        yield Figure(
            what="moved by a rebalance to an empty node",
            value=f"{self.moved_mib:.1f} MiB",
            peer=f"{self.least_mib:.1f} MiB at least, to come within {SPREAD_PERCENT} % of the mean",
            ratio=f"{ratio:.2f}",
            aim=f"at most {BYTES_AIM}",
            holds=ratio <= BYTES_AIM,
        )

    def _next_node(self) -> str:
        self._turn += 1
        return NODES[self._turn % len(NODES)]

    def _drained_s(self, node: str) -> float:
        """How long until no bucket is left on the node. Afterwards it may get buckets again."""
        began_ns = BoottimeClock().now_ns()
        self._cluster.sql(f"ALTER NODE {node} DRAIN")
        while self._drain_of(node) != "DRAINED":
            sleep_ns(POLL_NS)
        lasted_s = (BoottimeClock().now_ns() - began_ns) / SECOND_NS
        self._cluster.sql(f"ALTER NODE {node} UNDRAIN")
        return lasted_s

    def _drain_of(self, node: str) -> str:
        return next(one.stage for one in self._cluster.status().nodes if one.name == node)


def _rate(what: str, ours: list[float], theirs: list[float]) -> Figure:
    ratio = median(ratios(ours, theirs))
    return Figure(
        what=what,
        value=spread(ours, "MiB/s", 0),
        peer=f"{spread(theirs, 'MiB/s', 0)} for a copy of these files over loopback",
        ratio=f"{ratio:.2f}",
        aim=f"at least {RATE_AIM}",
        holds=ratio >= RATE_AIM,
    )


def _scan(cluster: Cluster, _: int) -> None:
    cluster.table(SCANNED).scan().read_all()


def _append(cluster: Cluster, number: int) -> None:
    cluster.table(APPENDED).append(_rows(number, 10))


def _alter(cluster: Cluster, number: int) -> None:
    cluster.sql(f"COMMENT ON TABLE {ALTERED} IS '{number}'")


CALLS: Final[dict[str, Callable[[Cluster, int], None]]] = {
    "scans": _scan,
    "appends": _append,
    "schema changes": _alter,
}


def _call(clients: Threads, address: str, felt: dict[str, list[float]]) -> None:
    """One client of each kind calls without end."""

    def run(kind: str) -> None:
        with connect(address) as cluster:
            CALLS[kind](cluster, 0)  # the first one connects
            number = 0
            while not clients.over.wait(PAUSE_S):
                number += 1
                began_ns = time.perf_counter_ns()
                CALLS[kind](cluster, number)
                felt[kind].append((time.perf_counter_ns() - began_ns) / MILLISECOND_NS)

    for kind in CALLS:
        clients.start(lambda kind=kind: run(kind))


def _rows(first: int, count: int) -> pa.Table:
    """Texts that no codec makes much smaller."""
    texts = os.urandom(count * TEXT_BYTES // 2).hex()
    return pa.table(
        {
            "k": list(range(first, first + count)),
            "v": [texts[at : at + TEXT_BYTES] for at in range(0, len(texts), TEXT_BYTES)],
        }
    )


def copied_s(files: list[Path], scratch: Path) -> float:
    """How long a copy of these files through one socket takes, each synced before the next one."""
    receiving = socket.create_server(("127.0.0.1", 0))
    copies = scratch / "copies"
    copies.mkdir()

    def receive() -> None:
        connection, _ = receiving.accept()
        with connection, connection.makefile("rb") as stream:
            for number, file in enumerate(files):
                left = file.stat().st_size
                with (copies / str(number)).open("wb") as copy:
                    while left:
                        piece = stream.read(min(left, MIB))
                        copy.write(piece)
                        left -= len(piece)
                    copy.flush()
                    os.fsync(copy.fileno())
            connection.sendall(b"\n")

    receiver = threading.Thread(target=receive)
    receiver.start()
    began_ns = time.perf_counter_ns()
    with receiving, socket.create_connection(receiving.getsockname()) as sending:
        for file in files:
            with file.open("rb") as opened:
                sending.sendfile(opened)
        assert sending.recv(1) == b"\n"
    lasted_s = (time.perf_counter_ns() - began_ns) / SECOND_NS
    receiver.join()
    for copy in copies.iterdir():
        copy.unlink()
    copies.rmdir()
    return lasted_s


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as name:
        scratch = Path(name)
        with LocalGround(scratch / "cluster") as ground, connect(ground.address()) as cluster:
            bench = Bench(ground, cluster, size)
            bench.prepare()
            bench.compare_rates(scratch)
            bench.compare_calls()
            bench.compare_bytes()
            bench.compare_repair(scratch)
            return [Table(title=f"Nodes drained in turn, {size.rounds} times", figures=list(bench.figures()))]
