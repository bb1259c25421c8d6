"""Carries out the effects of statements (`core/ddl/effects.py`): queues, barriers, transactions, answers."""

import asyncio
import logging
from functools import partial
from typing import assert_never

import msgspec

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.statements.faults import ending_the_statement
from leasehold.coordinator.statements.preparation import Preparing
from leasehold.coordinator.statements.turns import ObjectTurns
from leasehold.coordinator.statements.unfinished import LiveStatement, Unrecorded
from leasehold.coordinator.upkeep.receipts import Closings, insist
from leasehold.coordinator.writer import Writer
from leasehold.core import ddl
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl import effects, events
from leasehold.core.ddl.decision import Begins, Decision, Undecided, decide_first_transaction
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
    """Carries out the effects of all statements of one leader."""

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
        self._insist = partial(insist, writer, clock)
        self._turns = turns
        self._preparing = preparing
        self._closings = closings
        self._unrecorded = unrecorded

    def do(self, action: effects.Action, running: LiveStatement) -> None:
        """Carries out an effect that is done at once."""
        match action:
            case effects.EnterQueue(claims=claims):
                running.turn = self._turns.enter(running.id, claims)
            case effects.WidenTurn(claims=claims):
                assert running.turn is not None
                self._turns.widen(running.turn, claims)
            case effects.TouchObjects(claims=claims, revision=revision):
                self._turns.touch(claims, revision)
            case effects.BeginBarrier(revision=revision):
                self._leasing.ask(revision)
            case effects.Remember(end=end):
                if isinstance(end, Receipt):
                    self._unrecorded.note(running.id, running.origin, end)
                else:
                    self._unrecorded.refused(running.id, running.origin, end)
            case effects.WriteLog(text=text, is_warning=is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s", text)
            case effects.Answer(end=end):
                running.tell(end)
            case _:
                assert_never(action)

    async def finish(self, effect: effects.Awaited, running: LiveStatement) -> events.RunEvent:
        """Carries out an effect that takes a while; returns its end as an event."""
        try:
            return await self._finish(effect, running)
        except LeaseholdError as error:
            return events.EffectFailed(error=error)

    async def _finish(self, effect: effects.Awaited, running: LiveStatement) -> events.RunEvent:  # noqa: PLR0911 - one per effect
        match effect:
            case effects.AwaitTurn(give_up_ns=give_up_ns):
                return await self._reach(give_up_ns, running)
            case effects.SettleObjects():
                return await self._settle(effect, running)
            case effects.PrepareContext():
                assert running.asked is not None
                with ending_the_statement():
                    return events.ContextPrepared(context=await self._preparing.context(running.asked))
            case effects.CommitDecision(undecided=undecided):
                return await self._commit(undecided)
            case effects.FindRevision(procedure=procedure):
                bound_ns = self._leasing.published_bound_ns()
                return events.RevisionFound(revision=await self._published_at(procedure), bound_ns=bound_ns)
            case effects.AwaitBarrier():
                return await self._await_barrier(effect, running)
            case effects.CrossPoint(procedure=procedure):
                crossed = await self._insist(lambda catalog: ddl.finish(procedure, catalog))
                return events.PointCrossed(revision=crossed)
            case effects.RollBack():
                return events.RolledBack(
                    revision=await self._insist(lambda catalog: self._rolled_back(effect, catalog))
                )
            case effects.LeavePending():
                await self._insist(lambda catalog: self._left_pending(effect, catalog))
                return events.LeftPending()
            case effects.QueueReceipt():
                await self._closings.add(effect)
                return events.ReceiptQueued()
            case _:
                assert_never(effect)

    async def _reach(self, give_up_ns: int | None, running: LiveStatement) -> events.RunEvent:
        turn = running.turn
        assert turn is not None
        if turn.reached.done():
            return events.TurnReached(at_once=True)
        return events.TurnReached(at_once=False) if await self._turns.reach(turn, give_up_ns) else events.TurnMissed()

    async def _settle(self, effect: effects.SettleObjects, running: LiveStatement) -> events.ObjectsSettled:
        last = self._turns.last_change(effect.claims)
        if last == 0:
            return events.ObjectsSettled(revision=last, verdict=None, at_once=True)
        barrier = running.barrier = self._leasing.ask(last, give_up_ns=effect.give_up_ns)
        at_once = barrier.verdict.done()
        await asyncio.wait((barrier.verdict,))
        return events.ObjectsSettled(revision=last, verdict=barrier.verdict.result(), at_once=at_once)

    async def _commit(self, undecided: Undecided) -> events.Decided:
        decision: Decision | None = None

        def decided(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal decision
            # Not before: a longer lease may have been set, and granted, since the command was queued.
            bound_ns = self._leasing.published_bound_ns()
            context = self._preparing.as_of_now(undecided.context, undecided.statement)
            now_ns, as_of_now = self._clock.now_ns(), msgspec.structs.replace(undecided, context=context)
            with ending_the_statement():
                decision = decide_first_transaction(
                    as_of_now, catalog, now_ns, bound_ns=bound_ns, last_change=self._turns.last_change
                )
            return decision.changes if isinstance(decision, Begins) else ()

        revision = await self._writer.submit(decided)
        assert decision is not None
        return events.Decided(decision=decision, revision=revision)

    async def _published_at(self, procedure: ProcedureRecord) -> Revision:
        while True:
            try:
                found = await self._storage.get(keys.statement(procedure.statement))
            except Indefinite:
                await self._clock.sleep_until(self._clock.now_ns() + LEADER_RETRY_NS)
                continue
            assert found is not None, "a procedure and its statement are written together"
            return found.modified

    async def _await_barrier(
        self, effect: effects.AwaitBarrier, running: LiveStatement
    ) -> events.BarrierEnded | events.TakenBack:
        barrier = running.barrier = self._leasing.ask(effect.revision, give_up_ns=effect.give_up_ns)
        if not effect.or_taken_back:
            await asyncio.wait((barrier.verdict,))
            return events.BarrierEnded(verdict=barrier.verdict.result())
        await asyncio.wait((barrier.verdict, running.taken_back), return_when=asyncio.FIRST_COMPLETED)
        return (
            events.TakenBack() if running.taken_back.done() else events.BarrierEnded(verdict=barrier.verdict.result())
        )

    def _rolled_back(self, effect: effects.RollBack, catalog: Catalog) -> tuple[Change, ...]:
        forget = self._closings.forgetting(effect.procedure.statement, catalog)
        return ddl.roll_back(
            effect.procedure, catalog, elapsed_ns=effect.elapsed_ns, pending=effect.pending, forget=forget
        )

    def _left_pending(self, effect: effects.LeavePending, catalog: Catalog) -> tuple[Change, ...]:
        forget = self._closings.forgetting(effect.procedure.statement, catalog)
        return ddl.leave_pending(
            effect.procedure,
            catalog,
            revision=effect.revision,
            elapsed_ns=effect.elapsed_ns,
            pending=effect.pending,
            forget=forget,
        )
