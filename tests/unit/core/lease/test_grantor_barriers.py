"""The grantor's barriers and its leadership, effect by effect."""

import pytest

from leasehold.core.lease.barrier import Fail, KeepWaiting
from leasehold.core.lease.grants import (
    AcceptEndReport,
    AcceptSurrender,
    BarrierRequested,
    IncarnationClosed,
    IncarnationJoined,
    LeadershipExtended,
    MemberEntered,
    RemovalCommitted,
    ReportVerdict,
)
from leasehold.core.words.records import SettledHow
from leasehold.core.words.time_passed import TimePassed
from tests.unit.core.grantor_words import (
    SEED_BOUND,
    both_settled,
    ended,
    granted,
    grantor,
    held,
    member,
    other,
    proceeded,
    refused,
    renewal,
    surrender,
)

# ---------------------------------------------------------------- barriers


def test_a_barrier_raises_the_floor_and_waits_for_reports():
    leader = grantor()
    both_settled(leader, 2_000)
    assert leader.step(BarrierRequested(number=1, revision=8), 2_100) == ()
    assert leader.floor == 8
    assert leader.verdict(1, 2_100) == KeepWaiting(pending=(1, 2), until_ns=5_500)
    assert leader.next_deadline_ns() == 5_500
    assert leader.step(renewal(request=2), 2_200) == (refused("BEHIND", "applied 7, the floor is 8", request=2),)
    assert leader.step(renewal(request=3, applied=8), 2_300) == (granted(3, request=3, floor=8),)
    assert leader.verdict(1, 2_300) == KeepWaiting(pending=(2,), until_ns=5_500)
    verdict = proceeded(1, 8, (1, SettledHow.APPLIED, 200), (2, SettledHow.APPLIED, 300), sequence=2)
    assert leader.step(other(applied=8), 2_400) == (granted(4, node=2, floor=8), verdict)
    assert leader.next_deadline_ns() is None


def test_barriers_run_side_by_side_on_frozen_bounds():
    leader = grantor()
    both_settled(leader, 2_000)
    leader.step(BarrierRequested(number=1, revision=8), 2_100)
    leader.step(BarrierRequested(number=2, revision=9), 2_100)
    # Too far behind for a grant, far enough for the older barrier.
    answer = refused("BEHIND", "applied 8, the floor is 9", request=2)
    assert leader.step(renewal(request=2, applied=8), 4_000) == (answer,)
    assert leader.verdict(1, 4_000) == KeepWaiting(pending=(2,), until_ns=5_500)
    assert leader.verdict(2, 4_000) == KeepWaiting(pending=(1, 2), until_ns=5_500)
    assert leader.step(other(request=2, applied=9), 4_100) == (
        granted(3, node=2, request=2, floor=9),
        proceeded(1, 8, (1, SettledHow.APPLIED, 1_900), (2, SettledHow.APPLIED, 2_000), sequence=2),
    )
    # The new grant has moved node 2's bound, and holds nothing up.
    assert leader.held(2).bound_ns == 7_600
    verdict = proceeded(2, 9, (2, SettledHow.APPLIED, 2_000), (1, SettledHow.FENCED, 3_400), sequence=2)
    assert leader.step(TimePassed(), 5_500) == (verdict,)


def test_nodes_that_say_nothing_are_fenced_when_their_bounds_pass():
    leader = grantor()
    leader.step(renewal(), 2_000)
    assert leader.step(BarrierRequested(number=1, revision=8), 2_100) == ()
    assert leader.next_deadline_ns() == SEED_BOUND
    assert leader.step(TimePassed(), SEED_BOUND) == ()
    assert leader.next_deadline_ns() == 5_500
    verdict = proceeded(1, 8, (2, SettledHow.FENCED, 2_400), (1, SettledHow.FENCED, 3_400), sequence=1)
    assert leader.step(TimePassed(), 5_500) == (verdict,)


def test_what_was_reported_before_the_barrier_counts():
    leader = grantor()
    both_settled(leader, 2_000, revision=8)
    verdict = proceeded(1, 8, (1, SettledHow.APPLIED, 0), (2, SettledHow.APPLIED, 0), sequence=2)
    assert leader.step(BarrierRequested(number=1, revision=8), 2_100) == (verdict,)


def test_a_closed_incarnation_is_not_waited_for():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(surrender(), 2_000)
    assert leader.step(BarrierRequested(number=1, revision=8), 2_100) == (proceeded(1, 8),)


def test_a_surrender_settles():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    verdict = proceeded(1, 8, (1, SettledHow.SURRENDERED, 100))
    assert leader.step(surrender(), 2_100) == (AcceptSurrender(), verdict)


def test_the_report_of_an_end_settles():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    verdict = proceeded(1, 8, (1, SettledHow.ENDED, 100))
    assert leader.step(ended(), 2_100) == (AcceptEndReport(), verdict)


@pytest.mark.parametrize(
    ("event", "how"),
    [(IncarnationClosed(node=1, incarnation=3), SettledHow.FENCED), (RemovalCommitted(node=1), SettledHow.REMOVED)],
)
def test_closing_and_removing_settle(event, how):
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    assert leader.step(event, SEED_BOUND) == (proceeded(1, 8, (1, how, 2_500)),)


def test_an_older_incarnation_settles_nobody():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    for event in (
        renewal(incarnation=2, applied=8),
        renewal(session="s9", applied=8),
        surrender(incarnation=2),
        ended(incarnation=2),
    ):
        leader.step(event, 2_100)
        assert leader.verdict(1, 2_100) == KeepWaiting(pending=(1,), until_ns=SEED_BOUND)


def test_whoever_joins_later_is_not_waited_for_and_needs_the_floor():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    leader.step(IncarnationJoined(node=9, incarnation=1, session_hash=b"s1"), 2_100)
    assert leader.verdict(1, 2_100) == KeepWaiting(pending=(1,), until_ns=SEED_BOUND)
    leader.step(MemberEntered(node=9, incarnation=1, required=7), 2_150)
    answer = leader.step(renewal(node=9, incarnation=1, session="s1"), 2_200)
    assert answer == (refused("BEHIND", "applied 7, the floor is 8", node=9),)


def test_a_barrier_of_an_older_revision_does_not_lower_the_floor():
    leader = grantor()
    leader.step(BarrierRequested(number=1, revision=9), 2_000)
    leader.step(BarrierRequested(number=2, revision=8), 2_000)
    assert leader.floor == 9


def test_a_barrier_number_is_used_once():
    leader = grantor()
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    with pytest.raises(AssertionError):
        leader.step(BarrierRequested(number=1, revision=9), 2_000)
    assert leader.floor == 8


def test_giving_up_leaves_the_floor():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8, give_up_ns=3_000), 2_000)
    assert leader.next_deadline_ns() == 3_000
    failed = ReportVerdict(number=1, verdict=Fail(pending=(1,)))
    assert leader.step(TimePassed(), 3_000) == (failed,)
    assert leader.floor == 8
    assert leader.step(TimePassed(), 10_000) == ()


def test_a_verdict_that_was_looked_at_is_still_reported():
    leader = grantor(registered={1: member(3, b"s3")})
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    verdict = proceeded(1, 8, (1, SettledHow.FENCED, 2_500))
    assert leader.verdict(1, SEED_BOUND) == verdict.verdict
    due_ns = leader.next_deadline_ns()
    assert due_ns is not None
    assert due_ns <= SEED_BOUND
    assert leader.step(TimePassed(), SEED_BOUND) == (verdict,)


# ---------------------------------------------------------------- leadership


def test_a_leader_grants_up_to_its_deadline_and_not_at_it():
    leader = grantor(leads_until_ns=3_000)
    assert leader.step(renewal(), 2_999) == (granted(1),)
    answer = refused("NOT_LEADER", "the leadership of term 4 has ended", request=2)
    assert leader.step(renewal(request=2, applied=9), 3_000) == (answer,)
    assert leader.held(1) == held(6_499, applied=7)
    assert leader.sequence == 1


def test_a_leadership_is_extended_only_while_it_lasts():
    leader = grantor(leads_until_ns=3_000)
    assert leader.step(LeadershipExtended(until_ns=5_000), 2_999) == ()
    assert leader.step(renewal(), 4_999) == (granted(1),)
    assert leader.step(LeadershipExtended(until_ns=9_000), 5_000) == (), "over for good"
    answer = refused("NOT_LEADER", "the leadership of term 4 has ended")
    assert leader.step(renewal(), 5_001) == (answer,)


def test_a_leadership_held_by_a_lock_has_no_deadline():
    leader = grantor(leads_until_ns=3_000)
    leader.step(LeadershipExtended(until_ns=None), 2_999)
    assert leader.step(renewal(), 10**15) == (granted(1),)


@pytest.mark.parametrize(
    "event", [TimePassed(), surrender(), RemovalCommitted(node=1), IncarnationClosed(node=1, incarnation=3)]
)
def test_an_ended_leadership_lets_no_barrier_proceed_and_asks_for_no_timer(event):
    leader = grantor(registered={1: member(3, b"s3")}, leads_until_ns=4_000)
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    effects = leader.step(event, SEED_BOUND)
    assert effects == ((AcceptSurrender(),) if event == surrender() else ())
    assert leader.next_deadline_ns() is None
    assert isinstance(leader.verdict(1, SEED_BOUND + 1), KeepWaiting)
    assert leader.step(TimePassed(), 10**9) == ()
