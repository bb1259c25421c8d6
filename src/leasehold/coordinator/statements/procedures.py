"""Procedures at the leader: drives the run of each statement (`core/ddl/run.py`), even if its client has gone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.statements.faults import ending_the_statement
from leasehold.coordinator.statements.preparation import ParsedStatement, Preparing
from leasehold.coordinator.statements.progress import node_waits, shown, told_of, unsettled, waiting_for
from leasehold.coordinator.statements.run_effects import RunEffects
from leasehold.coordinator.statements.turns import ObjectTurns
from leasehold.coordinator.statements.unfinished import LiveStatement, Unrecorded
from leasehold.coordinator.upkeep.receipts import Closings
from leasehold.coordinator.user_turns import UserTurns
from leasehold.coordinator.writer import Writer
from leasehold.core import ddl
from leasehold.core.access.rights import check_statement, user_by
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.claims import claims
from leasehold.core.ddl.effects import Awaited
from leasehold.core.ddl.events import ProcedureFound, RunEvent, StatementAsked
from leasehold.core.ddl.explain import Circumstances, explained
from leasehold.core.ddl.origin import Origin, beginning, check_same_asker, check_term, hash_text, other_statement
from leasehold.core.ddl.receipts import receipt
from leasehold.core.ddl.room import StatementRoom
from leasehold.core.ddl.run import StatementRun
from leasehold.core.questions.procedures import procedures
from leasehold.core.words.messages import Receipt, Rows, WaitingFor
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Claim, Outcome, PrincipalRecord
from leasehold.core.words.statements import Growing
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, NotFound, NotLeader, Refused
from leasehold.ids import NodeId, Revision, StatementId
from leasehold.limits.statements import INLINE_EFFORT_MAX, PROGRESS_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock


class Procedures:
    """All statements of one leader; `wall_us`, `serving`, `hashed`, `leaving` and `failing` as in `Preparing`."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        group: asyncio.TaskGroup,
        user_turns: UserTurns,
        *,
        wall_us: Callable[[], int],
        serving: Callable[[], list[NodeId]],
        hashed: Callable[[str], Awaitable[str]],
        leaving: Callable[[], frozenset[NodeId]] = frozenset,
        failing: Callable[[], frozenset[NodeId]] = frozenset,
    ) -> None:
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._group = group
        self._user_turns = user_turns
        self._preparing = Preparing(
            writer, user_turns, wall_us=wall_us, serving=serving, leaving=leaving, failing=failing, hashed=hashed
        )
        self._elected = writer.catalog.revision
        self._turns = ObjectTurns(leasing, clock, self._elected)
        self._running: dict[StatementId, LiveStatement] = {}
        self._unrecorded = Unrecorded()
        self._room = StatementRoom()
        self._closings = Closings(writer, clock, self._forget)
        self._effects = RunEffects(
            storage,
            writer,
            leasing,
            clock,
            turns=self._turns,
            preparing=self._preparing,
            closings=self._closings,
            unrecorded=self._unrecorded,
        )

    async def execute(self, asked: ParsedStatement) -> AsyncIterator[WaitingFor | Receipt]:
        """Runs a statement: progress first, its receipt last. The same id again joins it, or repeats the answer."""
        self.begin(asked)
        async for message in self.outcome(asked.id):
            yield message

    def begin(self, asked: ParsedStatement) -> None:
        """Begins a statement, unless one with its id has begun."""
        if asked.timeout_ns is not None and asked.timeout_ns <= 0:
            raise Refused(
                "a timeout must be longer than zero", code=ErrorCode.BAD_TIMEOUT, hint="give a timeout of some seconds"
            )
        known = self.origin(asked.id)
        if known is None:
            check_term(asked.term, self._leasing.grantor.term)
            origin, used = self._admit(asked)
            running = self._start(asked.id, origin, used, asked)
            self._spawn(running, self._begin(running, StatementAsked(statement=asked.statement, claims=used)))
        else:
            check_same_asker(known, asked.login, self._writer.catalog)
            if not known.has_text(asked.text):
                raise other_statement()

    async def begin_and_wait(self, asked: ParsedStatement, at_most_ns: int) -> None:
        """Begins a statement, and waits until it is answered or for so long."""
        self.begin(asked)
        running = self._running.get(asked.id)
        if running is not None:
            await asyncio.wait([running.answer], timeout=at_most_ns / SECOND_NS)

    async def outcome(self, statement: StatementId) -> AsyncIterator[WaitingFor | Receipt]:
        """Waits for a running statement, or repeats the receipt of one that has ended."""
        running = self._running.get(statement)
        while running is not None and not running.answer.done():
            await asyncio.wait([running.answer], timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            waiting = waiting_for(running, self._leasing, self._writer.catalog)
            if waiting is not None:
                yield waiting
        if running is not None:
            if running.answer.cancelled():
                raise Indefinite("the coordinator stopped during the statement", hint="ask again with the same id")
            yield running.answer.result()
            return
        unrecorded = self._unrecorded.told(statement)
        if unrecorded is not None:
            yield unrecorded
            return
        record = self._writer.catalog.statements.get(statement)
        if record is not None and record.outcome is Outcome.ROLLED_BACK:
            async for progress in self._shown_again(self._elected, statement):  # an older leader may not have waited
                yield progress
        if record is None:
            raise NotFound(
                f"no statement {statement[:64]!r} is known: it never changed anything, or ended long ago",
                code=ErrorCode.NO_STATEMENT,
                hint="look with SHOW TABLES or DESCRIBE before you run it again",
            )
        yield receipt(record, self._writer.catalog)

    async def cancel(self, number: int) -> AsyncIterator[WaitingFor | Rows]:
        """Rolls a statement back, unless its change is committed: progress first, then a row. The client that sent the
        statement gets ROLLED_BACK. Raises `NotFound` (NO_PROCEDURE) and `Refused` (PAST_RETURN)."""
        claimed: dict[str, Claim] = {}

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal claimed
            procedure = ddl.procedure_to_cancel(number, catalog)
            if procedure is None:
                return ()
            claimed = procedure.claims
            running = self._running.get(procedure.statement)
            waiting, elapsed_ns = None, 0  # not running here if it could not go on
            if running is not None:
                waiting, elapsed_ns = running.waiting(self._leasing), running.run.elapsed_ns(self._clock.now_ns())
            return ddl.roll_back(
                procedure,
                catalog,
                elapsed_ns=elapsed_ns,
                pending=() if waiting is None else waiting.nodes,
                forget=self._closings.forgetting(procedure.statement, catalog),
            )

        revision = await self._writer.submit(decide)
        self._turns.touch(claimed, revision)
        self._leasing.ask(revision)  # now, so that the next statement on the object waits less
        catalog = self._writer.catalog
        record = ddl.record_of(number, catalog)
        running = self._running.get(record.id)
        if running is not None and not running.taken_back.done():
            running.taken_back.set_result(None)
        async for progress in self._shown_again(revision, record.id):
            yield progress
        row = (number, record.id, record.text, record.outcome.value)
        yield Rows(columns=("procedure", "statement", "text", "outcome"), rows=(row,), revision=catalog.revision)

    async def explain(self, asked: ParsedStatement) -> Rows:
        """How the statement would run now; raises what it would raise. Called in a turn of the user."""
        used = self._claims(asked)
        context = await self._preparing.context(asked, explains=True)
        catalog, now_ns = self._writer.catalog, self._clock.now_ns()
        bound_ns = self._leasing.published_bound_ns()
        request = ddl.Request(
            id=asked.id,
            text=asked.text,
            statement=asked.statement,
            bound_ns=bound_ns,
            context=self._preparing.as_of_now(context, asked.statement),
        )

        def planned() -> tuple[ddl.Begun, Catalog]:
            begun = ddl.begin(request, catalog)
            return begun, catalog.changed(begun.changes)

        # On the loop it could keep everybody waiting.
        begun, after = await self._user_turns.threads.run(planned)
        last = self._turns.last_change(used)
        met = Circumstances(
            ahead=tuple(self._turns.ahead(used)),
            changed=last,
            settling=unsettled(last, catalog.nodes, self._leasing, catalog, now_ns),
            barrier=node_waits(catalog.nodes, self._leasing, catalog, now_ns),
            bound_ns=bound_ns,
        )
        return explained(begun.procedure, len(begun.changes), met, after)

    @property
    def are_many(self) -> bool:
        """Whether it takes long to show them."""
        return len(self._running) > INLINE_EFFORT_MAX

    def telling(self, catalog: Catalog, asking: PrincipalRecord | None) -> Callable[[], Rows]:
        """Computes the rows of SHOW PROCEDURES, on any thread."""
        return partial(procedures, shown(self._running.values(), self._leasing), catalog, asking)

    def origin(self, statement: StatementId) -> Origin | None:
        """The origin of a statement that was sent before, if its outcome is still known."""
        running = self._running.get(statement)
        if running is not None:
            return running.origin
        record = self._writer.catalog.statements.get(statement)
        return self._unrecorded.origin(statement) if record is None else Origin.of(record)

    def resume(self) -> None:
        """Continues the statements of earlier leaders from where their records stand."""
        for _, procedure in sorted(self._writer.catalog.procedures.items()):
            record = self._writer.catalog.statements[procedure.statement]
            running = self._start(procedure.statement, Origin.of(record), procedure.claims, asked=None)
            # Before any statement of a client.
            awaited = self._step(running, ProcedureFound(procedure=procedure, elected=self._elected))
            self._spawn(running, self._drive(running, awaited))

    async def close_behind(self) -> None:
        """Writes the receipts of answered statements, until cancelled."""
        await self._closings.run()

    def done(self, catalog: Catalog) -> Catalog:
        """The catalog as it will be once every receipt is written."""
        return self._closings.done(catalog)

    def _admit(self, asked: ParsedStatement) -> tuple[Origin, dict[str, Claim]]:
        """The origin of a statement, and the objects that it uses; raises why it is not queued."""
        user = user_by(asked.login, self._writer.catalog)
        origin = Origin(
            user=None if user is None else user.name,
            login=asked.login,
            text=beginning(asked.text),
            text_sha256=hash_text(asked.text),
        )
        try:
            with ending_the_statement():
                check_statement(asked.statement, self._writer.catalog, asked.login)
                used = self._claims(asked)
            self._room.check(origin.user, asked.size_bytes, used)
        except Refused as error:
            self._unrecorded.refused(asked.id, origin, error)
            raise
        return origin, used

    def _claims(self, asked: ParsedStatement) -> dict[str, Claim]:
        """The objects that a statement uses; raises why it can't run now, whatever they are."""
        if isinstance(asked.statement, Growing):
            self._writer.check_room()
        return claims(asked.statement)

    def _start(
        self, statement: StatementId, origin: Origin, used: Mapping[str, Claim], asked: ParsedStatement | None
    ) -> LiveStatement:
        loop = asyncio.get_running_loop()
        give_up_ns = None
        if asked is not None and asked.timeout_ns is not None:
            give_up_ns = self._clock.now_ns() + asked.timeout_ns
        running = self._running[statement] = LiveStatement(
            id=statement,
            origin=origin,
            run=StatementRun(statement, origin, term=self._leasing.grantor.term, give_up_ns=give_up_ns),
            asked=asked,
            answer=loop.create_future(),
            taken_back=loop.create_future(),
        )
        self._room.enter(statement, origin.user, 0 if asked is None else asked.size_bytes, used)
        return running

    def _forget(self, statement: StatementId) -> None:
        self._running.pop(statement, None)
        self._room.leave(statement)

    def _spawn(self, running: LiveStatement, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = self._group.create_task(work)
        except RuntimeError as error:  # the group is ending: so is this leader
            work.close()
            self._end(running)
            raise NotLeader(
                "this coordinator is ending its leadership", hint="ask another coordinator, or try again in a moment"
            ) from error
        # A task that is cancelled before its first step does not even run its `finally`.
        task.add_done_callback(lambda _: running.answer.cancel())

    def _step(self, running: LiveStatement, event: RunEvent) -> Awaited | None:
        """Feeds an event; returns what the run waits for next, None at its end."""
        for effect in running.run.step(event, self._writer.catalog, self._clock.now_ns()):
            if isinstance(effect, Awaited):
                return effect
            self._effects.do(effect, running)
        return None

    async def _begin(self, running: LiveStatement, event: StatementAsked) -> None:
        await self._drive(running, self._step(running, event))

    async def _drive(self, running: LiveStatement, awaited: Awaited | None) -> None:
        try:
            while awaited is not None:
                awaited = self._step(running, await self._effects.finish(awaited, running))
        finally:
            self._end(running)

    def _end(self, running: LiveStatement) -> None:
        if not running.answer.done():
            running.answer.cancel()
        if not running.run.is_closing:
            self._forget(running.id)
        if running.turn is not None:
            self._turns.leave(running.turn)

    async def _shown_again(self, revision: Revision, statement: StatementId) -> AsyncIterator[WaitingFor]:
        """Waits until no node hides what a rollback at `revision` brought back; yields progress."""
        barrier = self._leasing.ask(revision)
        while not barrier.verdict.done():
            await asyncio.wait((barrier.verdict,), timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            waiting = self._leasing.waiting(barrier.number)
            if waiting is not None:
                yield told_of(waiting, statement, self._writer.catalog)
