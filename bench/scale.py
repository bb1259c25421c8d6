"""A catalog of 100,000 tables and a table of 2,000 columns: statements, SHOW and DESCRIBE, memory, and starting.

The tables are put into the store while nothing runs, by the leader's writer and with the plan of CREATE TABLE, 256 in a
transaction; only the procedures are left out. What follows is the production processes: a coordinator that opens that
store, three nodes that were away meanwhile, and a client.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import psutil

from bench.ddl import statement
from bench.figures import Figure, Table, median, quantile, timed_ms
from bench.filling import writing
from bench.threads import Threads
from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, put
from leasehold.core.ddl.plans import plan
from leasehold.core.words import keys
from leasehold.core.words.messages import Rows
from leasehold.core.words.operations import Change
from leasehold.core.words.statements import ColumnDefinition, CreateTable, TableName
from leasehold.core.words.types import Plain
from leasehold.errors import LeaseholdError
from leasehold.limits.requests import COMMAND_QUEUE_MAX
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.sqlite import SqliteMetaStorage

DATABASES = 10
FILLED = tuple(f"many{number}" for number in range(DATABASES))
"""The databases that `fill` puts tables into."""


class Size(NamedTuple):
    """How much is done: tables in the catalog, statements of each kind, repetitions, seconds to idle, nodes."""

    tables: int = 100_000
    statements: int = 100
    shows: int = 7
    idle_s: float = 10
    columns: int = COLUMNS_MAX
    nodes: int = 3


SMALLEST = Size(tables=300, statements=2, shows=1, idle_s=0.2, columns=50, nodes=1)
COLUMNS = tuple(
    ColumnDefinition(name=name, type=Plain(kind))
    for name, kind in (("id", "BIGINT"), ("at", "TIMESTAMP"), ("v", "STRING"))
)

Measured: TypeAlias = dict[str, list[float]]


# ---------------------------------------------------------------- filling


async def fill(opening: Awaitable[MetaStorage], tables: int) -> float:
    """Puts so many tables into the store; how many seconds that took."""
    began = time.perf_counter()
    async with writing(opening, read_catalog) as (_, writer):
        for first in range(0, tables, COMMAND_QUEUE_MAX):
            numbers = range(first, min(first + COMMAND_QUEUE_MAX, tables))
            await asyncio.gather(*(writer.submit(_creating(number)) for number in numbers))
    return time.perf_counter() - began


def _creating(number: int) -> Callable[[Catalog], tuple[Change, ...]]:
    name = TableName(FILLED[number % DATABASES], f"t{number:06d}")

    def decide(catalog: Catalog) -> tuple[Change, ...]:
        context = Context(serving=tuple(sorted(catalog.nodes)))
        planned = plan(CreateTable(name=name, columns=COLUMNS), catalog, context)
        assert planned is not None
        return (*planned.changes, put(keys.COUNTERS, planned.counters))

    return decide


# ---------------------------------------------------------------- measuring


def shown(cluster: Cluster, text: str) -> Rows:
    answer = cluster.sql(text)
    assert isinstance(answer, Rows)
    return answer


def statements(cluster: Cluster, size: Size) -> Measured:
    """A table's life, again and again; times as the client sees them."""
    times: Measured = {}
    for number in range(size.statements):
        for kind, text in (
            ("CREATE TABLE", f"CREATE TABLE bench.t{number} (a INT, b STRING)"),
            ("ADD COLUMN", f"ALTER TABLE bench.t{number} ADD COLUMN c DOUBLE"),
            ("DROP TABLE", f"DROP TABLE bench.t{number}"),
        ):
            times.setdefault(kind, []).append(timed_ms(lambda text=text: statement(cluster, text)))
    return times


def questions(cluster: Cluster, size: Size, *, tables: int) -> Measured:
    """SHOW and DESCRIBE, and statements while somebody lists all tables without a pause."""
    assert len(shown(cluster, "SHOW TABLES").rows) == tables
    times: Measured = {}
    for text in ("SHOW DATABASES", "SHOW TABLES IN many0", "SHOW TABLES", "DESCRIBE many0.t000000"):
        times[text] = [timed_ms(lambda text=text: shown(cluster, text)) for _ in range(size.shows)]
    with Threads() as threads:

        def list_all() -> None:
            with Cluster(cluster.address) as another:
                while not threads.over.is_set():
                    shown(another, "SHOW TABLES")

        threads.start(list_all)
        for number in range(max(1, size.statements // 4)):
            took = timed_ms(lambda number=number: statement(cluster, f"CREATE TABLE bench.l{number} (a INT)"))
            times.setdefault("CREATE TABLE beside SHOW TABLES", []).append(took)
            statement(cluster, f"DROP TABLE bench.l{number}")
    return times


def wide(cluster: Cluster, size: Size) -> Measured:
    """A table of very many columns: at full size, of as many as there may be."""
    columns = ", ".join(f"column_{number} DOUBLE" for number in range(size.columns - 1))
    times: Measured = {}
    for number in range(size.shows):
        name = f"bench.w{number}"
        for kind, text in (
            ("CREATE TABLE", f"CREATE TABLE {name} ({columns})"),
            ("ADD COLUMN", f"ALTER TABLE {name} ADD COLUMN last INT"),
            ("RENAME COLUMN", f"ALTER TABLE {name} RENAME COLUMN last TO final"),
            ("DROP COLUMN", f"ALTER TABLE {name} DROP COLUMN final"),
            ("DESCRIBE", f"DESCRIBE {name}"),
            ("DROP TABLE", f"DROP TABLE {name}"),
        ):
            times.setdefault(f"{size.columns:,} columns: {kind}", []).append(
                timed_ms(lambda text=text: cluster.sql(text))
            )
    return times


def processes(local: LocalCluster) -> dict[str, psutil.Process]:
    found = {"coordinator": local.coordinator.worker(), "node": local.nodes()[0].worker()}
    return {name: process for name, process in found.items() if process is not None}


def memory_mib(local: LocalCluster) -> dict[str, float]:
    return {name: process.memory_info().rss / 2**20 for name, process in processes(local).items()}


def idle_cores(local: LocalCluster, idle_s: float) -> dict[str, float]:
    """What they use while nobody asks for anything."""
    used = {name: sum(process.cpu_times()[:2]) for name, process in processes(local).items()}
    time.sleep(idle_s)
    return {name: (sum(process.cpu_times()[:2]) - used[name]) / idle_s for name, process in processes(local).items()}


def starting(local: LocalCluster) -> dict[str, float]:
    """Seconds from its start until a coordinator answers, and until a node that knew the catalog serves."""
    node = local.nodes()[0]
    node.stop()
    local.coordinator.stop()
    coordinator_s = timed_ms(lambda: _restart_coordinator(local)) / 1000
    others = [one.name for one in local.nodes()[1:]]
    if others:
        local.wait_until_active(*others)
    return {"coordinator": coordinator_s, "node": timed_ms(lambda: _start_node(local, node)) / 1000}


def _restart_coordinator(local: LocalCluster) -> None:
    local.start(COORDINATOR)
    with Cluster(local.directory) as cluster:
        while True:
            try:
                cluster.status()
            except LeaseholdError:  # it is still starting
                time.sleep(0.02)
            else:
                return


def _start_node(local: LocalCluster, node: Process) -> None:
    local.start_node(node)
    local.wait_until_active(node.name)


class Look:
    """All that is measured of one catalog."""

    def __init__(self, local: LocalCluster, size: Size, *, tables: int) -> None:
        with Cluster(local.directory) as cluster:
            self.times = {
                **statements(cluster, size),
                **questions(cluster, size, tables=tables),
                **wide(cluster, size),
            }
        self.memory = memory_mib(local)
        self.idle = idle_cores(local, size.idle_s)
        self.starts = starting(local)
        self.memory_after_start = memory_mib(local)


def figures(few: Look, many: Look, filled_s: float, caught_up_s: float, size: Size) -> list[Figure]:
    rows = [
        Figure(
            what=kind,
            value=f"p50 {median(took):.1f} ms, p99 {quantile(took, 0.99):.1f} ms",
            peer=f"p50 {median(few.times[kind]):.1f} ms, p99 {quantile(few.times[kind], 0.99):.1f} ms",
            ratio=f"{median(took) / median(few.times[kind]):.1f}",
            aim="report",
        )
        for kind, took in many.times.items()
    ]
    for what, unit, here, there in (
        ("memory after all of this", "MiB", many.memory, few.memory),
        ("memory after its start", "MiB", many.memory_after_start, few.memory_after_start),
        ("cores while idle", "", many.idle, few.idle),
        ("from its start until it answers or serves", "s", many.starts, few.starts),
    ):
        digits = 0 if unit == "MiB" else 2
        rows += [
            Figure(
                what=f"{name}: {what}",
                value=f"{here[name]:.{digits}f} {unit}",
                peer=f"{there[name]:.{digits}f} {unit}",
                ratio=f"{here[name] / max(there[name], 0.001):.1f}",
                aim="report",
            )
            for name in here
        ]
    return [
        *rows,
        Figure(
            what=f"{size.nodes} nodes that were away while {size.tables:,} tables came",
            value=f"{caught_up_s:.1f} s until they serve",
        ),
        Figure(
            what=f"filling the store with {size.tables:,} tables, not through statements", value=f"{filled_s:.1f} s"
        ),
    ]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            local.up(size.nodes)
            local.wait_until_active()
            with Cluster(local.directory) as cluster:
                for name in ("bench", *FILLED):
                    statement(cluster, f"CREATE DATABASE {name}")
                statement(cluster, "CREATE TABLE many0.t000000 (id BIGINT, at TIMESTAMP, v STRING)")
            few = Look(local, size, tables=1)
            with Cluster(local.directory) as cluster:
                statement(cluster, "DROP TABLE many0.t000000")
            local.down()
            filled_s = asyncio.run(fill(SqliteMetaStorage.open(local.coordinator.directory / "meta.db"), size.tables))
            _restart_coordinator(local)
            caught_up_s = timed_ms(lambda: _start_all(local)) / 1000
            many = Look(local, size, tables=size.tables)
        finally:
            local.down()
    title = f"Scale: a catalog of {size.tables:,} tables in {DATABASES} databases, against one of a single table"
    return [Table(title=title, figures=figures(few, many, filled_s, caught_up_s, size))]


def _start_all(local: LocalCluster) -> None:
    for node in local.nodes():
        local.start_node(node)
    local.wait_until_active()
