"""One run of the simulator: a whole cluster of production coordinators and nodes, and its clients, under faults.

Everything is drawn from one seed: how many machines there are, how their clocks drift, what clients ask, what breaks
and when, and in which order tasks that are ready together run. The oracle holds every invariant after each step; when
the faults are over and all is healed, every node must serve again and every statement have its one outcome.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from random import Random  # noqa: TID251 a type alone, and generators seeded by the run
from typing import Any, Final

import msgspec

from leasehold.coordinator.runtime import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.asking import Asking
from leasehold.core.lease.holder import Pass
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import AskReceipts, ReadTicket, Receipt, Receipts
from leasehold.errors import CheckFailed, Definite, LeaseholdError, gravest
from leasehold.ids import LoginToken
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.availability import Availability
from leasehold.testing.clients import TIMEOUTS_NS, Client, ClientStatement, check_catalog, check_outcomes
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.coordinator_calls import Account
from leasehold.testing.invariants import INVARIANTS, finish
from leasehold.testing.invariants.liveness import healed
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.nemesis import Nemesis
from leasehold.testing.observe import WatchedPublished
from leasehold.testing.oracle import Invariant, InvariantViolated, Oracle
from leasehold.testing.readers import CompleteScan, SimulatedReader
from leasehold.testing.rows import RowId
from leasehold.testing.segments import OnReleased
from leasehold.testing.statements import (
    DATABASES,
    IN_SYNC,
    KEPT,
    KEPT_MADE,
    READING_ROLE,
    TABLES,
    TIMED,
    USERS,
    reading,
    taking,
    taking_kept,
    ways_to_take,
)
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written

SECONDS: Final = 80
"""How long faults go on in one run, in simulated time."""
CLIENTS: Final = 3
SETUP_S: Final = 60.0
WRITERS: Final = 1
READERS: Final = 1
ADMINISTRATOR: Final = "root"
READER, WRITER = USERS
PASSWORDS: Final = ("p", "q")
PEOPLE_CHANCE: Final = 0.4
BY_ROLE_CHANCE: Final = 0.5
NAMES: Final = tuple(f"{database}.{table}" for database in DATABASES for table in TABLES)
HABITS: Final = Habits(rows_max=16, tasks_max=2, pause_max_ns=3 * SECOND_NS)
SELDOM: Final = msgspec.structs.replace(HABITS, pause_max_ns=8 * SECOND_NS)
READ_PAUSE_MAX_NS: Final = SECOND_NS
"""Short: what it reads, and that it may, is taken away now and then, and its scans have to be under way when it is."""
TAKING_EVERY: Final = 3
"""One seed in so many has a reader that takes away what it reads."""
DELETING_TURN: Final = 1
"""The seed after it has a slow reader, and a client that deletes rows of the same table meanwhile."""
THINK_NS: Final = 200 * MILLISECOND_NS
"""Slow enough that a scan outlasts a DELETE that is rolled back."""
CROSSING_MAX_S: Final = 0.5
"""The longest wait before a scan, and before the DELETE that crosses it."""
SCAN_PAUSE_MAX_S: Final = 2.0
GIVEN_BACK_MAX_S: Final = 4.0
VAULT_LATENCY_MAX_NS: Final = 20 * MILLISECOND_NS
DISK_LATENCY_MAX_NS: Final = 20 * MILLISECOND_NS
BATCH_ROWS: Final = (1, 4)
BATCH_DELAYS_NS: Final = (MILLISECOND_NS, 10 * MILLISECOND_NS, 300 * MILLISECOND_NS)


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. The same seed gives the same digest, on any machine and under any hash seed."""

    seed: int
    nodes: int
    coordinators: int
    steady: bool
    simulated_ns: int
    steps: int
    statements: int
    batches: int
    scans: int
    writes: int
    faults: dict[str, int]
    digest: str
    trace: tuple[str, ...]


class _Over(Exception):
    """The run has ended: what still runs is cancelled."""


class Simulation:
    """One seed's cluster. `steady`: coordinators are left alone, so that every statement has to keep its bound."""

    def __init__(self, random: Random, oracle: Oracle, seed: int, seconds: int) -> None:
        self._random = random
        self._seconds = seconds
        self._oracle = oracle
        self._seed = seed
        self.steady = seed % 2 == 0
        coordinators = 1 if self.steady else random.choice((1, 2, 3))
        # Without a margin, what the bounds allow for drift has to be enough by itself.
        margin_ns = random.choice((0, DEFAULT_SETTINGS.lease_margin_ns))
        self.cluster = SimulatedCluster(
            random,
            nodes=random.choice((2, 3, 3, 4)),
            coordinators=coordinators,
            settings=msgspec.structs.replace(
                DEFAULT_SETTINGS, lease_margin_ns=margin_ns, min_in_sync=random.choice(IN_SYNC)
            ),
            oracle=oracle,
            supervised=True,
        )
        self.asked: list[ClientStatement] = []
        self.writes: Counter[WriteFate] = Counter()
        self.scans = 0
        self.batches = 0
        self._nemesis: Nemesis | None = None
        self._people = random.random() < PEOPLE_CHANCE
        """Whether anybody has to log in."""
        self._by_role = random.random() < BY_ROLE_CHANCE
        """Whether the reader reads by a role."""
        self._deletes_during_scans = seed % TAKING_EVERY == DELETING_TURN
        self._login: LoginToken | None = None

    async def run(self) -> None:
        """Raises `InvariantViolated`, or `CheckFailed` where the end is not what it has to be."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._live(group)
                raise _Over
        except* _Over:
            pass

    async def _live(self, group: asyncio.TaskGroup) -> None:
        cluster, random = self.cluster, self._random
        nemesis = self._nemesis = Nemesis(cluster, group, self._fork(), self._oracle, steady=self.steady)
        for node in cluster.nodes:
            node.disk.latency_ns = lambda: random.randrange(VAULT_LATENCY_MAX_NS)
            node.data.disk.latency_ns = lambda: random.randrange(DISK_LATENCY_MAX_NS)
            node.data.batch_rows = random.choice(BATCH_ROWS)
            node.data.batch_delay_ns = lambda: random.choice(BATCH_DELAYS_NS)
            node.data.on_released = self._released_by(node)
        # One may get its id, and join for the first time, among faults.
        await cluster.start(group, late=random.choice((0, 1)) if len(cluster.nodes) > 2 else 0)
        first = Client(cluster, self._fork(), self.asked, self._on_end)
        if self._people:
            self._login = nemesis.replacing.login = await self._first_users(first)
            first = Client(cluster, self._fork(), self.asked, self._on_end, self._login)
        for database in DATABASES:
            await first.ask(f"CREATE DATABASE {database}", patience_s=SETUP_S)
        for name in NAMES:
            columns = TIMED if name == NAMES[-1] else "(a INT, b INT)"
            await first.ask(f"CREATE TABLE {name} {columns}", patience_s=SETUP_S)
        if self._deletes_during_scans:
            for text in (f"CREATE DATABASE {KEPT.partition('.')[0]}", KEPT_MADE):
                await first.ask(text, patience_s=SETUP_S)
        async with asyncio.TaskGroup() as busy:
            tasks = [busy.create_task(work) for work in self._work(group)]
            tasks.append(busy.create_task(Availability(cluster, self._oracle).run()))
            await nemesis.run(self._seconds * SECOND_NS)
            await nemesis.heal()
            for task in tasks:
                task.cancel()
        await self._end_well()

    async def _first_users(self, first: Client) -> LoginToken:
        """Makes an administrator, who goes on to ask for everything, and the users who write and read."""
        await first.ask(f"CREATE USER {ADMINISTRATOR} PASSWORD '{PASSWORDS[0]}'", patience_s=SETUP_S)
        client = self.cluster.client(account=Account(ADMINISTRATOR, PASSWORDS))
        await client.look_up(AskReceipts(after=0, limit=1), Receipts, Asking())
        login = client.calls.token
        assert login is not None, "it had to log in"
        administrator = Client(self.cluster, self._fork(), self.asked, self._on_end, login)
        texts = [f"CREATE USER {user} PASSWORD '{PASSWORDS[0]}'" for user in USERS]
        texts += [f"GRANT ALL ON CLUSTER TO {user}" for user in USERS if user != READER]
        texts += [f"CREATE ROLE {READING_ROLE}", f"GRANT SELECT ON CLUSTER TO {READING_ROLE}"]
        for text in (*texts, reading(READER, by_role=self._by_role)):
            await administrator.ask(text, patience_s=SETUP_S)
        return login

    def _account(self, user: str) -> Account | None:
        return Account(user, PASSWORDS) if self._people else None

    def _work(self, group: asyncio.TaskGroup) -> list[Coroutine[Any, Any, None]]:
        clients: list[Coroutine[Any, Any, None]] = [
            Client(self.cluster, self._fork(), self.asked, self._on_end, self._login).run() for _ in range(CLIENTS)
        ]
        if self._people:
            administrator = Client(self.cluster, self._fork(), self.asked, self._on_end, self._login)
            ways = ways_to_take(READER, *PASSWORDS, by_role=self._by_role)
            clients.append(administrator.take_and_give_back(ways))
        rows = itertools.count(1)
        writers = [
            self._writer(f"w{number}", rows, group, self._account(WRITER)).run(NAMES)
            for number in range(1, WRITERS + 1)
        ]
        readers = [
            self._reader(f"r{number}", group, self._account(READER)).run(NAMES) for number in range(1, READERS + 1)
        ]
        if self._seed % TAKING_EVERY == 0:
            clients.extend(self._taking_reader("r0", group))
        if self._deletes_during_scans:
            writers.append(self._writer("w0", rows, group, self._account(WRITER), SELDOM).run((KEPT,)))
            clients.append(self._scan_and_delete("r0", group))
        return [*clients, *writers, *readers]

    def _writer(
        self,
        host: str,
        rows: Iterator[int],
        group: asyncio.TaskGroup,
        account: Account | None,
        habits: Habits = HABITS,
    ) -> SimulatedWriter:
        return SimulatedWriter(
            transport=self.cluster.network.host(host),
            coordinators=self.cluster.addresses,
            clock=SimulatedClock(self.cluster.loop),
            entropy=self.cluster.entropy,
            random=self._fork(),
            rows=rows,
            group=group,
            habits=habits,
            account=account,
            on_commit=lambda transaction, table, added: self._oracle.wrote(transaction, table, _named(added)),
            on_written=self._on_written,
        )

    def _reader(
        self, host: str, group: asyncio.TaskGroup, account: Account | None, *, tasks: bool = False, think_ns: int = 0
    ) -> SimulatedReader:
        return SimulatedReader(
            transport=self.cluster.network.host(host),
            coordinators=self.cluster.addresses,
            clock=SimulatedClock(self.cluster.loop),
            entropy=self.cluster.entropy,
            random=self._fork(),
            group=group,
            pause_max_ns=READ_PAUSE_MAX_NS,
            tasks=tasks,
            think_ns=think_ns,
            account=account,
            on_scanned=self._on_scanned,
        )

    def _taking_reader(self, host: str, group: asyncio.TaskGroup) -> list[Coroutine[Any, Any, None]]:
        """A client that takes away what it reads while it reads it, and what gives that back some time later."""
        random, asking = self._fork(), Client(self.cluster, self._fork(), self.asked, self._on_end, self._login)
        reader = self._reader(host, group, self._account(READER))
        giving: list[str] = []
        user = READER if self._people and not self._by_role else None

        async def take(name: str) -> Receipt | None:
            taken, *given = taking(random, name, user)
            receipt = await asking.ask(taken, patience_s=SETUP_S)
            giving.extend(given)
            return receipt

        async def give_back() -> None:
            while True:
                await asyncio.sleep(random.random() * GIVEN_BACK_MAX_S)
                while giving:
                    await asking.ask(giving.pop(), patience_s=SETUP_S)

        reader.take = take
        reader.on_handed_out = self._oracle.handed_out
        return [reader.run(NAMES), give_back()]

    async def _scan_and_delete(self, host: str, group: asyncio.TaskGroup) -> None:
        """Scans a table slowly, again and again. During each scan a client deletes some of the rows that the scan
        before returned."""
        client = Client(self.cluster, self._fork(), self.asked, self._on_end, self._login)
        reader = self._reader(host, group, self._account(READER), tasks=True, think_ns=THINK_NS)
        random = self._fork()
        rows: tuple[RowId, ...] = ()

        async def take() -> None:
            await asyncio.sleep(random.random() * CROSSING_MAX_S)
            timeout_ns: int | None = random.choice(TIMEOUTS_NS)
            for text in taking_kept(random, rows):
                await client.ask(text, patience_s=SETUP_S, timeout_ns=timeout_ns)
                timeout_ns = None  # what creates the table again has all the time

        while True:
            async with asyncio.TaskGroup() as both:
                both.create_task(take())
                await asyncio.sleep(random.random() * CROSSING_MAX_S)
                with suppress(LeaseholdError):
                    rows = (await reader.scan(KEPT)).rows
            await asyncio.sleep(random.random() * SCAN_PAUSE_MAX_S)

    def _fork(self) -> Random:
        """A generator of its own for each actor, so that what one draws does not depend on another's turn."""
        return Random(self._random.getrandbits(64))  # noqa: S311 not for secrets: a seed has to give the same run again

    def _on_end(self, one: ClientStatement, end: Receipt | Definite) -> None:
        if isinstance(end, Receipt) and end.statement_id != one.id:
            raise CheckFailed(f"asked {one.id}, heard of {end.statement_id}")
        self._oracle.answered(one.id, end)

    def _on_written(self, written: Written) -> None:
        self.writes[written.fate] += 1

    def _on_scanned(self, scanned: CompleteScan) -> None:
        self.scans += 1
        self._oracle.scanned(scanned.table, scanned.revision, _named(scanned.rows), scanned.cutoff)

    def _released_by(self, node: SimulatedNode) -> OnReleased:
        def released(passed: Pass[Catalog], ticket: ReadTicket, rows: tuple[RowId, ...]) -> None:
            process = node.published
            assert isinstance(process, WatchedPublished)
            self.batches += 1
            login = None if ticket.login is None else hash_secret(ticket.login)
            self._oracle.passed(process, passed, ticket.table, login, rows)

        return released

    async def _end_well(self) -> None:
        """Liveness, and what only the end can tell."""
        cluster = self.cluster
        await healed(self._oracle, not_serving=lambda: [node.name for node in cluster.nodes if node.guard() is None])
        await check_outcomes(cluster, self.asked, self._on_end, self._login)
        first_seen = self._oracle.history.first_seen
        await check_catalog(cluster, self.asked, self._login, wrote=lambda one: keys.statement(one) in first_seen)
        finish(self._oracle)

    def outcome(self, loop: VirtualLoop) -> RunResult:
        """What it came to."""
        assert self._nemesis is not None
        return RunResult(
            seed=self._seed,
            nodes=len(self.cluster.nodes),
            coordinators=len(self.cluster.coordinators),
            steady=self.steady,
            simulated_ns=loop.now_ns(),
            steps=self._oracle.step,
            statements=len(self.asked),
            batches=self.batches,
            scans=self.scans,
            writes=self.writes[WriteFate.COMMITTED],
            faults=dict(sorted(self._nemesis.faults.items())),
            digest=self._oracle.digest(),
            trace=tuple(self._oracle.trace),
        )


def _named(rows: tuple[RowId, ...]) -> Counter[str]:
    return Counter(str(row) for row in rows)


def simulate(
    seed: int, *, seconds: int = SECONDS, invariants: tuple[Invariant, ...] = INVARIANTS, command: str | None = None
) -> RunResult:
    """One run. Raises `InvariantViolated` or another `CheckFailed`; what else comes up is a defect, and raised too."""
    ended: list[RunResult] = []

    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        oracle = Oracle(invariants, now_ns=loop.now_ns, seed=seed, command=command)
        simulation = Simulation(random, oracle, seed, seconds)
        try:
            await simulation.run()
        except BaseExceptionGroup as errors:
            failed, _ = errors.split(CheckFailed)
            cause = gravest(errors if failed is None else failed)
            raise _located(cause, oracle) from errors
        ended.append(simulation.outcome(loop))

    run_virtual(main, seed, shuffle=True)
    return ended[0]


def _located(cause: BaseException, oracle: Oracle) -> BaseException:
    """A defect that no invariant names is told with the trace and the command all the same."""
    if isinstance(cause, InvariantViolated):
        return cause
    return oracle.violation("the run", f"{type(cause).__name__}: {cause}")
