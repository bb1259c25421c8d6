"""Does what the runs of statements ask for (`core/ddl/effects.py`): queues, barriers, transactions, answers."""

import asyncio
import logging
from collections.abc import Callable
from typing import assert_never

import msgspec

from leasehold.coordinator.nodes.lease_settings import published_bound_ns
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.statements.faults import ending_the_statement
from leasehold.coordinator.statements.preparation import Preparing
from leasehold.coordinator.statements.turns import ObjectTurns
from leasehold.coordinator.statements.unfinished import LiveStatement, Unrecorded
from leasehold.coordinator.upkeep.receipts import Closings, insist
from leasehold.coordinator.writer import Writer
from leasehold.core import ddl
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.decision import Begins, Decision, Undecided, decide_first_transaction
from leasehold.core.ddl.effects import (
    Action,
    Answer,
    AwaitBarrier,
    Awaited,
    AwaitTurn,
    BeginBarrier,
    CommitDecision,
    CrossPoint,
    EnterQueue,
    FindRevision,
    LeavePending,
    PrepareContext,
    QueueReceipt,
    Remember,
    RollBack,
    SettleObjects,
    TouchObjects,
    WidenTurn,
    WriteLog,
)
from leasehold.core.ddl.events import (
    BarrierEnded,
    ContextPrepared,
    Decided,
    EffectFailed,
    LeftPending,
    ObjectsSettled,
    PointCrossed,
    ReceiptQueued,
    RevisionFound,
    RolledBack,
    RunEvent,
    TakenBack,
    TurnMissed,
    TurnReached,
)
from leasehold.core.words import keys
from leasehold.core.words.messages import Receipt
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ProcedureRecord
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.lease import LEADER_RETRY_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class RunEffects:
    """For all statements of one leader."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        *,
        turns: ObjectTurns,
        preparing: Preparing,
        closings: Closings,
        unrecorded: Unrecorded,
    ) -> None:
        self._storage = storage
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._turns = turns
        self._preparing = preparing
        self._closings = closings
        self._unrecorded = unrecorded

    def published_bound_ns(self) -> int:
        """What is promised for a statement that is decided now."""
        return published_bound_ns(self._leasing.grantor, self._clock.now_ns())

    def do(self, action: Action, running: LiveStatement) -> None:
        """What is done at once."""
        match action:
            case EnterQueue(claims=claims):
                running.turn = self._turns.enter(running.id, claims)
            case WidenTurn(claims=claims):
                assert running.turn is not None
                self._turns.widen(running.turn, claims)
            case TouchObjects(claims=claims, revision=revision):
                self._turns.touch(claims, revision)
            case BeginBarrier(revision=revision):
                self._leasing.ask(revision)
            case Remember(end=end):
                if isinstance(end, Receipt):
                    self._unrecorded.note(running.id, running.origin, end)
                else:
                    self._unrecorded.refused(running.id, running.origin, end)
            case WriteLog(text=text, is_warning=is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)
            case Answer(end=end):
                running.tell(end)
            case _:
                assert_never(action)

    async def finish(self, effect: Awaited, running: LiveStatement) -> RunEvent:
        """Does what takes a while; how it ended."""
        try:
            return await self._finish(effect, running)
        except LeaseholdError as error:
            return EffectFailed(error=error)

    async def _finish(self, effect: Awaited, running: LiveStatement) -> RunEvent:  # noqa: PLR0911 - one per effect
        match effect:
            case AwaitTurn(give_up_ns=give_up_ns):
                return await self._reach(give_up_ns, running)
            case SettleObjects():
                return await self._settle(effect, running)
            case PrepareContext():
                assert running.asked is not None
                with ending_the_statement():
                    return ContextPrepared(context=await self._preparing.context(running.asked))
            case CommitDecision(undecided=undecided):
                return await self._commit(undecided)
            case FindRevision(procedure=procedure):
                bound_ns = self.published_bound_ns()
                return RevisionFound(revision=await self._published_at(procedure), bound_ns=bound_ns)
            case AwaitBarrier():
                return await self._await_barrier(effect, running)
            case CrossPoint(procedure=procedure):
                crossed = await self._insist(lambda catalog: ddl.finish(procedure, catalog))
                return PointCrossed(revision=crossed)
            case RollBack():
                return RolledBack(revision=await self._insist(lambda catalog: self._rolled_back(effect, catalog)))
            case LeavePending():
                await self._insist(lambda catalog: self._left_pending(effect, catalog))
                return LeftPending()
            case QueueReceipt():
                await self._closings.add(effect)
                return ReceiptQueued()
            case _:
                assert_never(effect)

    async def _reach(self, give_up_ns: int | None, running: LiveStatement) -> RunEvent:
        turn = running.turn
        assert turn is not None
        if turn.reached.done():
            return TurnReached(at_once=True)
        return TurnReached(at_once=False) if await self._turns.reach(turn, give_up_ns) else TurnMissed()

    async def _settle(self, effect: SettleObjects, running: LiveStatement) -> ObjectsSettled:
        last = self._turns.last_change(effect.claims)
        if last == 0:
            return ObjectsSettled(revision=last, verdict=None, at_once=True)
        barrier = running.barrier = self._leasing.ask(last, give_up_ns=effect.give_up_ns)
        at_once = barrier.verdict.done()
        await asyncio.wait((barrier.verdict,))
        return ObjectsSettled(revision=last, verdict=barrier.verdict.result(), at_once=at_once)

    async def _commit(self, undecided: Undecided) -> Decided:
        decision: Decision | None = None

        def decided(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal decision
            # Not before: while this waited to be decided, a longer lease may have been set, and granted.
            bound_ns = self.published_bound_ns()
            context = self._preparing.as_of_now(undecided.context, undecided.statement)
            now_ns, as_of_now = self._clock.now_ns(), msgspec.structs.replace(undecided, context=context)
            with ending_the_statement():
                decision = decide_first_transaction(
                    as_of_now, catalog, now_ns, bound_ns=bound_ns, last_change=self._turns.last_change
                )
            return decision.changes if isinstance(decision, Begins) else ()

        revision = await self._writer.submit(decided)
        assert decision is not None
        return Decided(decision=decision, revision=revision)

    async def _published_at(self, procedure: ProcedureRecord) -> Revision:
        """The revision of the first transaction."""
        while True:
            try:
                found = await self._storage.get(keys.statement(procedure.statement))
            except Indefinite:  # nobody may be told of another revision
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)
                continue
            assert found is not None, "a procedure and its statement are written together"
            return found.modified

    async def _await_barrier(self, effect: AwaitBarrier, running: LiveStatement) -> BarrierEnded | TakenBack:
        barrier = running.barrier = self._leasing.ask(effect.revision, give_up_ns=effect.give_up_ns)
        if not effect.or_taken_back:
            await asyncio.wait((barrier.verdict,))
            return BarrierEnded(verdict=barrier.verdict.result())
        await asyncio.wait((barrier.verdict, running.taken_back), return_when=asyncio.FIRST_COMPLETED)
        return TakenBack() if running.taken_back.done() else BarrierEnded(verdict=barrier.verdict.result())

    def _rolled_back(self, effect: RollBack, catalog: Catalog) -> tuple[Change, ...]:
        forget = self._closings.forgetting(effect.procedure.statement, catalog)
        return ddl.roll_back(
            effect.procedure, catalog, elapsed_ns=effect.elapsed_ns, pending=effect.pending, forget=forget
        )

    def _left_pending(self, effect: LeavePending, catalog: Catalog) -> tuple[Change, ...]:
        forget = self._closings.forgetting(effect.procedure.statement, catalog)
        return ddl.leave_pending(
            effect.procedure,
            catalog,
            revision=effect.revision,
            elapsed_ns=effect.elapsed_ns,
            pending=effect.pending,
            forget=forget,
        )

    async def _insist(self, decide: Callable[[Catalog], tuple[Change, ...]]) -> Revision:
        return await insist(self._writer, self._clock, decide)
