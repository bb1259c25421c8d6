"""Whom to ask next: another replica as well while one is silent, bounded by a budget, and an end in time."""

from contextlib import nullcontext

from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.data.hedging import Ask, GiveUp, HedgeStep, Hedging, Patience, Pause, Wait
from leasehold.ids import NodeId
from leasehold.limits.clients import (
    HEDGE_BURST,
    HEDGE_BYTES_PER_SECOND,
    HEDGE_DELAY_MAX_NS,
    HEDGE_DELAY_MIN_NS,
    HEDGE_DEVIATIONS,
    HEDGE_EVERY,
)
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.few import examples

DELAY, GIVE_UP, PAUSE = 100, 10_000, 50


def hedging(*nodes: int) -> Hedging:
    return Hedging(tuple(NodeId(one) for one in nodes or (3, 1, 2)), give_up_ns=GIVE_UP, pause_ns=PAUSE)


def move(one: Hedging, now: int, *, may_hedge: bool = True) -> HedgeStep:
    return one.move(now, delay_ns=DELAY, may_hedge=may_hedge)


def test_a_silent_replica_is_not_waited_for_alone():
    one = hedging()
    assert move(one, 0) == Ask(node=NodeId(3))
    assert move(one, DELAY - 1) == Wait(until_ns=DELAY)
    assert move(one, DELAY) == Ask(node=NodeId(1), also=True)
    assert move(one, DELAY + 1) == Wait(until_ns=2 * DELAY), "the second one has its own delay"
    assert move(one, 2 * DELAY) == Ask(node=NodeId(2), also=True)
    assert move(one, 9 * DELAY) == Wait(until_ns=10 * DELAY), "all are asked"


def test_the_first_answer_overtakes_the_others_and_they_come_last():
    one = hedging()
    move(one, 0)
    move(one, DELAY)
    assert one.heard(NodeId(1), DELAY + 5) == (3,)
    assert not one.is_asked(NodeId(3))
    assert move(one, DELAY + 6) == Wait(until_ns=2 * DELAY + 5)
    again = move(one, 2 * DELAY + 5)
    assert again == Ask(node=NodeId(2), also=True), "the one that was overtaken is asked after the others"


def test_a_slow_replica_comes_after_the_others_without_a_pause():
    one = hedging(3, 1)
    move(one, 0)
    one.heard(NodeId(3), 1)
    one.was_slow(NodeId(3))
    assert move(one, DELAY) == Ask(node=NodeId(1))
    one.was_slow(NodeId(1))
    assert move(one, 2 * DELAY) == Ask(node=NodeId(3))


def test_the_one_that_was_asked_first_may_still_win():
    one = hedging()
    move(one, 0)
    move(one, DELAY)
    assert one.heard(NodeId(3), 5 * DELAY) == (1,)
    assert one.is_asked(NodeId(3))


def test_without_a_budget_it_waits():
    one = hedging()
    move(one, 0)
    assert move(one, 7 * DELAY, may_hedge=False) == Wait(until_ns=8 * DELAY)
    assert move(one, 8 * DELAY) == Ask(node=NodeId(1), also=True)


def test_work_that_goes_on_is_no_silence():
    one = hedging()
    move(one, 0)
    one.progressed(NodeId(3), DELAY - 1)
    one.progressed(NodeId(1), DELAY - 1)
    assert move(one, DELAY) == Wait(until_ns=2 * DELAY - 1)
    assert not one.is_asked(NodeId(1))


def test_after_a_failure_the_next_is_asked_at_once_and_after_a_round_a_pause():
    one = hedging(3, 1)
    move(one, 0)
    one.failed(NodeId(3))
    assert move(one, 1) == Ask(node=NodeId(1))
    one.failed(NodeId(1))
    assert move(one, 2) == Pause(until_ns=2 + PAUSE)
    assert move(one, 60) == Ask(node=NodeId(3))
    one.heard(NodeId(3), 61)
    one.ended(NodeId(3))
    assert move(one, 62) == Ask(node=NodeId(3)), "its answer ended without a fault"


def test_a_failed_replica_is_not_asked_as_well_in_the_same_round():
    one = hedging(3, 1)
    move(one, 0)
    one.failed(NodeId(3))
    move(one, 0)
    assert move(one, 5 * DELAY) == Wait(until_ns=6 * DELAY)


def test_it_gives_up_so_long_after_the_first_failure():
    one = hedging(3)
    move(one, 0)
    one.failed(NodeId(3))
    assert isinstance(move(one, 3 * GIVE_UP), Pause)
    assert move(one, 3 * GIVE_UP + 1) == Ask(node=NodeId(3))
    one.failed(NodeId(3))
    assert move(one, 4 * GIVE_UP) == GiveUp()
    assert hedging().move(0, delay_ns=1, may_hedge=True) == Ask(node=NodeId(3))
    assert Hedging((), give_up_ns=1, pause_ns=1).move(0, delay_ns=1, may_hedge=True) == GiveUp()


def test_the_delay_follows_how_long_answers_take_and_how_much_is_asked_for():
    one = Patience(nullcontext())
    assert one.delay_ns() == HEDGE_DELAY_MAX_NS
    assert one.delay_ns(HEDGE_BYTES_PER_SECOND) == HEDGE_DELAY_MAX_NS + SECOND_NS
    one.answered(HEDGE_DELAY_MIN_NS)
    first_ns = HEDGE_DELAY_MIN_NS + HEDGE_DEVIATIONS * HEDGE_DELAY_MIN_NS // 2
    assert one.delay_ns() == first_ns, "the first answer tells how fast the cluster is"
    for _ in range(40):
        one.answered(0)
    assert one.delay_ns() == HEDGE_DELAY_MIN_NS
    one.answered(2 * HEDGE_DELAY_MIN_NS)
    assert one.delay_ns() <= 3 * HEDGE_DELAY_MIN_NS, "one slow answer is not yet what is usual"
    for _ in range(20):
        one.answered(60 * SECOND_NS)
    assert one.delay_ns() == HEDGE_DELAY_MAX_NS
    for _ in range(1_000):
        one.answered(0)
    assert one.delay_ns() == HEDGE_DELAY_MIN_NS


def test_answers_that_always_take_about_as_long_are_soon_late():
    """Appends on a loaded machine, as they were measured: half of them take 56 ms, one in twenty over 88 ms."""
    one = Patience(nullcontext())
    for _ in range(40):
        for took_ms in (56, 49, 88, 43, 61):
            one.answered(took_ms * MILLISECOND_NS)
    assert 88 * MILLISECOND_NS < one.delay_ns() < 150 * MILLISECOND_NS


def test_answers_that_differ_much_are_waited_for():
    one = Patience(nullcontext())
    for _ in range(40):
        for took_ms in (20, 200, 20, 20):
            one.answered(took_ms * MILLISECOND_NS)
    assert one.delay_ns() > 200 * MILLISECOND_NS


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.booleans(), max_size=400))
def test_a_cluster_that_is_slow_throughout_gets_few_requests_more(wants: list[bool]) -> None:
    """However slow all answers are: one hedge for HEDGE_EVERY requests, beside the first HEDGE_BURST."""
    one, requests, hedges = Patience(nullcontext()), 0, 0
    for want in [*wants, *[True] * 200]:
        if want and one.may_hedge:
            one.asked(also=True)
            hedges += 1
        else:
            one.asked(also=False)
            requests += 1
    assert hedges <= HEDGE_BURST + requests / HEDGE_EVERY + 1
