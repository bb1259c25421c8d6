"""A campaign of random faults by seed against the production runtimes, while clients change the catalog.

Held to, at every instant that is looked at: no node whose guard passes shows a view older than a statement that had
returned (INV-SERVE-1). Held to in the end: every statement has one outcome, asked again by its id it is the same, and
the catalog is what the acknowledged statements make of it in the order of their revisions (INV-DDL-1).
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import msgspec

from leasehold.core.messages import (
    AskOutcome,
    Execute,
    Receipt,
    Rows,
    WaitingFor,
)
from leasehold.core.records import Outcome
from leasehold.errors import Definite, Indefinite, NotInitialised, NotLeader
from leasehold.ids import Revision, StatementId
from leasehold.limits import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import ADDRESS, CLIENT, COORDINATOR, SimulatedCluster
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import Fate
from leasehold.testing.network import Link

DATABASES = ("d1", "d2")
TABLES = ("t1", "t2")
COLUMNS = ("a", "b", "c")
CLIENTS = 3
FAULTS_FOR_S = 30


class Asked(msgspec.Struct):
    """A statement and what its client heard of it: a receipt, a definite refusal, or nothing (None)."""

    id: StatementId
    text: str
    heard: Receipt | Definite | None = None


class Over(Exception):
    """The scenario has ended: what still runs is cancelled."""


# ---------------------------------------------------------------- clients


async def ask(cluster: SimulatedCluster, request: Execute | AskOutcome, *, patience_s: float) -> Receipt | Rows | None:
    """Asks until there is a definite answer; None when patience ends first. Raises the refusal."""
    give_up_ns = cluster.loop.now_ns() + round(patience_s * SECOND_NS)
    while cluster.loop.now_ns() < give_up_ns:
        connection = cluster.network.host(CLIENT).connect(ADDRESS)
        try:
            async for message in connection.stream(request, timeout_ns=6 * SECOND_NS):
                if not isinstance(message, WaitingFor):
                    assert isinstance(message, Receipt | Rows)
                    return message
        except (Indefinite, NotInitialised, NotLeader):
            await asyncio.sleep(0.1)
        finally:
            await connection.close()
    return None


def some_statement(random: Random) -> str:
    database, table = random.choice(DATABASES), random.choice(TABLES)
    column = random.choice(COLUMNS)
    name = f"{database}.{table}"
    choices = (
        (2, f"CREATE DATABASE {database}"),
        (2, f"CREATE DATABASE IF NOT EXISTS {database}"),
        (1, f"DROP DATABASE {database}"),
        (4, f"CREATE TABLE {name} (a INT, b INT)"),
        (1, f"CREATE TABLE IF NOT EXISTS {name} (a INT, b INT)"),
        (3, f"DROP TABLE {name}"),
        (1, f"DROP TABLE IF EXISTS {name}"),
        (3, f"ALTER TABLE {name} ADD COLUMN {column} INT"),
        (3, f"ALTER TABLE {name} DROP COLUMN {column}"),
        (1, f"ALTER TABLE {name} RENAME COLUMN {column} TO {random.choice(COLUMNS)}"),
    )
    weights, texts = zip(*choices, strict=True)
    return random.choices(texts, weights)[0]


# ---------------------------------------------------------------- what it must come to


class Model:
    """The catalog as the acknowledged statements make it: `database -> table -> columns`."""

    def __init__(self) -> None:
        self.databases: dict[str, dict[str, list[str]]] = {}

    def take(self, text: str) -> None:
        """Raises `KeyError` or an assertion where the statement could not have been acknowledged here."""
        words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
        match words:
            case ["CREATE", "DATABASE", "IF", "NOT", "EXISTS", name]:
                self.databases.setdefault(name, {})
            case ["CREATE", "DATABASE", name]:
                assert name not in self.databases, text
                self.databases[name] = {}
            case ["DROP", "DATABASE", name]:
                assert not self.databases.pop(name), text
            case ["CREATE", "TABLE", "IF", "NOT", "EXISTS", name, *_]:
                database, table = name.split(".")
                self.databases[database].setdefault(table, ["a", "b"])
            case ["CREATE", "TABLE", name, *_]:
                database, table = name.split(".")
                assert table not in self.databases[database], text
                self.databases[database][table] = ["a", "b"]
            case ["DROP", "TABLE", "IF", "EXISTS", name]:
                database, table = name.split(".")
                self.databases.get(database, {}).pop(table, None)
            case ["DROP", "TABLE", name]:
                database, table = name.split(".")
                del self.databases[database][table]
            case ["ALTER", "TABLE", name, "ADD", "COLUMN", column, "INT"]:
                assert column not in self.columns(name), text
                self.columns(name).append(column)
            case ["ALTER", "TABLE", name, "DROP", "COLUMN", column]:
                self.columns(name).remove(column)
                assert self.columns(name), text
            case ["ALTER", "TABLE", name, "RENAME", "COLUMN", old, "TO", new]:
                columns = self.columns(name)
                assert new == old or new not in columns, text
                columns[columns.index(old)] = new
            case _:
                raise AssertionError(text)

    def columns(self, name: str) -> list[str]:
        database, table = name.split(".")
        return self.databases[database][table]


# ---------------------------------------------------------------- the campaign


class Campaign:
    """One seed: clients, a nemesis and a watchman on one cluster."""

    def __init__(self, cluster: SimulatedCluster, group: asyncio.TaskGroup, *, steady: bool) -> None:
        self.cluster = cluster
        self.group = group
        self.random = Random(cluster.random.getrandbits(64))
        self.steady = steady
        """The coordinator is left alone, so that every statement has to keep the published bound."""
        self.asked: list[Asked] = []
        self.returned = Revision(0)
        self.guards_passed = 0
        self.paused: set[str] = set()
        self.coordinator_down = False

    async def run(self) -> None:
        cluster = self.cluster
        for node in cluster.nodes:
            node.disk.latency_ns = lambda: self.random.randrange(20 * MILLISECOND_NS)
        self.slow_storage()
        watch = self.group.create_task(self.watch())
        async with asyncio.TaskGroup() as busy:
            clients = [busy.create_task(self.client()) for _ in range(CLIENTS)]
            await self.nemesis()
            await self.heal()
            for one in clients:
                one.cancel()
        await cluster.wait_for(lambda: all(node.guard() for node in cluster.nodes), at_most_ns=60 * SECOND_NS)
        await self.check_outcomes()
        await self.check_catalog()
        watch.cancel()
        assert self.guards_passed > 1_000, "the watchman has seen enough to say anything"

    # ------------------------------------------------------------ clients and the watchman

    async def client(self) -> None:
        while True:
            one = Asked(StatementId(self.cluster.entropy.hex_128()), some_statement(self.random))
            self.asked.append(one)
            request = Execute(cluster_id=None, statement=one.id, text=one.text)
            try:
                answer = await ask(self.cluster, request, patience_s=self.random.choice((0.5, 5, 20)))
            except Definite as error:
                one.heard = error
            else:
                assert not isinstance(answer, Rows)
                one.heard = answer
                if answer is not None:
                    self.check_receipt(one, answer)
            self.look()
            await asyncio.sleep(self.random.random() / 4)

    def check_receipt(self, one: Asked, receipt: Receipt) -> None:
        assert receipt.statement_id == one.id
        assert receipt.outcome is Outcome.COMMITTED
        assert receipt.revision is not None
        self.returned = max(self.returned, receipt.revision)
        if self.steady:
            assert receipt.elapsed_ns <= receipt.bound_ns, f"INV-DDL-1: {one.text} took {receipt.elapsed_ns} ns"

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.005)

    def look(self) -> None:
        """INV-SERVE-1, at this very instant."""
        for node in self.cluster.nodes:
            passed = node.guard() if node.task is not None else None
            if passed is not None:
                self.guards_passed += 1
                assert passed.view.revision >= self.returned, (
                    f"INV-SERVE-1: {node.name} serves {passed.view.revision}, {self.returned} had returned"
                )

    # ------------------------------------------------------------ the nemesis

    async def nemesis(self) -> None:
        cluster, random = self.cluster, self.random
        end_ns = cluster.loop.now_ns() + FAULTS_FOR_S * SECOND_NS
        faults: list[Callable[[], Awaitable[None]]] = [
            self.kill_or_start_a_node,
            self.kill_or_start_a_node,
            self.pause_or_resume_a_node,
            self.cut,
            self.cut,
            self.mend,
            self.worsen,
        ]
        if not self.steady:
            faults.append(self.kill_or_start_the_coordinator)
        while cluster.loop.now_ns() < end_ns:
            await asyncio.sleep(random.choice((0.05, 0.5, 3)) * random.random())
            fault = random.choice(faults)
            await (self.kill_or_start_the_coordinator if self.coordinator_down else fault)()

    async def kill_or_start_a_node(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        if node.task is None:
            node.start(self.group, port=9000 + self.random.randrange(2))
            return
        await node.kill()
        if node.name in self.paused:
            self.paused.remove(node.name)
            node.resume()

    async def pause_or_resume_a_node(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        if node.name in self.paused:
            self.paused.remove(node.name)
            node.resume()
        elif node.task is not None:
            self.paused.add(node.name)
            node.pause()

    async def kill_or_start_the_coordinator(self) -> None:
        if self.coordinator_down:
            await self.cluster.start_coordinator(self.group)
            self.slow_storage()
        else:
            await self.cluster.kill_coordinator()
        self.coordinator_down = not self.coordinator_down

    def slow_storage(self) -> None:
        """Requests to the meta storage take their time, so that a kill finds them half done."""

        async def before(request: str) -> Fate:
            await asyncio.sleep(self.random.random() * 0.01 * (request == "txn"))
            return Fate.ANSWERED

        async def after(request: str) -> None:
            await asyncio.sleep(self.random.random() * 0.01 * (request == "txn"))

        storage = self.cluster._storage
        assert storage is not None
        storage.before, storage.after = before, after

    async def cut(self) -> None:
        hosts = [node.name for node in self.cluster.nodes] * 2 + [CLIENT] * (not self.steady)
        src, dst = self.random.sample((self.random.choice(hosts), COORDINATOR), 2)
        self.cluster.network.partition(src, dst, both_ways=self.random.random() < 0.5)

    async def mend(self) -> None:
        for node in self.cluster.nodes:
            self.cluster.network.set_link(node.name, COORDINATOR, None)
            self.cluster.network.set_link(COORDINATOR, node.name, None)
        self.cluster.network.heal_all()

    async def worsen(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        ends = self.random.sample((node.name, COORDINATOR), 2)
        slow = Link(delay_max_ns=self.random.choice((20, 500)) * MILLISECOND_NS, loss=0.1, late=0.1)
        self.cluster.network.set_link(ends[0], ends[1], slow)

    async def heal(self) -> None:
        await self.mend()
        for node in self.cluster.nodes:
            if node.name in self.paused:
                node.resume()
            if node.task is None:
                node.start(self.group)
        self.paused.clear()
        if self.coordinator_down:
            await self.kill_or_start_the_coordinator()

    # ------------------------------------------------------------ afterwards

    async def check_outcomes(self) -> None:
        for one in self.asked:
            try:
                again = await ask(self.cluster, AskOutcome(cluster_id=None, statement=one.id), patience_s=60)
            except Definite as error:
                assert not isinstance(one.heard, Receipt) or nothing_done(one), f"{one.text}: {one.heard}, then {error}"
                continue
            assert isinstance(again, Receipt), "everything is up: there is an answer"
            assert again.outcome is Outcome.COMMITTED, f"{one.text} is {again.outcome}"
            assert not isinstance(one.heard, Definite), f"{one.text} was refused: {one.heard}, then {again}"
            assert one.heard is None or one.heard.revision == again.revision, f"{one.text}: {one.heard}, then {again}"
            one.heard = again
        assert any(isinstance(one.heard, Receipt) for one in self.asked)

    async def check_catalog(self) -> None:
        model = Model()
        done = [one for one in self.asked if isinstance(one.heard, Receipt)]
        for one in sorted(done, key=_revision):
            model.take(one.text)
        rows = await self.rows("SHOW TABLES")
        shown = {f"{row[0]}.{row[1]}" for row in rows.rows}
        expected = {f"{name}.{table}" for name, tables in model.databases.items() for table in tables}
        assert shown == expected, f"SHOW TABLES says {shown}, acknowledged were {expected}"
        assert {row[0] for row in (await self.rows("SHOW DATABASES")).rows} == set(model.databases)
        for name in sorted(shown):
            assert [row[0] for row in (await self.rows(f"DESCRIBE {name}")).rows] == model.columns(name)
        newest = (await self.cluster.status()).revision
        await self.cluster.wait_for(lambda: all(one.published.view.revision >= newest for one in self.cluster.nodes))
        views = [node.published.view for node in self.cluster.nodes]
        assert all(view == views[0] for view in views if view.revision == views[0].revision)

    async def rows(self, text: str) -> Rows:
        request = Execute(cluster_id=None, statement=StatementId(self.cluster.entropy.hex_128()), text=text)
        answer = await ask(self.cluster, request, patience_s=60)
        assert isinstance(answer, Rows)
        return answer


def _revision(one: Asked) -> tuple[int, bool]:
    assert isinstance(one.heard, Receipt)
    assert one.heard.revision is not None
    return one.heard.revision, nothing_done(one)


def nothing_done(one: Asked) -> bool:
    """Whether its receipt says that there was nothing to do."""
    return isinstance(one.heard, Receipt) and " IF " in one.text and not one.heard.settled


def campaign(seed: int) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=3)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await Campaign(cluster, group, steady=seed % 2 == 0).run()
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)
