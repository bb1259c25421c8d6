"""Each transition of the run of a statement: what brings a run there, the event, and the exact effects."""

import msgspec
import pytest

from leasehold.core import ddl
from leasehold.core.ddl.decision import NothingToDo, TooEarly, Undecided
from leasehold.core.ddl.effects import (
    Answer,
    AwaitBarrier,
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
    ProcedureFound,
    ReceiptQueued,
    RevisionFound,
    RolledBack,
    StatementAsked,
    TakenBack,
    TurnMissed,
    TurnReached,
)
from leasehold.core.ddl.receipts import receipt
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Claim, Outcome
from leasehold.errors import Indefinite, OutcomeUnknown, Refused
from tests.unit.core.ddl.lives import (
    ADD,
    BOUND_NS,
    CONTEXT,
    DROP,
    ID,
    LAST_CHANGE,
    ORIGIN,
    TERM,
    TEXT,
    Life,
    barrier,
    proceeded,
    timed_out,
)

GIVE_UP_NS = 9_000
VIEW_CLAIM = {"table db.v": Claim.EXCLUSIVE}
CASES = {}
"""By row of the table. Each makes a life in its state, the event, and the effects, or what checks them."""


def case(state, event, following):
    """Registers the case of one row."""

    def register(work):
        CASES[state, event, following] = work
        return work

    return register


EVENTS = {
    StatementAsked: lambda life: StatementAsked(statement=ADD, claims={}),
    ProcedureFound: lambda life: ProcedureFound(procedure=Life().awaiting().procedure, elected=life.catalog.revision),
    TurnReached: lambda _: TurnReached(at_once=False),
    TurnMissed: lambda _: TurnMissed(),
    ObjectsSettled: lambda _: ObjectsSettled(revision=9, verdict=proceeded(9), at_once=False),
    ContextPrepared: lambda _: ContextPrepared(context=CONTEXT),
    Decided: lambda _: Decided(decision=NothingToDo(bound_ns=1), revision=9),
    RevisionFound: lambda _: RevisionFound(revision=9, bound_ns=1),
    BarrierEnded: lambda _: BarrierEnded(verdict=proceeded(9)),
    TakenBack: lambda _: TakenBack(),
    PointCrossed: lambda _: PointCrossed(revision=9),
    RolledBack: lambda _: RolledBack(revision=9),
    LeftPending: lambda _: LeftPending(),
    ReceiptQueued: lambda _: ReceiptQueued(),
    EffectFailed: lambda _: EffectFailed(error=Refused("no")),
}


# ---------------------------------------------------------------- before its first transaction


@case("new", "`StatementAsked`", "queued")
def asked():
    life = Life(give_up_ns=GIVE_UP_NS)
    effects = (EnterQueue(claims=life.claims), AwaitTurn(give_up_ns=GIVE_UP_NS))
    return life, StatementAsked(statement=ADD, claims=life.claims), effects


@case("new", "`ProcedureFound`", "queued")
def found():
    life = Life(DROP)
    event = life.found()
    return life, event, (EnterQueue(claims=life.procedure.claims), AwaitTurn(give_up_ns=None))


@case("queued", "`TurnReached`: a new statement", "settling")
def turn_of_a_new_statement():
    life = Life(give_up_ns=GIVE_UP_NS).queued()
    return life, TurnReached(at_once=False), (SettleObjects(claims=life.claims, give_up_ns=GIVE_UP_NS),)


@case("queued", "`TurnReached`: an earlier leader's statement", "locating")
def turn_of_an_earlier_leaders_statement():
    life = Life().found_queued()
    return life, TurnReached(at_once=False), (FindRevision(procedure=life.procedure),)


@case("queued", "`TurnMissed`", "ended: refused")
def turn_missed():
    text = "its timeout passed before it began: other statements on the same objects came before it"
    return Life(give_up_ns=GIVE_UP_NS).queued(), TurnMissed(), refused_by_the_timeout(text)


@case("settling", "`ObjectsSettled`: proceeded", "preparing")
def settled():
    event = ObjectsSettled(revision=5, verdict=proceeded(5, 1), at_once=False)
    return Life().settling(), event, (PrepareContext(),)


@case("settling", "`ObjectsSettled`: proceeded, after it was too early", "deciding")
def settled_again():
    life = Life(DROP).deciding()
    life.step(Decided(decision=TooEarly(claims=VIEW_CLAIM), revision=5))
    event = ObjectsSettled(revision=5, verdict=proceeded(5, 1), at_once=True)
    return life, event, (CommitDecision(undecided=undecided(DROP, settled=5)),)


@case("settling", "`ObjectsSettled`: timed out", "ended: refused")
def not_settled_in_time():
    text = "its timeout passed before it began: n1, n3 may still serve the old state"
    event = ObjectsSettled(revision=5, verdict=timed_out(5, 1, 3), at_once=False)
    return Life(give_up_ns=GIVE_UP_NS).settling(), event, refused_by_the_timeout(text)


@case("preparing", "`ContextPrepared`", "deciding")
def prepared():
    life = Life(give_up_ns=GIVE_UP_NS).preparing()
    return life, ContextPrepared(context=CONTEXT), (CommitDecision(undecided=undecided(ADD, give_up_ns=GIVE_UP_NS)),)


@case("preparing", "`EffectFailed`", "ended: the error")
def not_prepared():
    error = Refused("no such table")
    return Life().preparing(), EffectFailed(error=error), (Remember(end=error), Answer(end=error))


@case("deciding", "`Decided`: begins", "awaiting barrier")
def begins():
    life = Life(DROP, give_up_ns=GIVE_UP_NS).deciding()
    event = life.begun()
    effects = (
        WidenTurn(claims=life.procedure.claims),
        TouchObjects(claims=life.claims, revision=life.revision),
        AwaitBarrier(revision=life.revision, give_up_ns=GIVE_UP_NS, or_taken_back=True),
    )
    return life, event, effects


@case("deciding", "`Decided`: too early", "settling")
def too_early():
    life = Life(DROP, give_up_ns=GIVE_UP_NS).deciding()
    event = Decided(decision=TooEarly(claims=VIEW_CLAIM), revision=5)
    return life, event, (SettleObjects(claims=VIEW_CLAIM, give_up_ns=GIVE_UP_NS),)


@case("deciding", "`Decided`: nothing to do", "ended: COMMITTED")
def nothing_to_do():
    end = Receipt(
        statement_id=ID,
        text=TEXT,
        revision=LAST_CHANGE,
        outcome=Outcome.COMMITTED,
        elapsed_ns=20,
        bound_ns=BOUND_NS,
        settled=(),
        pending=(),
        cleaning=(),
    )
    event = Decided(decision=NothingToDo(bound_ns=BOUND_NS), revision=9)
    return Life().deciding(), event, (Remember(end=end), Answer(end=end))


@case("deciding", "`EffectFailed`", "ended: the error")
def not_decided():
    error = Indefinite("the coordinator stopped before it answered")
    return Life().deciding(), EffectFailed(error=error), (Answer(end=error),)


# ---------------------------------------------------------------- a statement of an earlier leader


@case("locating", "`RevisionFound`", "catching up")
def located():
    life = Life().locating()
    event = RevisionFound(revision=life.revision, bound_ns=BOUND_NS)
    return life, event, (AwaitBarrier(revision=life.catalog.revision, or_taken_back=True),)


@case("locating", "`EffectFailed`", "ended: unknown")
def not_located():
    return Life().locating(), EffectFailed(error=Refused("closed")), told_unknown


@case("catching up", "`BarrierEnded`", "awaiting barrier")
def caught_up():
    life = Life().catching_up()
    event = BarrierEnded(verdict=proceeded(life.catalog.revision))
    return life, event, (AwaitBarrier(revision=life.revision, or_taken_back=True),)


@case("catching up", "`TakenBack`", "restoring")
def taken_back_while_catching_up():
    life = Life(DROP).catching_up()
    life.rolled_back()
    return life, TakenBack(), restores


# ---------------------------------------------------------------- from its first transaction to its end


@case("awaiting barrier", "`BarrierEnded`: proceeded, in the pre-state", "crossing")
def barrier_of_a_pre_state():
    life = Life(DROP).awaiting()
    return life, BarrierEnded(verdict=proceeded(life.revision)), (CrossPoint(procedure=life.procedure),)


@case("awaiting barrier", "`BarrierEnded`: proceeded, otherwise", "closing")
def barrier_of_a_change():
    life = Life().awaiting()
    effects = (
        QueueReceipt(procedure=life.procedure, barrier=barrier(life.revision, 1, 2), elapsed_ns=30, bound_ns=BOUND_NS),
    )
    return life, BarrierEnded(verdict=proceeded(life.revision, 1, 2)), effects


@case("awaiting barrier", "`BarrierEnded`: timed out, in the pre-state", "rolling back")
def timeout_in_the_pre_state():
    life = Life(DROP, give_up_ns=GIVE_UP_NS).awaiting()
    effects = (RollBack(procedure=life.procedure, elapsed_ns=30, pending=(2,)),)
    return life, BarrierEnded(verdict=timed_out(life.revision, 2)), effects


@case("awaiting barrier", "`BarrierEnded`: timed out, otherwise", "leaving pending")
def timeout_of_a_change():
    life = Life(give_up_ns=GIVE_UP_NS).awaiting()
    effects = (LeavePending(procedure=life.procedure, revision=life.revision, elapsed_ns=30, pending=(2,)),)
    return life, BarrierEnded(verdict=timed_out(life.revision, 2)), effects


@case("awaiting barrier", "`TakenBack`", "restoring")
def taken_back():
    life = Life(DROP).awaiting()
    life.rolled_back()
    return life, TakenBack(), restores


@case("crossing", "`PointCrossed`", "closing")
def crossed():
    life = Life(DROP).crossing()
    event = life.crossed()
    effects = (
        TouchObjects(claims=life.claims, revision=event.revision),
        BeginBarrier(revision=event.revision),
        QueueReceipt(
            procedure=life.procedure, barrier=barrier(life.revision, 1, 2, 3), elapsed_ns=40, bound_ns=BOUND_NS
        ),
    )
    return life, event, effects


@case("crossing", "`EffectFailed`: ROLLED_BACK", "restoring")
def cancelled_before_it_crossed():
    life = Life(DROP).crossing()
    life.rolled_back()
    with pytest.raises(Refused) as caught:
        ddl.finish(life.procedure, life.catalog)
    return life, EffectFailed(error=caught.value), restores


@case("crossing", "`EffectFailed`: otherwise", "ended: unknown")
def not_crossed():
    return Life(DROP).crossing(), EffectFailed(error=Refused("closed")), told_unknown


@case("rolling back", "`RolledBack`", "restoring")
def rolled_back():
    life = Life(DROP, give_up_ns=GIVE_UP_NS).given_up(2)
    return life, life.rolled_back(2), restores


@case("rolling back", "`EffectFailed`", "ended: unknown")
def not_rolled_back():
    return Life(DROP, give_up_ns=GIVE_UP_NS).given_up(2), EffectFailed(error=Refused("closed")), told_unknown


@case("leaving pending", "`LeftPending`", "ended: COMMITTED_PENDING")
def left_pending():
    life = Life(give_up_ns=GIVE_UP_NS).given_up(2)
    life.base.commit(
        ddl.leave_pending(life.procedure, life.catalog, revision=life.revision, elapsed_ns=30, pending=(2,))
    )
    end = receipt(life.record, life.catalog)
    assert (end.outcome, end.revision, end.pending) == (Outcome.COMMITTED_PENDING, life.revision, (2,))
    log = WriteLog(text="the text: COMMITTED_PENDING after its timeout, (2,) pending")
    return life, LeftPending(), (log, Answer(end=end))


@case("leaving pending", "`EffectFailed`", "ended: unknown")
def not_left_pending():
    return Life(give_up_ns=GIVE_UP_NS).given_up(2), EffectFailed(error=Refused("closed")), told_unknown


@case("restoring", "`BarrierEnded`", "ended: ROLLED_BACK")
def restored():
    life = Life(DROP, give_up_ns=GIVE_UP_NS).restoring()
    end = receipt(life.record, life.catalog)
    assert (end.outcome, end.revision, end.pending) == (Outcome.ROLLED_BACK, None, (2,))
    log = WriteLog(text="the text: ROLLED_BACK after its timeout, (2,) pending")
    return life, BarrierEnded(verdict=proceeded(life.catalog.revision)), (log, Answer(end=end))


@case("closing", "`ReceiptQueued`", "ended: COMMITTED")
def closed():
    life = Life().closing()
    record = ddl.ended(life.record, barrier(life.revision, 1, 2, 3), 30, BOUND_NS)
    log = WriteLog(text=f"the text: revision {life.revision}, 0 ms")
    return life, ReceiptQueued(), (log, Answer(end=receipt(record, life.catalog)))


# ---------------------------------------------------------------- what the cases share


def undecided(statement, **fields):
    whole = Undecided(
        id=ID,
        origin=ORIGIN,
        statement=statement,
        context=CONTEXT,
        term=TERM,
        waited=None,
        settled=LAST_CHANGE,
        give_up_ns=None,
    )
    return msgspec.structs.replace(whole, **fields)


def refused_by_the_timeout(text):
    def expected(life):
        remember, answer = life.effects
        assert remember == Remember(end=answer.end)
        assert (type(answer.end), answer.end.code, answer.end.text) == (Refused, "TIMED_OUT", text)
        return life.effects

    return expected


def told_unknown(life):
    (answer,) = life.effects
    assert type(answer.end) is OutcomeUnknown
    assert answer.end.text == "the statement has begun and can't be ended now: closed"
    return life.effects


def restores(life):
    revision = life.catalog.revision
    return (TouchObjects(claims=life.claims, revision=revision), AwaitBarrier(revision=revision))
