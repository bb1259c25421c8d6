"""Procedures at the leader: runs each statement to its end, whoever still waits for it (plans in `core/ddl`)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec

from leasehold.coordinator.closing import Closing, Closings, insist
from leasehold.coordinator.faults import ending_the_statement
from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.preparing import Asked, Preparing
from leasehold.coordinator.progress import node_waits, procedure_rows, told_of, unsettled, waiting_for
from leasehold.coordinator.running import Running, Unrecorded, nothing_to_do, receipt, record_of, timed_out
from leasehold.coordinator.settings import published_bound_ns
from leasehold.coordinator.turns import Turn, Turns
from leasehold.coordinator.writer import Writer
from leasehold.core import ddl, keys
from leasehold.core.barrier import Fail, Proceed
from leasehold.core.catalog import Catalog
from leasehold.core.claims import claims
from leasehold.core.explain import Circumstances, explained
from leasehold.core.history import node_names
from leasehold.core.messages import Receipt, Rows, WaitingFor
from leasehold.core.operations import Change
from leasehold.core.origin import Origin, check_same_asker, hash_text, other_statement
from leasehold.core.plan import Context
from leasehold.core.queueing import Claim
from leasehold.core.records import BarrierReceipt, Outcome, ProcedureRecord, Step, Waited
from leasehold.core.rights import check_statement, user_by
from leasehold.errors import BadStatement, Definite, Indefinite, LeaseholdError, NotFound, NotLeader, Refused
from leasehold.ids import NodeId, Revision, StatementId, is_hex_128
from leasehold.limits.lease import LEADER_RETRY_NS
from leasehold.limits.statements import PROGRESS_INTERVAL_NS, STATEMENT_TEXT_KEPT, STATEMENTS_RUNNING_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock, Threads

log = logging.getLogger(__name__)


class Procedures:
    """All statements of one leader; `serving`, `hashed` and `leaving` as of `Preparing`."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        group: asyncio.TaskGroup,
        threads: Threads,
        *,
        serving: Callable[[], list[NodeId]],
        hashed: Callable[[str], Awaitable[str]],
        leaving: Callable[[], frozenset[NodeId]] = frozenset,
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._group = group
        self._preparing = Preparing(writer, clock, threads, serving=serving, leaving=leaving, hashed=hashed)
        self._elected = writer.catalog.revision
        self._turns = Turns(leasing, clock, self._elected)
        self._running: dict[StatementId, Running] = {}
        self._unrecorded = Unrecorded()
        self._closings = Closings(writer, clock, lambda one: self._running.pop(one, None))

    # ------------------------------------------------------------ what clients call

    async def execute(self, asked: Asked) -> AsyncIterator[WaitingFor | Receipt]:
        """Runs a statement; progress first, its receipt last. The same id again joins or repeats the answer."""
        if not is_hex_128(asked.id):
            raise BadStatement("a statement id is 128 bits in hex", hint="draw a random one per statement")
        if asked.timeout_ns is not None and asked.timeout_ns <= 0:
            raise Refused("a timeout is more than nothing", code="BAD_TIMEOUT", hint="give it some seconds")
        known = self.origin(asked.id)
        if known is None:
            origin, used = self._admit(asked)
            give_up_ns = None if asked.timeout_ns is None else self._clock.now_ns() + asked.timeout_ns
            running = self._start(asked.id, origin, give_up_ns)
            self._begin_task(self._run(asked, used, running), running)
        else:
            check_same_asker(known, asked.login, self._writer.catalog)
            if not known.has_text(asked.text):
                raise other_statement()
        async for message in self.outcome(asked.id):
            yield message

    async def outcome(self, statement: StatementId) -> AsyncIterator[WaitingFor | Receipt]:
        """Waits for a statement that runs, or repeats the receipt of one that has ended."""
        running = self._running.get(statement)
        while running is not None and not running.answer.done():
            await asyncio.wait([running.answer], timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            waiting = waiting_for(running, self._leasing, self._writer.catalog)
            if waiting is not None:
                yield waiting
        if running is not None:
            if running.answer.cancelled():
                raise Indefinite("the coordinator stopped during the statement", hint="ask again by the same id")
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
                f"no statement {statement[:64]} is known: it never changed anything, or ended long ago",
                code="NO_STATEMENT",
                hint="look with SHOW TABLES or DESCRIBE before you run it again",
            )
        yield receipt(record, self._writer.catalog)

    async def cancel(self, number: int) -> AsyncIterator[WaitingFor | Rows]:
        """Rolls a statement back, unless its change is committed; who asked for it hears so as well. Progress first.

        Raises `NotFound` (NO_PROCEDURE) and `Refused` (PAST_RETURN).
        """
        claimed: dict[str, Claim] = {}

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal claimed
            record = record_of(number, catalog)
            procedure = catalog.procedures.get(number)
            if procedure is None and record.outcome is Outcome.ROLLED_BACK:
                return ()
            if procedure is None or procedure.step is not Step.PRE_STATE:
                hint = "SHOW HISTORY tells what became of it"
                raise Refused(f"its change is committed: {record.text}", code="PAST_RETURN", hint=hint)
            claimed = procedure.claims
            running = self._running.get(record.id)
            if running is None:  # it could not go on: nobody runs it any more
                forget = self._closings.forgetting(record.id, catalog)
                return ddl.roll_back(procedure, catalog, elapsed_ns=0, forget=forget)
            waiting = running.waiting(self._leasing)
            pending = () if waiting is None else waiting.nodes
            elapsed_ns = self._elapsed_ns(running)
            forget = self._closings.forgetting(record.id, catalog)
            return ddl.roll_back(procedure, catalog, elapsed_ns=elapsed_ns, pending=pending, forget=forget)

        revision = await self._writer.submit(decide)
        self._touch_and_settle(claimed, revision)
        catalog = self._writer.catalog
        record = record_of(number, catalog)
        running = self._running.get(record.id)
        if running is not None and not running.taken_back.done():
            running.taken_back.set_result(None)
        async for progress in self._shown_again(revision, record.id):
            yield progress
        row = (number, record.id, record.text, record.outcome.value)
        yield Rows(columns=("procedure", "statement", "text", "outcome"), rows=(row,), revision=catalog.revision)

    async def explain(self, asked: Asked) -> Rows:
        """How the statement would run now; refused as it would be."""
        used = claims(asked.statement)
        context = await self._preparing.context_to_explain(asked)
        catalog, now_ns = self._writer.catalog, self._clock.now_ns()
        bound_ns = self._published_bound_ns()
        request = ddl.Request(
            id=asked.id,
            text=asked.text,
            statement=asked.statement,
            bound_ns=bound_ns,
            context=self._preparing.as_of_now(context, asked.statement),
        )
        begun = ddl.begin(request, catalog)
        last = self._turns.last_change(used)
        met = Circumstances(
            ahead=tuple(self._turns.ahead(used)),
            changed=last,
            settling=unsettled(last, catalog.nodes, self._leasing, catalog, now_ns),
            barrier=node_waits(catalog.nodes, self._leasing, catalog, now_ns),
            bound_ns=bound_ns,
        )
        return explained(begun.procedure, len(begun.changes), met, catalog.changed(begun.changes))

    def rows(self, catalog: Catalog) -> Rows:
        """SHOW PROCEDURES."""
        return procedure_rows(self._running.values(), self._leasing, catalog)

    def origin(self, statement: StatementId) -> Origin | None:
        """Whose a statement is that has been asked for before, if what became of it can be told."""
        running = self._running.get(statement)
        if running is not None:
            return running.origin
        record = self._writer.catalog.statements.get(statement)
        return self._unrecorded.origin(statement) if record is None else Origin.of(record)

    def resume(self) -> None:
        """Takes up what earlier leaders left, exactly where its record says it stands."""
        for _, procedure in sorted(self._writer.catalog.procedures.items()):
            record = self._writer.catalog.statements[procedure.statement]
            running = self._start(procedure.statement, Origin.of(record), None)
            running.number = procedure.number
            turn = self._turns.enter(procedure.statement, procedure.claims)
            self._begin_task(self._resume(procedure, running, turn), running)

    async def close_behind(self) -> None:
        """Writes the receipts of statements that have been answered."""
        await self._closings.run()

    def done(self, catalog: Catalog) -> Catalog:
        """As it will be once every receipt is written."""
        return self._closings.done(catalog)

    # ------------------------------------------------------------ one statement

    def _admit(self, asked: Asked) -> tuple[Origin, dict[str, Claim]]:
        """Who asks, and what the statement uses; raises why it is not even queued."""
        user = user_by(asked.login, self._writer.catalog)
        origin = Origin(
            user=None if user is None else user.name,
            login=asked.login,
            text=asked.text[:STATEMENT_TEXT_KEPT],
            text_sha256=hash_text(asked.text),
        )
        try:
            with ending_the_statement():
                check_statement(asked.statement, self._writer.catalog, asked.login)
                used = claims(asked.statement)
            if len(self._running) >= STATEMENTS_RUNNING_MAX:
                text = f"{STATEMENTS_RUNNING_MAX} statements are running or waiting"
                raise Refused(text, code="BUSY", hint="try again in a moment")
        except Refused as error:
            self._unrecorded.refused(asked.id, origin, error)
            raise
        return origin, used

    def _begin_task(self, work: Coroutine[Any, Any, None], running: Running) -> None:
        try:
            task = self._group.create_task(work)
        except RuntimeError as error:  # the group is ending: so is this leader
            work.close()
            self._running.pop(running.id, None)
            raise NotLeader("this leadership is ending", hint="ask another coordinator, or again soon") from error
        # A task that is cancelled before its first step runs nothing of its own, not even what should end it.
        task.add_done_callback(lambda _: running.answer.cancel())

    def _start(self, statement: StatementId, origin: Origin, give_up_ns: int | None) -> Running:
        loop = asyncio.get_running_loop()
        running = self._running[statement] = Running(
            id=statement,
            origin=origin,
            answer=loop.create_future(),
            taken_back=loop.create_future(),
            give_up_ns=give_up_ns,
        )
        return running

    async def _run(self, asked: Asked, used: dict[str, Claim], running: Running) -> None:
        turn = self._turns.enter(asked.id, used)
        try:
            await self._reach(turn, running)
            settled = await self._settle_before(turn.claims, running)
            with ending_the_statement():
                context = await self._preparing.context(asked)
            running.answer.set_result(await self._begin(asked, context, running, turn, settled))
        except LeaseholdError as error:
            if isinstance(error, Definite) and not running.published:
                self._unrecorded.refused(asked.id, running.origin, error)
            running.fail(error)
        finally:
            self._end(running, turn)

    async def _resume(self, procedure: ProcedureRecord, running: Running, turn: Turn) -> None:
        try:
            await self._turns.reach(turn, None)
            running.began_ns = self._clock.now_ns()
            bound_ns = self._published_bound_ns()
            published = await self._published_at(procedure)
            # This leader's catalog holds the procedure's change already: its election revision covers it.
            running.barrier = self._leasing.ask(self._elected)
            await asyncio.wait((running.barrier.verdict, running.taken_back), return_when=asyncio.FIRST_COMPLETED)
            running.answer.set_result(await self._go_on(procedure, published, running, turn, bound_ns))
        except LeaseholdError as error:
            running.fail(error)
        finally:
            self._end(running, turn)

    async def _begin(self, asked: Asked, context: Context, running: Running, turn: Turn, settled: Revision) -> Receipt:
        request: ddl.Request | None = None
        begun: ddl.Begun | None = None
        early = False

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal request, begun, early
            if running.give_up_ns is not None and self._clock.now_ns() >= running.give_up_ns:
                raise timed_out("what came before it took as long")
            request = ddl.Request(
                id=running.id,
                text=running.text,
                statement=asked.statement,
                # Not before: while this waited to be decided, a longer lease may have been set, and granted.
                bound_ns=self._published_bound_ns(),
                context=self._preparing.as_of_now(context, asked.statement),
                term=self._leasing.grantor.term,
                text_sha256=running.origin.text_sha256,
                waited=running.waited,
            )
            with ending_the_statement():
                begun = ddl.begin(request, catalog)
            # What a CASCADE takes along was in no queue of it, and may have been changed a moment ago.
            early = begun.procedure is not None and self._turns.last_change(begun.procedure.claims) > settled
            return () if early else begun.changes

        revision = await self._writer.submit(decide)
        assert request is not None
        assert begun is not None
        if begun.procedure is not None and early:
            settled = await self._settle_before(begun.procedure.claims, running)
            return await self._begin(asked, context, running, turn, settled)
        if begun.procedure is None:
            elapsed_ns = self._elapsed_ns(running)
            answer = nothing_to_do(running, revision=settled, elapsed_ns=elapsed_ns, bound_ns=request.bound_ns)
            self._unrecorded.note(running.id, running.origin, answer)
            return answer
        running.number = begun.procedure.number
        self._turns.widen(turn, begun.procedure.claims)
        self._turns.touch(turn.claims, revision)
        return await self._go_on(begun.procedure, revision, running, turn, request.bound_ns)

    async def _go_on(
        self, procedure: ProcedureRecord, revision: Revision, running: Running, turn: Turn, bound_ns: int
    ) -> Receipt:
        """From a committed first transaction to the receipt: the part that a later leader repeats."""
        running.published_after_ns = self._elapsed_ns(running)
        barrier = running.barrier = self._leasing.ask(revision, give_up_ns=running.give_up_ns)
        await asyncio.wait((barrier.verdict, running.taken_back), return_when=asyncio.FIRST_COMPLETED)
        if running.taken_back.done():
            return await self._was_taken_back(running, turn)
        verdict = barrier.verdict.result()
        if isinstance(verdict, Fail):
            return await self._give_up(procedure, revision, running, turn, verdict)
        running.settled_after_ns = self._elapsed_ns(running)
        if procedure.step is Step.PRE_STATE:
            try:
                after = await self._insist(lambda catalog: ddl.finish(procedure, catalog))
            except Refused as error:
                if error.code != "ROLLED_BACK":
                    raise
                return await self._was_taken_back(running, turn)
            running.past_return = True
            self._touch_and_settle(turn.claims, after)
        return await self._close(procedure, verdict, running, bound_ns)

    async def _close(self, procedure: ProcedureRecord, verdict: Proceed, running: Running, bound_ns: int) -> Receipt:
        elapsed_ns = self._elapsed_ns(running)
        catalog = self._writer.catalog
        running.closing = True
        await self._closings.add(
            Closing(procedure=procedure, barrier=verdict.receipt, elapsed_ns=elapsed_ns, bound_ns=bound_ns)
        )
        ended = ddl.ended(catalog.statements[running.id], verdict.receipt, elapsed_ns, bound_ns)
        log.info("%s: revision %d, %d ms", procedure.text, verdict.receipt.revision, elapsed_ns // MILLISECOND_NS)
        if elapsed_ns > ended.bound_ns:
            log.warning("%s: %s", procedure.text, running.overrun(ended.bound_ns))
        return receipt(ended, catalog)

    async def _give_up(
        self, procedure: ProcedureRecord, revision: Revision, running: Running, turn: Turn, verdict: Fail
    ) -> Receipt:
        """Its own timeout came before the end of its barrier: what becomes of it is durable before it is told."""
        elapsed_ns, pending = self._elapsed_ns(running), verdict.pending

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            forget = self._closings.forgetting(running.id, catalog)
            if procedure.step is Step.PRE_STATE:
                return ddl.roll_back(procedure, catalog, elapsed_ns=elapsed_ns, pending=pending, forget=forget)
            return ddl.leave_pending(
                procedure, catalog, revision=revision, elapsed_ns=elapsed_ns, pending=pending, forget=forget
            )

        after = await self._insist(decide)
        if procedure.step is Step.PRE_STATE:
            self._touch_and_settle(turn.claims, after)
            await self._until_shown_again(after, running)
        catalog = self._writer.catalog
        ended = catalog.statements[running.id]
        log.info("%s: %s after its timeout, %s pending", procedure.text, ended.outcome, pending)
        return receipt(ended, catalog)

    async def _was_taken_back(self, running: Running, turn: Turn) -> Receipt:
        catalog = self._writer.catalog
        ended = catalog.statements[running.id]
        self._touch_and_settle(turn.claims, catalog.revision)
        await self._until_shown_again(catalog.revision, running)
        return receipt(ended, catalog)

    async def _until_shown_again(self, revision: Revision, running: Running) -> None:
        """Waits until no node hides what a rollback at `revision` brought back; bounded as every barrier."""
        running.barrier = self._leasing.ask(revision)
        await asyncio.wait((running.barrier.verdict,))

    async def _shown_again(self, revision: Revision, statement: StatementId) -> AsyncIterator[WaitingFor]:
        """The same for one that asks about a statement that nobody runs any more; whom it waits for meanwhile."""
        barrier = self._leasing.ask(revision)
        while not barrier.verdict.done():
            await asyncio.wait((barrier.verdict,), timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            waiting = self._leasing.waiting(barrier.number)
            if waiting is not None:
                yield told_of(waiting, statement, self._writer.catalog)

    def _touch_and_settle(self, used: Mapping[str, Claim], revision: Revision) -> None:
        self._turns.touch(used, revision)
        self._leasing.ask(revision)  # begun now, so that the next statement on the object waits the less for it

    async def _insist(self, decide: Callable[[Catalog], tuple[Change, ...]]) -> Revision:
        return await insist(self._writer, self._clock, decide)

    def _elapsed_ns(self, running: Running) -> int:
        return 0 if running.began_ns is None else self._clock.now_ns() - running.began_ns

    def _published_bound_ns(self) -> int:
        return published_bound_ns(self._leasing.grantor, self._clock.now_ns())

    async def _published_at(self, procedure: ProcedureRecord) -> Revision:
        """The revision of the first transaction, so that the receipt says the same under every leader."""
        while True:
            try:
                found = await self._storage.get(keys.statement(procedure.statement))
            except Indefinite:  # nobody may be told of another revision
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)
                continue
            assert found is not None, "a procedure and its statement are written together"
            return found.modified

    async def _reach(self, turn: Turn, running: Running) -> None:
        """Waits for the statements before it on the same objects."""
        if turn.reached.done():
            return
        began_ns = self._clock.now_ns()
        if not await self._turns.reach(turn, running.give_up_ns):
            raise timed_out("other statements on the same objects came before it")
        running.waited = Waited(queued_ns=self._clock.now_ns() - began_ns)

    async def _settle_before(self, claims: Mapping[str, Claim], running: Running) -> Revision:
        """Waits for the barrier of the last change of what it uses; from there on its time counts."""
        last = self._turns.last_change(claims)
        if last > 0:
            began_ns = self._clock.now_ns()
            running.barrier = self._leasing.ask(last, give_up_ns=running.give_up_ns)
            waits = not running.barrier.verdict.done()
            await asyncio.wait((running.barrier.verdict,))
            verdict = running.barrier.verdict.result()
            if isinstance(verdict, Fail):
                raise timed_out(f"{node_names(verdict.pending, self._writer.catalog)} may still serve what was before")
            if waits:
                running.waited = _and_settled(running.waited, self._clock.now_ns() - began_ns, verdict.receipt)
        running.began_ns = self._clock.now_ns()
        return last

    def _end(self, running: Running, turn: Turn) -> None:
        if not running.answer.done():
            running.answer.cancel()
        if not running.closing:
            self._running.pop(running.id, None)
        self._turns.leave(turn)


def _and_settled(before: Waited | None, settling_ns: int, barrier: BarrierReceipt) -> Waited:
    """It waited for this barrier as well; for several where a CASCADE takes along what was changed meanwhile."""
    before = before or Waited()
    return msgspec.structs.replace(
        before,
        settling_ns=before.settling_ns + settling_ns,
        nodes=tuple(dict.fromkeys((*before.nodes, *(one.node for one in barrier.settled[-1:])))),
    )
