"""The run of a statement: its life under one leader, from the request to the receipt.

Theory of operation. A `StatementRun` takes one event at a time and answers what to do next. All that a later leader
needs is written by the transactions of `core/ddl/procedure.py`, which compare what they find. So a leader may die
between any two steps, or repeat one. The next leader makes a new run of the procedure that it finds.

| state | event | next |
| --- | --- | --- |
| new | `StatementAsked` | queued |
| new | `ProcedureFound` | queued |
| queued | `TurnReached`: a new statement | settling |
| queued | `TurnReached`: an earlier leader's statement | locating |
| queued | `TurnMissed` | ended: refused |
| settling | `ObjectsSettled`: proceeded | preparing |
| settling | `ObjectsSettled`: proceeded, after it was too early | deciding |
| settling | `ObjectsSettled`: timed out | ended: refused |
| preparing | `ContextPrepared` | deciding |
| preparing | `EffectFailed` | ended: the error |
| deciding | `Decided`: begins | awaiting barrier |
| deciding | `Decided`: too early | settling |
| deciding | `Decided`: nothing to do | ended: COMMITTED |
| deciding | `EffectFailed` | ended: the error |
| locating | `RevisionFound` | catching up |
| locating | `EffectFailed` | ended: unknown |
| catching up | `BarrierEnded` | awaiting barrier |
| catching up | `TakenBack` | restoring |
| awaiting barrier | `BarrierEnded`: proceeded, in the pre-state | crossing |
| awaiting barrier | `BarrierEnded`: proceeded, otherwise | closing |
| awaiting barrier | `BarrierEnded`: timed out, in the pre-state | rolling back |
| awaiting barrier | `BarrierEnded`: timed out, otherwise | leaving pending |
| awaiting barrier | `TakenBack` | restoring |
| crossing | `PointCrossed` | closing |
| crossing | `EffectFailed`: ROLLED_BACK | restoring |
| crossing | `EffectFailed`: otherwise | ended: unknown |
| rolling back | `RolledBack` | restoring |
| rolling back | `EffectFailed` | ended: unknown |
| leaving pending | `LeftPending` | ended: COMMITTED_PENDING |
| leaving pending | `EffectFailed` | ended: unknown |
| restoring | `BarrierEnded` | ended: ROLLED_BACK |
| closing | `ReceiptQueued` | ended: COMMITTED |

Any other event raises and changes nothing. The times in a receipt:

- *queued* and *settling* come before its own time. They begin with those states.
- *elapsed* begins when its objects are settled; for an earlier leader's statement, when it reaches its turn. It ends
  with the barrier, or with the point of no return. The published bound is for this time.

Three rules:

- No timeout ends a statement that an earlier leader began: it goes all the way.
- CANCEL is a transaction of its own, of whoever asks for it. A run hears of it while it waits for a barrier of its
  pre-state. Later the comparison at the point of no return, or at the rollback, meets it.
- An error after the first transaction ends the run as unknown, since the procedure stands. CANCEL or the next leader
  ends it.
"""

from typing import assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.node_names import node_names
from leasehold.core.catalog.plan import Context
from leasehold.core.ddl import effects, events
from leasehold.core.ddl.decision import Begins, NothingToDo, TooEarly, Undecided
from leasehold.core.ddl.origin import Origin
from leasehold.core.ddl.procedure import ended
from leasehold.core.ddl.receipts import nothing_to_do, overrun, receipt, settled_as_well, timed_out
from leasehold.core.ddl.states import LEGAL, RunState
from leasehold.core.lease.barrier import Fail
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import BarrierReceipt, Claim, ProcedureRecord, Step, Waited
from leasehold.core.words.statements import Definition
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, LeaseholdError, OutcomeUnknown, Refused
from leasehold.ids import NodeId, Revision, StatementId, Term
from leasehold.limits.units import MILLISECOND_NS

Effects = tuple[effects.RunEffect, ...]


class StatementRun:
    """One statement under one leader, of the term `term`. `give_up_ns`: when its own timeout is over, if it has one."""

    def __init__(self, statement: StatementId, origin: Origin, *, term: Term, give_up_ns: int | None) -> None:
        self._id = statement
        self._origin = origin
        self._term = term
        self._give_up_ns = give_up_ns
        self._state = RunState.NEW
        self._asked: Definition | None = None
        self._claims: dict[str, Claim] = {}
        self._context: Context | None = None
        self._since_ns = 0
        """When it began to be queued, or to settle."""
        self._waited: Waited | None = None
        self._began_ns: int | None = None
        self._settled = Revision(0)
        self._procedure: ProcedureRecord | None = None
        self._elected = Revision(0)
        self._revision = Revision(0)
        """Of its first transaction."""
        self._bound_ns = 0
        self._published_after_ns = 0
        self._settled_after_ns = 0
        self._barrier: BarrierReceipt | None = None
        self._pending: tuple[NodeId, ...] | None = None
        """The nodes that its timeout left behind."""
        self._receipt: Receipt | None = None
        """Of a statement that went all the way; answered before it is durable."""

    # ------------------------------------------------------------ what can be looked at

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def number(self) -> int | None:
        """Its procedure, once its first transaction is durable: no refusal may say then that nothing happened."""
        return None if self._procedure is None else self._procedure.number

    @property
    def has_begun(self) -> bool:
        """Whether its own time counts: its turn has come, and what it uses is settled."""
        return self._began_ns is not None

    @property
    def is_closing(self) -> bool:
        """Whether it went all the way, so that its receipt is written behind its answer."""
        return self._receipt is not None

    def elapsed_ns(self, now_ns: int) -> int:
        """How much of its own time has passed."""
        return 0 if self._began_ns is None else now_ns - self._began_ns

    # ------------------------------------------------------------ steps

    def step(self, event: events.RunEvent, catalog: Catalog, now_ns: int) -> Effects:  # noqa: C901, PLR0911 one each
        """Takes one event; `catalog` is the newest durable one. At most the last effect is awaited: its end is the next
        event. Without one the run has ended."""
        assert isinstance(event, LEGAL[self._state]), f"{type(event).__name__} while {self._state}"
        match event:
            case events.StatementAsked():
                return self._on_asked(event, now_ns)
            case events.ProcedureFound():
                return self._on_found(event, now_ns)
            case events.TurnReached():
                return self._on_turn(event, now_ns)
            case events.TurnMissed():
                return self._fail(timed_out("other statements on the same objects came before it"))
            case events.ObjectsSettled():
                return self._on_settled(event, catalog, now_ns)
            case events.ContextPrepared(context=context):
                self._context = context
                return self._decide(context)
            case events.Decided():
                return self._on_decided(event, now_ns)
            case events.RevisionFound():
                return self._on_revision(event)
            case events.BarrierEnded():
                return self._on_barrier(event, catalog, now_ns)
            case events.TakenBack():
                return self._restore(catalog.revision)
            case events.PointCrossed(revision=revision):
                closes = self._close(catalog, now_ns)
                return (
                    effects.TouchObjects(claims=self._claims, revision=revision),
                    effects.BeginBarrier(revision=revision),
                    *closes,
                )
            case events.RolledBack(revision=revision):
                return self._restore(revision)
            case events.LeftPending():
                return self._ended_as_recorded(catalog)
            case events.ReceiptQueued():
                return self._on_queued_receipt()
            case events.EffectFailed():
                return self._on_failed(event, catalog)
            case _:
                assert_never(event)

    # ------------------------------------------------------------ before its first transaction

    def _on_asked(self, event: events.StatementAsked, now_ns: int) -> Effects:
        self._asked = event.statement
        return self._enter(event.claims, now_ns)

    def _on_found(self, event: events.ProcedureFound, now_ns: int) -> Effects:
        assert self._give_up_ns is None, "no timeout ends what an earlier leader began"
        self._procedure, self._elected = event.procedure, event.elected
        return self._enter(event.procedure.claims, now_ns)

    def _enter(self, claims: dict[str, Claim], now_ns: int) -> Effects:
        self._state = RunState.QUEUED
        self._claims = claims
        self._since_ns = now_ns
        return (effects.EnterQueue(claims=claims), effects.AwaitTurn(give_up_ns=self._give_up_ns))

    def _on_turn(self, event: events.TurnReached, now_ns: int) -> Effects:
        if self._procedure is not None:
            self._state = RunState.LOCATING
            self._began_ns = now_ns
            return (effects.FindRevision(procedure=self._procedure),)
        if not event.at_once:
            self._waited = Waited(queued_ns=now_ns - self._since_ns)
        return self._settle(self._claims, now_ns)

    def _settle(self, claims: dict[str, Claim], now_ns: int) -> Effects:
        self._state = RunState.SETTLING
        self._since_ns = now_ns
        return (effects.SettleObjects(claims=claims, give_up_ns=self._give_up_ns),)

    def _on_settled(self, event: events.ObjectsSettled, catalog: Catalog, now_ns: int) -> Effects:
        verdict = event.verdict
        if isinstance(verdict, Fail):
            return self._fail(timed_out(f"{node_names(verdict.pending, catalog)} may still serve the old state"))
        if verdict is not None and not event.at_once:
            self._waited = settled_as_well(self._waited, now_ns - self._since_ns, verdict.receipt)
        self._began_ns = now_ns
        self._settled = event.revision
        if self._context is not None:
            return self._decide(self._context)
        self._state = RunState.PREPARING
        return (effects.PrepareContext(),)

    def _decide(self, context: Context) -> Effects:
        assert self._asked is not None, "an earlier leader has decided"
        self._state = RunState.DECIDING
        undecided = Undecided(
            id=self._id,
            origin=self._origin,
            statement=self._asked,
            context=context,
            term=self._term,
            waited=self._waited,
            settled=self._settled,
            give_up_ns=self._give_up_ns,
        )
        return (effects.CommitDecision(undecided=undecided),)

    def _on_decided(self, event: events.Decided, now_ns: int) -> Effects:
        decision = event.decision
        match decision:
            case TooEarly(claims=claims):
                return self._settle(claims, now_ns)
            case NothingToDo(bound_ns=bound_ns):
                self._state = RunState.ENDED
                end = nothing_to_do(
                    self._id,
                    self._origin.text,
                    revision=self._settled,
                    elapsed_ns=self.elapsed_ns(now_ns),
                    bound_ns=bound_ns,
                    waited=self._waited,
                )
                return (effects.Remember(end=end), effects.Answer(end=end))
            case Begins(procedure=procedure, bound_ns=bound_ns):
                self._procedure, self._bound_ns, self._revision = procedure, bound_ns, event.revision
                self._claims = {**procedure.claims, **self._claims}
                touch = effects.TouchObjects(claims=self._claims, revision=event.revision)
                return (effects.WidenTurn(claims=procedure.claims), touch, *self._await_barrier(now_ns))
            case _:
                assert_never(decision)

    # ------------------------------------------------------------ from its first transaction to its end

    def _on_revision(self, event: events.RevisionFound) -> Effects:
        self._state = RunState.CATCHING_UP
        self._revision, self._bound_ns = event.revision, event.bound_ns
        # This leader's catalog holds the procedure's change already: its election revision covers it.
        return (effects.AwaitBarrier(revision=self._elected, or_taken_back=True),)

    def _await_barrier(self, now_ns: int) -> Effects:
        """The part that every later leader repeats begins here."""
        self._state = RunState.AWAITING_BARRIER
        self._published_after_ns = self.elapsed_ns(now_ns)
        return (effects.AwaitBarrier(revision=self._revision, give_up_ns=self._give_up_ns, or_taken_back=True),)

    def _on_barrier(self, event: events.BarrierEnded, catalog: Catalog, now_ns: int) -> Effects:
        if self._state is RunState.RESTORING:
            return self._ended_as_recorded(catalog)
        verdict = event.verdict
        if self._state is RunState.CATCHING_UP:
            assert not isinstance(verdict, Fail), "without a timeout a barrier can't fail"
            return self._await_barrier(now_ns)
        assert self._procedure is not None
        if isinstance(verdict, Fail):
            return self._give_up(self._procedure, verdict.pending, now_ns)
        self._barrier = verdict.receipt
        self._settled_after_ns = self.elapsed_ns(now_ns)
        if self._procedure.step is not Step.PRE_STATE:
            return self._close(catalog, now_ns)
        self._state = RunState.CROSSING
        return (effects.CrossPoint(procedure=self._procedure),)

    def _give_up(self, procedure: ProcedureRecord, pending: tuple[NodeId, ...], now_ns: int) -> Effects:
        """Its timeout came before the end of its barrier: its end is durable before it is answered."""
        self._pending = pending
        elapsed_ns = self.elapsed_ns(now_ns)
        if procedure.step is Step.PRE_STATE:
            self._state = RunState.ROLLING_BACK
            return (effects.RollBack(procedure=procedure, elapsed_ns=elapsed_ns, pending=pending),)
        self._state = RunState.LEAVING_PENDING
        return (
            effects.LeavePending(procedure=procedure, revision=self._revision, elapsed_ns=elapsed_ns, pending=pending),
        )

    def _restore(self, revision: Revision) -> Effects:
        """Its end is answered once no node hides what the rollback at `revision` brought back."""
        self._state = RunState.RESTORING
        return (effects.TouchObjects(claims=self._claims, revision=revision), effects.AwaitBarrier(revision=revision))

    def _ended_as_recorded(self, catalog: Catalog) -> Effects:
        record = catalog.statements[self._id]
        self._state = RunState.ENDED
        answer = effects.Answer(end=receipt(record, catalog))
        if self._pending is None:
            return (answer,)
        return (
            effects.WriteLog(text=f"{record.text}: {record.outcome} after its timeout, {self._pending} pending"),
            answer,
        )

    def _close(self, catalog: Catalog, now_ns: int) -> Effects:
        assert self._procedure is not None
        assert self._barrier is not None
        elapsed_ns, bound_ns = self.elapsed_ns(now_ns), self._bound_ns
        self._receipt = receipt(ended(catalog.statements[self._id], self._barrier, elapsed_ns, bound_ns), catalog)
        self._state = RunState.CLOSING
        return (
            effects.QueueReceipt(
                procedure=self._procedure, barrier=self._barrier, elapsed_ns=elapsed_ns, bound_ns=bound_ns
            ),
        )

    def _on_queued_receipt(self) -> Effects:
        assert self._receipt is not None
        self._state = RunState.ENDED
        told = self._receipt
        done = effects.WriteLog(text=f"{told.text}: revision {told.revision}, {told.elapsed_ns // MILLISECOND_NS} ms")
        if told.elapsed_ns <= told.bound_ns:
            return (done, effects.Answer(end=told))
        late = overrun(
            told.bound_ns, published_after_ns=self._published_after_ns, settled_after_ns=self._settled_after_ns
        )
        return (done, effects.WriteLog(text=f"{told.text}: {late}", is_warning=True), effects.Answer(end=told))

    # ------------------------------------------------------------ errors

    def _on_failed(self, event: events.EffectFailed, catalog: Catalog) -> Effects:
        if (
            self._state is RunState.CROSSING
            and isinstance(event.error, Refused)
            and event.error.code == ErrorCode.ROLLED_BACK
        ):
            return self._restore(catalog.revision)
        return self._fail(event.error)

    def _fail(self, error: LeaseholdError) -> Effects:
        self._state = RunState.ENDED
        if not isinstance(error, Definite):
            return (effects.Answer(end=error),)
        if self._procedure is None:
            return (effects.Remember(end=error), effects.Answer(end=error))
        # The procedure is durable and goes on under this leader's successor, if not under this one.
        text = f"the statement has begun and can't be ended now: {error.text}"
        return (effects.Answer(end=OutcomeUnknown(text, hint="ask again with the same statement id")),)
