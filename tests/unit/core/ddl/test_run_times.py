"""The times that a receipt tells, what the log says of them, and what the first transaction is decided to be."""

import pytest

from leasehold.core import ddl
from leasehold.core.ddl.decision import Begins, NothingToDo, TooEarly, decide_first_transaction
from leasehold.core.ddl.effects import Answer, QueueReceipt, WriteLog
from leasehold.core.ddl.events import (
    BarrierEnded,
    ContextPrepared,
    Decided,
    ObjectsSettled,
    PointCrossed,
    ProcedureFound,
    ReceiptQueued,
    RevisionFound,
    TakenBack,
    TurnReached,
)
from leasehold.core.ddl.receipts import receipt
from leasehold.core.ddl.run import StatementRun
from leasehold.core.words.records import Outcome, Step, Waited
from leasehold.errors import Refused
from leasehold.ids import Term
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.unit.core.catalog_words import create_database
from tests.unit.core.ddl.lives import (
    BOUND_NS,
    CONTEXT,
    DROP,
    ID,
    LAST_CHANGE,
    ORIGIN,
    STEP_NS,
    TERM,
    Life,
    proceeded,
    timed_out,
)
from tests.unit.core.ddl.transitions import GIVE_UP_NS, VIEW_CLAIM, undecided


def later(life, duration_ns):
    """The next step comes so long after the last one."""
    life.now_ns += duration_ns - STEP_NS
    return life


def test_what_it_waits_for_before_its_time_counts_is_told_apart():
    life = Life().queued()
    later(life, 70).step(TurnReached(at_once=False))
    later(life, 500).step(ObjectsSettled(revision=LAST_CHANGE, verdict=proceeded(LAST_CHANGE, 3, 1), at_once=False))
    assert not life.run.elapsed_ns(life.now_ns)
    later(life, 3).step(ContextPrepared(context=CONTEXT))
    decision = life.decision()
    assert isinstance(decision, Begins)
    life.base.commit(decision.changes)
    assert life.record.waited == Waited(queued_ns=70, settling_ns=500, nodes=(1,))
    assert life.run.elapsed_ns(life.now_ns) == 3


@pytest.mark.parametrize("verdict", [None, proceeded(LAST_CHANGE, 1)])
def test_what_waits_for_nothing_says_so(verdict):
    life = Life().queued()
    life.step(TurnReached(at_once=True))
    life.step(ObjectsSettled(revision=LAST_CHANGE, verdict=verdict, at_once=True))
    life.step(ContextPrepared(context=CONTEXT))
    life.base.commit(life.decision().changes)
    assert life.record.waited is None


def test_what_was_too_early_waits_again_and_its_time_begins_anew():
    life = Life(DROP).settling()
    later(life, 100).step(ObjectsSettled(revision=3, verdict=proceeded(3, 1), at_once=False))
    later(life, 20).step(ContextPrepared(context=CONTEXT))
    later(life, 30).step(Decided(decision=TooEarly(claims=VIEW_CLAIM), revision=5))
    later(life, 400).step(ObjectsSettled(revision=5, verdict=proceeded(5, 2), at_once=False))
    assert life.run.elapsed_ns(life.now_ns) == 0
    life.base.commit(life.decision(last_change=5).changes)
    assert life.record.waited == Waited(settling_ns=500, nodes=(1, 2))


def test_where_the_time_went_of_one_over_its_bound_is_logged():
    life = Life(DROP).deciding()
    later(life, SECOND_NS).step(life.begun())
    later(life, 2 * SECOND_NS).step(BarrierEnded(verdict=proceeded(life.revision, 1)))
    later(life, 3 * SECOND_NS).step(life.crossed())
    done, late, answer = life.step(ReceiptQueued())
    assert done == WriteLog(text=f"the text: revision {life.revision}, 6000 ms")
    assert late == WriteLog(
        text="the text: over its bound of 0 ms: its change was durable after 1000 ms, "
        "its barrier had proceeded after 3000 ms",
        is_warning=True,
    )
    assert answer.end.elapsed_ns == 6 * SECOND_NS + STEP_NS
    assert answer.end.bound_ns == BOUND_NS < MILLISECOND_NS


def test_a_drop_tells_who_has_files_to_delete():
    life = Life(DROP).crossing()
    life.step(life.crossed())
    _, answer = life.step(ReceiptQueued())
    assert answer.end.cleaning == tuple(sorted({node for one in life.catalog.dropped.values() for node in one.pending}))
    assert answer.end.cleaning
    assert life.run.is_closing


def test_a_statement_of_an_earlier_leader_is_measured_from_its_turn_and_by_the_larger_bound():
    life = Life(DROP)
    life.step(life.found())
    assert life.run.elapsed_ns(life.now_ns) == 0
    later(life, 5_000).step(TurnReached(at_once=False))
    later(life, 7).step(RevisionFound(revision=life.revision, bound_ns=2 * BOUND_NS))
    later(life, 20).step(BarrierEnded(verdict=proceeded(life.catalog.revision, 1)))
    later(life, 1).step(BarrierEnded(verdict=proceeded(life.revision, 1)))
    later(life, 2).step(life.crossed())
    _, answer = life.step(ReceiptQueued())
    assert (answer.end.elapsed_ns, answer.end.bound_ns) == (30, 2 * BOUND_NS)
    assert answer.end.revision == life.revision, "that of its first transaction, under whatever leader"
    assert answer.end.waited is None


def test_a_statement_that_is_past_its_point_of_no_return_is_only_closed():
    life = Life(DROP).crossing()
    life.crossed()
    past = life.catalog.procedures[life.procedure.number]
    assert past.step is Step.FINISHED
    life.run = StatementRun(ID, ORIGIN, term=Term(TERM + 1), give_up_ns=None)
    life.step(ProcedureFound(procedure=past, elected=life.catalog.revision))
    life.step(TurnReached(at_once=True))
    life.step(RevisionFound(revision=life.revision, bound_ns=BOUND_NS))
    life.step(BarrierEnded(verdict=proceeded(life.catalog.revision)))
    (effect,) = life.step(BarrierEnded(verdict=proceeded(life.revision)))
    assert isinstance(effect, QueueReceipt)


def test_what_cancel_took_back_is_told_without_a_word_of_a_timeout():
    life = Life(DROP).awaiting()
    life.rolled_back(3)
    life.step(TakenBack())
    assert life.step(BarrierEnded(verdict=proceeded(life.catalog.revision))) == (
        Answer(end=receipt(life.record, life.catalog)),
    )
    assert life.record.outcome is Outcome.ROLLED_BACK
    assert not life.run.is_closing


def test_no_statement_of_an_earlier_leader_has_a_timeout():
    life = Life()
    event = life.found()
    life.run = StatementRun(ID, ORIGIN, term=TERM, give_up_ns=GIVE_UP_NS)
    with pytest.raises(AssertionError, match="no timeout ends"):
        life.step(event)


def test_a_barrier_without_a_timeout_does_not_fail():
    life = Life().catching_up()
    with pytest.raises(AssertionError, match="without a timeout"):
        life.step(BarrierEnded(verdict=timed_out(9, 1)))


# ---------------------------------------------------------------- the decision


def decided(life, one, *, now_ns=0, last_change=0):
    return decide_first_transaction(one, life.catalog, now_ns, bound_ns=BOUND_NS, last_change=lambda _: last_change)


def test_a_statement_begins_with_what_is_published_now():
    life = Life(DROP)
    decision = decided(life, undecided(DROP, waited=Waited(queued_ns=4)))
    assert isinstance(decision, Begins)
    life.base.commit(decision.changes)
    assert (decision.bound_ns, life.record.bound_ns, life.record.term) == (BOUND_NS, BOUND_NS, TERM)
    assert (life.record.text, life.record.text_sha256) == (ORIGIN.text, ORIGIN.text_sha256)
    assert life.record.waited == Waited(queued_ns=4)
    assert decision.procedure == life.catalog.procedures[life.record.order]


def test_what_its_plan_uses_must_not_have_changed_since_it_was_settled():
    life = Life(DROP)
    one = undecided(DROP, settled=5)
    early = decided(life, one, last_change=6)
    assert isinstance(early, TooEarly)
    assert early.claims.keys() == life.claims.keys()
    assert isinstance(decided(life, one, last_change=5), Begins)


def test_nothing_to_do():
    again = create_database(if_not_exists=True)
    assert decided(Life(again), undecided(again), last_change=9) == NothingToDo(bound_ns=BOUND_NS)


@pytest.mark.parametrize(("now_ns", "begins"), [(GIVE_UP_NS - 1, True), (GIVE_UP_NS, False)])
def test_a_timeout_counts_until_the_statement_is_decided(now_ns, begins):
    one = undecided(DROP, give_up_ns=GIVE_UP_NS)
    if begins:
        assert isinstance(decided(Life(DROP), one, now_ns=now_ns), Begins)
        return
    with pytest.raises(Refused) as caught:
        decided(Life(DROP), one, now_ns=now_ns)
    assert caught.value.code == "TIMED_OUT"
    assert caught.value.text == "its timeout passed before it began: what came before it took as long"


def test_what_cancel_takes_back():
    life = Life(DROP)
    with pytest.raises(Refused) as caught:
        ddl.procedure_to_cancel(99, life.catalog)
    assert caught.value.code == "NO_PROCEDURE"
    life.awaiting()
    number = life.procedure.number
    assert ddl.procedure_to_cancel(number, life.catalog) == life.procedure
    life.rolled_back()
    assert ddl.procedure_to_cancel(number, life.catalog) is None, "it has been"


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_cancel_does_not_take_back(is_closed):
    life = Life(DROP).crossing()
    assert isinstance(life.crossed(), PointCrossed)
    if is_closed:
        barrier = proceeded(life.revision).receipt
        life.base.commit(ddl.close(life.procedure, life.catalog, barrier=barrier, elapsed_ns=1))
    with pytest.raises(Refused) as caught:
        ddl.procedure_to_cancel(life.procedure.number, life.catalog)
    assert (caught.value.code, caught.value.text) == ("PAST_RETURN", f"its change is already committed: {ORIGIN.text}")
