"""One run of the simulator: a whole cluster of production coordinators and nodes, and its clients, under faults.

Everything is drawn from one seed: how many machines there are, how their clocks drift, what clients ask, what breaks
and when, and in which order tasks that are ready together run. The oracle holds every invariant after each step; when
the faults are over and all is healed, every node must serve again and every statement have its one outcome.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterator
from random import Random  # noqa: TID251 a type alone, and generators seeded by the run
from typing import Any, Final, TypeVar, assert_never

import msgspec

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.asking import Asking
from leasehold.core.lease.holder import Pass
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.messages import AskReceipts, ReadTicket, Receipt, Receipts
from leasehold.errors import CheckFailed, gravest
from leasehold.ids import LoginToken
from leasehold.limits.scrub import SCRUB_EVERY_MIN_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.availability import Availability
from leasehold.testing.catalog_operations import operations
from leasehold.testing.clients import Client, ClientStatement, NotDone, check_catalog, check_outcomes
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.compactors import SimulatedCompactor
from leasehold.testing.coordinator_calls import Account
from leasehold.testing.drivers import drivers
from leasehold.testing.invariants import INVARIANTS, finish
from leasehold.testing.invariants.liveness import healed
from leasehold.testing.invariants.read2 import JudgedHistories
from leasehold.testing.invariants.replicas import settled
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.nemesis import Nemesis
from leasehold.testing.news import ClientHistory
from leasehold.testing.observe import WatchedPublished
from leasehold.testing.oracle import Invariant, InvariantViolated, Oracle
from leasehold.testing.questions import Questioner
from leasehold.testing.readers import CompleteScan, SimulatedReader
from leasehold.testing.rows import RowId, named_rows
from leasehold.testing.run_result import RunResult
from leasehold.testing.segments import OnReleased
from leasehold.testing.statements import (
    DATABASES,
    IN_SYNC,
    KEPT,
    KEPT_VIEW,
    READING_ROLE,
    TABLES,
    TIMED,
    USERS,
    reading,
    ways_to_take,
    ways_to_take_view,
)
from leasehold.testing.stream_writers import SimulatedStream
from leasehold.testing.takers import TakerTurn, kept, scan_and_delete, taking_itself
from leasehold.testing.write_news import WriteEnded
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written

W = TypeVar("W", bound=SimulatedWriter)

SECONDS: Final = 80
"""How long faults go on in one run, in simulated time."""
CLIENTS: Final = 3
SETUP_S: Final = 60.0
REPLACED_SOON: Final = "5s"
"""So that what a machine took with it is copied before the end of a run."""
ADMINISTRATOR: Final = "root"
READER, WRITER = USERS
VIEWER: Final = "u3"
"""No random statement names this user, who may use one table and one view."""
PASSWORDS: Final = ("p", "q")
PEOPLE_CHANCE: Final = 0.4
BY_ROLE_CHANCE: Final = 0.5
NAMES: Final = tuple(f"{database}.{table}" for database in DATABASES for table in TABLES)
HABITS: Final = Habits(rows_max=16, tasks_max=2, pause_max_ns=3 * SECOND_NS, overwrites=0.25)
SELDOM: Final = msgspec.structs.replace(HABITS, pause_max_ns=8 * SECOND_NS)
READ_PAUSE_MAX_NS: Final = SECOND_NS
"""Short, so that scans run when their table or their right is taken away."""
THINK_NS: Final = 200 * MILLISECOND_NS
"""Slow enough that a scan outlasts a DELETE that is rolled back."""
VAULT_LATENCY_MAX_NS: Final = 20 * MILLISECOND_NS
DISK_LATENCY_MAX_NS: Final = 20 * MILLISECOND_NS
BATCH_ROWS: Final = (1, 4)
BATCH_DELAYS_NS: Final = (MILLISECOND_NS, 10 * MILLISECOND_NS, 300 * MILLISECOND_NS)


class _Over(Exception):
    """The run has ended: what still runs is cancelled."""


class Simulation:
    """One seed's cluster. If it is `steady`, coordinators have no faults, and every statement must keep its bound."""

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
                DEFAULT_SETTINGS,
                lease_margin_ns=margin_ns,
                min_in_sync=random.choice(IN_SYNC),
                scrub_every_ns=SCRUB_EVERY_MIN_NS,
            ),
            oracle=oracle,
            supervised=True,
        )
        self.cluster.kept_log.may_read_stale = seed % 4 == 1
        self.asked: list[ClientStatement] = []
        self.writes: Counter[WriteFate] = Counter()
        self.scans = 0
        self.batches = 0
        self._nemesis: Nemesis | None = None
        self._people = random.random() < PEOPLE_CHANCE
        """Whether clients have to log in."""
        self._by_role = random.random() < BY_ROLE_CHANCE
        """Whether the reader reads by a role."""
        self._viewer = VIEWER if self._people else None
        self._turn = TakerTurn(seed % len(TakerTurn))
        self._login: LoginToken | None = None
        self._questioners: list[Questioner] = []

    async def run(self) -> None:
        """Raises `InvariantViolated`, or `CheckFailed` if the end of the run is wrong."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._live(group)
                raise _Over
        except* _Over:
            pass

    async def _live(self, group: asyncio.TaskGroup) -> None:
        cluster, random = self.cluster, self._random
        nemesis = self._nemesis = Nemesis(cluster, group, self._fork(), self._oracle, steady=self.steady)
        racks = random.choice(((), ("r1", "r2")))
        for place, node in enumerate(cluster.nodes):
            node.rack = racks[place % 2] if racks else ""
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
        for text in kept(self._turn, self._viewer):
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
        """Makes an administrator, who asks all later statements, and the users who write and read."""
        await first.ask(f"CREATE USER {ADMINISTRATOR} PASSWORD '{PASSWORDS[0]}'", patience_s=SETUP_S)
        client = self.cluster.client(account=Account(ADMINISTRATOR, PASSWORDS[:1]))
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
        clients: list[Coroutine[Any, Any, None]] = [self._client().run() for _ in range(CLIENTS)]
        if self._people:
            ways = ways_to_take(READER, *PASSWORDS, by_role=self._by_role)
            clients.append(self._client().take_and_give_back(ways))
        self._questioners.append(Questioner(self.cluster, self._fork(), self._oracle, self._login))
        clients.append(self._questioners[-1].run())
        rows = itertools.count(1)
        writers = [self._writer("w1", rows, group, self._account(WRITER)).run(NAMES)]
        compactor = self._writer("w3", rows, group, self._account(WRITER), SELDOM, SimulatedCompactor)
        compactor.contents = self.cluster.contents
        writers.append(compactor.run(NAMES))
        reader = self._reader("r1", group, self._account(READER)).run(NAMES)
        writers.append(SimulatedStream(self._writer("w2", rows, group, self._account(WRITER)), self._fork()).run(NAMES))
        if self._turn is TakerTurn.DELETING:
            writers.append(self._writer("w0", rows, group, self._account(WRITER), SELDOM).run((KEPT,)))
        elif self._turn is TakerTurn.VIEWING:
            writers.append(self._writer("w0", rows, group, self._account(VIEWER)).run((KEPT,)))
        clients.extend(self._while_reading(group))
        clients.extend(drivers(self.cluster, self._fork(), self._oracle, self._account(READER), NAMES))
        return [*clients, *writers, reader]

    def _while_reading(self, group: asyncio.TaskGroup) -> list[Coroutine[Any, Any, None]]:
        """A reader, and a client that removes what the reader reads."""
        client, random = self._client(), self._fork()
        match self._turn:
            case TakerTurn.TAKING:
                reader = self._reader("r0", group, self._account(READER))
                reader.on_handed_out = self._oracle.handed_out
                user = READER if self._people and not self._by_role else None
                return taking_itself(reader, NAMES, client, random, user)
            case TakerTurn.DELETING:
                reader = self._reader("r0", group, self._account(READER), tasks=True, think_ns=THINK_NS)
                return [scan_and_delete(reader, client, random)]
            case TakerTurn.VIEWING:
                reader = self._reader(
                    "r0", group, self._account(VIEWER), tasks=True, think_ns=THINK_NS, through=KEPT_VIEW
                )
                return [
                    reader.run((KEPT,)),
                    client.take_and_give_back(ways_to_take_view(self._viewer)),
                ]
            case _:
                assert_never(self._turn)

    def _writer(
        self,
        host: str,
        rows: Iterator[int],
        group: asyncio.TaskGroup,
        account: Account | None,
        habits: Habits = HABITS,
        kind: type[W] = SimulatedWriter,
    ) -> W:
        return kind(
            transport=self.cluster.network.host(host),
            coordinators=self.cluster.addresses,
            clock=SimulatedClock(self.cluster.loop),
            entropy=self.cluster.entropy,
            random=self._fork(),
            rows=rows,
            group=group,
            habits=habits,
            account=account,
            on_commit=self._oracle.saw,
            on_written=self._on_written,
        )

    def _reader(
        self,
        host: str,
        group: asyncio.TaskGroup,
        account: Account | None,
        *,
        tasks: bool = False,
        think_ns: int = 0,
        through: str | None = None,
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
            through=through,
            account=account,
            on_scanned=self._on_scanned,
        )

    def _client(self) -> Client:
        return Client(self.cluster, self._fork(), self.asked, self._on_end, self._login)

    def _fork(self) -> Random:
        """A generator for one actor, so that its draws don't depend on those of other actors."""
        return Random(self._random.getrandbits(64))  # noqa: S311 not for secrets: a seed has to give the same run again

    def _on_end(self, one: ClientStatement, end: Receipt | NotDone) -> None:
        if isinstance(end, Receipt) and end.statement_id != one.id:
            raise CheckFailed(f"asked {one.id}, heard of {end.statement_id}")
        self._oracle.answered(one.id, end)

    def _on_written(self, written: Written) -> None:
        self.writes[written.fate] += 1
        if written.fate is not WriteFate.UNKNOWN:
            committed = written.fate is WriteFate.COMMITTED
            self._oracle.saw(WriteEnded(transaction=written.transaction, committed=committed))

    def _on_scanned(self, scanned: CompleteScan) -> None:
        self.scans += 1
        self._oracle.scanned(scanned.table, scanned.revision, named_rows(scanned.rows), scanned.cutoff)

    def _released_by(self, node: SimulatedNode) -> OnReleased:
        def released(passed: Pass[Catalog], ticket: ReadTicket, rows: tuple[RowId, ...]) -> None:
            process = node.published
            assert isinstance(process, WatchedPublished)
            self.batches += 1
            login = None if ticket.login is None else hash_secret(ticket.login)
            self._oracle.passed(process, passed, ticket.table, login, rows, ticket.through, segment=ticket.segment)

        return released

    async def _end_well(self) -> None:
        """Checks liveness, and what can be checked only at the end."""
        cluster = self.cluster
        assert self._nemesis is not None
        if self._nemesis.replacing.has_lost:
            await self._client().ask(f"ALTER CLUSTER SET replace_after = '{REPLACED_SOON}'", patience_s=SETUP_S)
        await healed(self._oracle, not_serving=lambda: [node.name for node in cluster.nodes if node.guard() is None])
        await settled(self._oracle)
        await check_outcomes(cluster, self.asked, self._on_end, self._login)
        first_seen = self._oracle.history.first_seen
        await check_catalog(cluster, self.asked, self._login, wrote=lambda one: keys.statement(one) in first_seen)
        answers = [answer for one in self._questioners for answer in one.answers]
        self._oracle.saw(ClientHistory(operations=tuple(operations(self.asked, answers))))
        finish(self._oracle)

    def outcome(self, loop: VirtualLoop) -> RunResult:
        """The result of the run."""
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
            undecided=self._oracle.recall(JudgedHistories).undecided,
            faults=dict(sorted(self._nemesis.faults.items())),
            digest=self._oracle.digest(),
            trace=tuple(self._oracle.trace),
        )


def simulate(
    seed: int, *, seconds: int = SECONDS, invariants: tuple[Invariant, ...] = INVARIANTS, command: str | None = None
) -> RunResult:
    """One run. Raises `InvariantViolated` or another `CheckFailed`; any other error is a defect."""
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
    """The error with the trace and the command, also for a defect that no invariant names."""
    if isinstance(cause, InvariantViolated):
        return cause
    return oracle.violation("the run", f"{type(cause).__name__}: {cause}")
