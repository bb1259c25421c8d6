"""Schema changes: all nodes up against a raw durable SQLite transaction; with one node out, against the bound."""

import asyncio
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvloop

from bench.faults import with_one_node_out
from bench.figures import Figure, median, quantile, ratios, show, spread, timed_ms
from leasehold.cli.output import note
from leasehold.client.cluster import Cluster
from leasehold.client.locate import CLUSTER_FILE, ClusterFile
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.messages import Receipt
from leasehold.core.operations import Txn, TxnResult
from leasehold.errors import NotInitialised, NotLeader
from leasehold.ids import ClusterId
from leasehold.limits import FORMAT_VERSION
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.passwords import Argon2Passwords
from leasehold.wire.rpc import serve

PAIRS = 200


@contextmanager
def cluster_of_three() -> Iterator[tuple[LocalCluster, Cluster]]:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            local.up(3)
            local.wait_until_active()
            with Cluster(local.directory) as cluster:
                yield local, cluster
        finally:
            local.down()


class RawTransaction:
    """The peer: one row in one durable SQLite transaction, on the same disk."""

    def __init__(self, directory: Path) -> None:
        self._database = sqlite3.connect(directory / "raw.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")
        self._next = 0

    def __call__(self) -> None:
        self._next += 1
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute("INSERT INTO t VALUES (?, ?)", (self._next, b"x" * 500))
        self._database.execute("COMMIT")


def statement(cluster: Cluster, text: str) -> Receipt:
    answer = cluster.sql(text)
    assert isinstance(answer, Receipt)
    return answer


def all_up(local: LocalCluster, cluster: Cluster) -> list[Figure]:
    """Additive and destructive statements in turn with the peer, timed at the client."""
    raw = RawTransaction(local.directory.parent)
    statement(cluster, "CREATE DATABASE bench")
    peer: list[float] = []
    times: dict[str, list[float]] = {"additive": [], "destructive": []}
    for number in range(PAIRS):
        name = f"bench.t{number}"
        for kind, text in (
            ("additive", f"CREATE TABLE {name} (a INT, b STRING)"),
            ("additive", f"ALTER TABLE {name} ADD COLUMN c DOUBLE"),
            ("destructive", f"DROP TABLE {name}"),
        ):
            peer.append(timed_ms(raw))
            times[kind].append(timed_ms(lambda text=text: statement(cluster, text)))
    figures = []
    for kind, aim in (("additive", 5.0), ("destructive", 8.0)):
        samples = times[kind]
        figures.append(
            Figure(
                what=f"{kind}, all up, p50",
                value=spread(samples, "ms"),
                peer=spread(peer, "ms"),
                ratio=f"{median(samples) / median(peer):.1f}",
                aim=f"under {aim:.0f} ms",
                holds=median(samples) < aim,
            )
        )
        slow = quantile(samples, 0.99)
        figures.append(Figure(what=f"{kind}, all up, p99", value=f"{slow:.2f} ms", aim="under 20 ms", holds=slow < 20))
    return figures


class _TimedStorage(SqliteMetaStorage):
    """The meta storage, noting how long each transaction took."""

    times_ms: list[float] = []

    async def txn(self, txn: Txn) -> TxnResult:
        began = time.perf_counter_ns()
        try:
            return await super().txn(txn)
        finally:
            self.times_ms.append((time.perf_counter_ns() - began) / 1e6)


class _CoordinatorThread(threading.Thread):
    """A coordinator in this process, so that the time inside its commits can be seen."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self.address: queue.Queue[str] = queue.Queue()
        self._loop = uvloop.new_event_loop()
        self._told = asyncio.Event()

    def run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._told.set)
        self.join()

    async def _serve(self) -> None:
        storage = await _TimedStorage.open(self._directory / "meta.db")
        coordinator = Coordinator(
            name="bench",
            storage=storage,
            clock=BoottimeClock(),
            passwords=Argon2Passwords(),
            entropy=SystemEntropy(),
        )
        server = await serve("127.0.0.1:0", coordinator, on_fault=lambda fault: note(repr(fault)))
        self.address.put(server.address)
        run = asyncio.ensure_future(coordinator.run())
        await self._told.wait()
        run.cancel()
        await asyncio.wait([run])
        await server.close()
        await storage.close()


def inside_the_commit() -> Figure:
    """How much of an additive statement is the durable transaction itself."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch))
        thread = _CoordinatorThread(local.directory)
        thread.start()
        address = thread.address.get()
        with Cluster(address) as cluster:
            facts = wait_for_initialise(cluster)
            names = ("node-1", "node-2", "node-3")
            file = ClusterFile(format=FORMAT_VERSION, cluster_id=facts, coordinator=address, nodes=names)
            (local.directory / CLUSTER_FILE).write_bytes(msgspec.json.encode(file))
            for process in local.nodes():
                local.start_node(process)
            local.wait_until_active()
            statement(cluster, "CREATE DATABASE bench")
            whole, commits = [], []
            for number in range(PAIRS // 2):
                first = len(_TimedStorage.times_ms)
                whole.append(
                    timed_ms(lambda number=number: statement(cluster, f"CREATE TABLE bench.t{number} (a INT)"))
                )
                commits.append(_TimedStorage.times_ms[first])
            local.down()
        thread.stop()
    return Figure(
        what="of an additive one: inside its commit",
        value=spread(commits, "ms"),
        peer=spread(whole, "ms"),
        ratio=f"{median(ratios(commits, whole)):.2f}",
    )


def wait_for_initialise(cluster: Cluster) -> ClusterId:
    while True:
        try:
            return cluster.initialise().cluster_id
        except (NotInitialised, NotLeader):  # it is still starting
            time.sleep(0.05)


def run(results: Path | None) -> None:
    with cluster_of_three() as (local, cluster):
        figures = all_up(local, cluster)
    figures.insert(2, inside_the_commit())
    show("DDL: three nodes, against one raw durable SQLite transaction on the same disk", figures, results)
    show("DDL with a node out: three nodes, against the published bound", with_one_node_out(), results)
