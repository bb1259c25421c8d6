"""Schema changes: all nodes up against a raw durable SQLite transaction; with one node out, against the bound."""

import asyncio
import queue
import sqlite3
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import msgspec
import uvloop

from bench.faults import with_one_node_out
from bench.figures import Figure, Table, median, quantile, ratios, spread, timed_ms
from bench.threads import Threads
from leasehold.cli.output import note
from leasehold.client.cluster import Cluster
from leasehold.client.locate import CLUSTER_FILE, CLUSTER_FILE_VERSION, COORDINATOR, ClusterFile
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.words.messages import Receipt
from leasehold.core.words.operations import Txn, TxnResult
from leasehold.limits.processes import START_WAIT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.passwords import Argon2Passwords
from leasehold.wire.rpc import serve
from leasehold.wire.threads import OneThread

NODES, PAIRS = 3, 200
SMALLEST_PAIRS, SMALLEST_NODES = 2, 1


@contextmanager
def cluster_of(nodes: int, *, tls: bool | None = None) -> Generator[tuple[LocalCluster, Cluster]]:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            local.up(nodes, tls=tls)
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


def all_up(local: LocalCluster, cluster: Cluster, pairs: int) -> list[Figure]:
    """Additive and destructive statements in turn with the peer, timed at the client."""
    raw = RawTransaction(local.directory.parent)
    statement(cluster, "CREATE DATABASE bench")
    peer: list[float] = []
    times: dict[str, list[float]] = {"additive": [], "destructive": []}
    for number in range(pairs):
        name = f"bench.t{number}"
        for kind, text in (
            ("additive", f"CREATE TABLE {name} (a INT, b STRING)"),
            ("additive", f"ALTER TABLE {name} ADD COLUMN c DOUBLE"),
            ("destructive", f"DROP TABLE {name}"),
        ):
            peer.append(timed_ms(raw))
            times[kind].append(timed_ms(lambda text=text: statement(cluster, text)))
    figures: list[Figure] = []
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

    times_ms: ClassVar[list[float]] = []

    async def txn(self, txn: Txn) -> TxnResult:
        began = time.perf_counter_ns()
        try:
            return await super().txn(txn)
        finally:
            self.times_ms.append((time.perf_counter_ns() - began) / 1e6)


class _Inside:
    """A coordinator in a thread of this process, so that the time inside its commits can be seen."""

    def __init__(self, directory: Path, threads: Threads) -> None:
        self._directory = directory
        self._address: queue.Queue[str] = queue.Queue()
        self._loop = uvloop.new_event_loop()
        self._told = asyncio.Event()
        threads.start(self._run)

    def address(self) -> str:
        """Where it listens, once it does."""
        return self._address.get(timeout=START_WAIT_NS / SECOND_NS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._told.set)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        storage = await _TimedStorage.open(self._directory / "meta.db")
        coordinator = Coordinator(
            name="bench",
            storage=storage,
            clock=BoottimeClock(),
            passwords=Argon2Passwords(),
            entropy=SystemEntropy(),
            threads=OneThread(),
            statement_threads=OneThread(),
        )
        server = await serve("127.0.0.1:0", coordinator, on_fault=lambda fault: note(repr(fault)))
        try:
            self._address.put(server.address)
            async with asyncio.TaskGroup() as group:
                leading = group.create_task(coordinator.run())
                await self._told.wait()
                leading.cancel()
        finally:
            await server.close()
            await storage.close()


def inside_the_commit(nodes: int, pairs: int) -> Figure:
    """How much of an additive statement is the durable transaction itself."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch, Threads() as threads:
        local = LocalCluster(Path(scratch))
        inside = _Inside(local.directory, threads)
        try:
            address = inside.address()
            with Cluster(address) as cluster, _nodes_of(local, nodes, cluster, address):
                whole, commits = _statements_inside(cluster, pairs)
        finally:
            inside.stop()
    return Figure(
        what="of an additive one: inside its commit",
        value=spread(commits, "ms"),
        peer=spread(whole, "ms"),
        ratio=f"{median(ratios(commits, whole)):.2f}",
    )


@contextmanager
def _nodes_of(local: LocalCluster, nodes: int, cluster: Cluster, address: str) -> Generator[None]:
    """Nodes of a coordinator that no `up` has started."""
    cluster_id = cluster.initialise().cluster_id
    names = tuple(f"node-{number}" for number in range(1, nodes + 1))
    file = ClusterFile(
        format=CLUSTER_FILE_VERSION, cluster_id=cluster_id, coordinators={COORDINATOR: address}, nodes=names
    )
    (local.directory / CLUSTER_FILE).write_bytes(msgspec.json.encode(file))
    try:
        for process in local.nodes():
            local.start_node(process)
        local.wait_until_active()
        yield
    finally:
        local.down()


def _statements_inside(cluster: Cluster, pairs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of statements as the client saw them, and of the first transaction of each."""
    statement(cluster, "CREATE DATABASE bench")
    whole: list[float] = []
    commits: list[float] = []
    for number in range(pairs):
        first = len(_TimedStorage.times_ms)
        whole.append(timed_ms(lambda number=number: statement(cluster, f"CREATE TABLE bench.t{number} (a INT)")))
        commits.append(_TimedStorage.times_ms[first])
    return whole, commits


def run(smallest: bool) -> list[Table]:
    nodes, pairs = (SMALLEST_NODES, SMALLEST_PAIRS) if smallest else (NODES, PAIRS)
    with cluster_of(nodes) as (local, cluster):
        figures = all_up(local, cluster, pairs)
    figures.insert(2, inside_the_commit(nodes, pairs // 2))
    return [
        Table(
            title=f"DDL: {nodes} nodes, against one raw durable SQLite transaction on the same disk", figures=figures
        ),
        Table(
            title="DDL with a node out: three nodes, against the published bound",
            figures=with_one_node_out(smallest=smallest),
        ),
    ]
