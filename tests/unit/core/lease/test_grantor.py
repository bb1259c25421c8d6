"""The grantor, effect by effect: what it answers, what it notes before, and what it never takes for granted."""

import msgspec
import pytest

from leasehold.core.lease.drift import grant_bound_ns
from leasehold.core.lease.grants import (
    AcceptEndReport,
    AcceptSurrender,
    BarrierRequested,
    IncarnationClosed,
    IncarnationJoined,
    MemberEntered,
    MemberLeft,
    Registered,
    RemovalCommitted,
    SettingsChanged,
    registrations,
)
from leasehold.core.words.records import SettledHow
from tests.unit.core.catalog_words import node
from tests.unit.core.grantor_words import (
    ELECTED,
    SEED_BOUND,
    SETTINGS,
    ended,
    granted,
    grantor,
    held,
    other,
    proceeded,
    refused,
    renewal,
    surrender,
)

# ---------------------------------------------------------------- election


def test_every_registered_node_counts_as_granted_at_the_election():
    leader = grantor()
    assert leader.floor == 7
    assert leader.sequence == 0
    assert leader.held(1) == held()
    assert leader.held(2) == held(incarnation=5, session_hash=b"s5")
    assert leader.held(9) is None
    assert leader.next_deadline_ns() is None


@pytest.mark.parametrize(("largest", "bound"), [(0, 4_500), (3_000, 4_500), (3_001, 4_501), (60_000, 61_500)])
def test_the_seed_counts_the_largest_outstanding_duration(largest, bound):
    assert grantor(largest=largest).held(1).bound_ns == bound


def test_the_seed_counts_drift():
    drifting = msgspec.structs.replace(SETTINGS, drift_ppm=10_000)
    assert (
        grantor(settings=drifting).held(1).bound_ns
        == ELECTED + 3_061 + 500
        == ELECTED + grant_bound_ns(drifting, 3_000)
    )


# ---------------------------------------------------------------- granted: renewals


def test_a_renewal_at_the_floor_is_granted_with_a_later_bound():
    leader = grantor()
    assert leader.step(renewal(), 2_000) == (granted(1),)
    assert leader.held(1) == held(5_500, applied=7)
    assert leader.step(other(request=8, applied=9), 2_001) == (granted(2, node=2, request=8),)
    assert leader.step(renewal(request=2, applied=9), 2_002) == (granted(3, request=2),)
    assert leader.held(1) == held(5_502, applied=9)
    assert leader.sequence == 3


def test_a_renewal_below_the_floor_is_refused_with_the_same_bound():
    leader = grantor()
    assert leader.step(renewal(applied=6), 2_000) == (refused("BEHIND", "applied 6, the floor is 7"),)
    assert leader.held(1) == held(applied=6)
    assert leader.sequence == 0


def test_a_bound_never_goes_back():
    leader = grantor(largest=60_000)
    assert leader.step(renewal(), 2_000) == (granted(1),)
    assert leader.held(1) == held(61_500, applied=7)


def test_what_was_reported_never_goes_back():
    leader = grantor()
    leader.step(renewal(request=2, applied=9), 2_000)
    assert leader.step(renewal(request=1, applied=6), 2_001) == (refused("BEHIND", "applied 6, the floor is 7"),)
    assert leader.held(1) == held(5_500, applied=9)


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (renewal(node=9), refused("NOT_JOINED", "incarnation 3 has not joined", node=9)),
        (renewal(incarnation=4), refused("NOT_JOINED", "incarnation 4 has not joined")),
        (renewal(incarnation=2), refused("SUPERSEDED", "incarnation 3 has joined since")),
        (renewal(session="s4"), refused("SUPERSEDED", "incarnation 3 belongs to another session")),
    ],
)
def test_who_is_not_heard_changes_nothing(event, answer):
    leader = grantor()
    assert leader.step(event, 2_000) == (answer,)
    assert leader.held(event.renewal.node) == (held() if event.renewal.node == 1 else None)
    assert leader.sequence == 0


def test_settings_count_for_later_grants_only():
    leader = grantor()
    leader.step(renewal(), 2_000)
    longer = msgspec.structs.replace(SETTINGS, lease_duration_ns=9_000)
    assert leader.step(SettingsChanged(settings=longer), 2_100) == ()
    assert leader.held(1) == held(5_500, applied=7)
    assert leader.step(renewal(request=2), 2_200) == (granted(2, request=2, duration_ns=9_000),)
    assert leader.held(1) == held(11_700, applied=7)
    assert leader.step(SettingsChanged(settings=SETTINGS), 2_300) == ()
    assert leader.step(renewal(request=3), 2_400) == (granted(3, request=3),)
    assert leader.held(1) == held(11_700, applied=7)


def test_a_longer_lease_is_granted_only_to_who_has_applied_the_revision_that_set_it():
    """So that it can't hold up a statement that was begun under the shorter one."""
    leader = grantor()
    leader.step(renewal(), 2_000)
    longer = msgspec.structs.replace(SETTINGS, lease_duration_ns=9_000)
    assert leader.step(SettingsChanged(settings=longer, revision=8), 2_100) == ()
    assert leader.floor == 8
    behind = refused("BEHIND", "applied 7, the floor is 8", request=2)
    assert leader.step(renewal(request=2), 2_200) == (behind,)
    assert leader.held(1) == held(5_500, applied=7)
    answer = granted(2, request=3, duration_ns=9_000, floor=8)
    assert leader.step(renewal(request=3, applied=8), 2_300) == (answer,)
    assert leader.held(1) == held(11_800, applied=8)
    # A statement of revision 8 or before: node 1 holds it up no longer, node 2 only for its older bound.
    leader.step(BarrierRequested(number=1, revision=8), 2_400)
    assert leader.next_deadline_ns() == SEED_BOUND


def test_older_grants_count_until_the_last_of_them_has_ended():
    leader = grantor(largest=9_000)
    shorter = msgspec.structs.replace(SETTINGS, lease_duration_ns=2_000, lease_margin_ns=100)
    assert leader.settings == SETTINGS
    assert leader.older_until_ns == ELECTED + 9_500, "a lease of an older leader"
    assert leader.longest_wait_ns(2_000) == 8_500
    assert leader.longest_wait_ns(20_000) == 3_500
    leader.step(SettingsChanged(settings=shorter, revision=8), 20_000)
    assert leader.settings == shorter
    assert leader.older_until_ns == 23_500, "a lease of this leader, just granted"
    assert leader.longest_wait_ns(20_100) == 3_400
    assert leader.longest_wait_ns(30_000) == 2_100


# ---------------------------------------------------------------- ended, closed, joined, removed


def test_a_surrender_closes():
    leader = grantor()
    leader.step(renewal(), 2_000)
    assert leader.step(surrender(), 2_100) == (AcceptSurrender(),)
    assert leader.held(1) == held(5_500, applied=7, closed=SettledHow.SURRENDERED)
    answer = refused("SUPERSEDED", "incarnation 3 is closed (surrendered)", request=2)
    assert leader.step(renewal(request=2), 2_200) == (answer,)
    # Doubled: accepted again, nothing changes.
    assert leader.step(surrender(), 2_300) == (AcceptSurrender(),)
    assert leader.held(1) == held(5_500, applied=7, closed=SettledHow.SURRENDERED)


@pytest.mark.parametrize(
    "event", [surrender(incarnation=2), surrender(incarnation=4), surrender(session="s4"), surrender(node=9)]
)
def test_a_surrender_of_another_incarnation_or_session_says_nothing(event):
    leader = grantor()
    assert leader.step(event, 2_000) == ()
    assert leader.held(1) == held()


def test_the_report_of_an_end_closes_at_once():
    leader = grantor()
    leader.step(renewal(), 2_000)
    assert leader.step(ended(), 2_100) == (AcceptEndReport(),)
    assert leader.held(1) == held(5_500, applied=7, closed=SettledHow.ENDED)
    # What the process had sent arrives later.
    answer = refused("SUPERSEDED", "incarnation 3 is closed (ended)", request=2)
    assert leader.step(renewal(request=2), 2_200) == (answer,)
    # Doubled: accepted again, nothing changes.
    assert leader.step(ended(), 2_300) == (AcceptEndReport(),)
    assert leader.held(1) == held(5_500, applied=7, closed=SettledHow.ENDED)
    # A join need not wait.
    assert leader.step(IncarnationClosed(node=1, incarnation=3), 2_400) == ()


def test_the_report_of_an_end_after_a_surrender_changes_nothing():
    leader = grantor()
    leader.step(surrender(), 2_000)
    assert leader.step(ended(), 2_100) == (AcceptEndReport(),)
    assert leader.held(1) == held(closed=SettledHow.SURRENDERED)


@pytest.mark.parametrize("event", [ended(incarnation=2), ended(incarnation=4), ended(session="s4"), ended(node=9)])
def test_the_report_of_another_end_says_nothing(event):
    """Of an older or later incarnation, or without the proof of this very process."""
    leader = grantor()
    assert leader.step(event, 2_000) == ()
    assert leader.held(1) == held()


def test_nothing_proves_the_end_of_a_process_that_an_older_leader_let_in():
    leader = grantor(registered={1: Registered(incarnation=3, session_hash=b"s3", member=True)})
    assert leader.step(ended(), 2_000) == ()
    assert leader.held(1).closed is None


def test_a_leader_whose_term_is_over_accepts_no_end_since_the_next_one_has_to_hear_it():
    leader = grantor(leads_until_ns=2_000)
    assert leader.step(ended(), 2_000) == ()
    assert leader.held(1) == held()


def test_a_join_brings_the_hash_of_its_end_proof_along():
    leader = grantor()
    leader.step(surrender(), 2_100)
    leader.step(IncarnationJoined(node=1, incarnation=4, session_hash=b"s4", end_hash=b"e4"), 2_200)
    assert leader.held(1) == held(2_200, incarnation=4, session_hash=b"s4", required=None, known_end=b"e4")
    assert leader.step(ended(), 2_300) == (), "late, of the process before"


def test_a_join_closes_after_the_bound():
    leader = grantor()
    closed = IncarnationClosed(node=1, incarnation=3)
    with pytest.raises(AssertionError, match="a join waits"):
        leader.step(closed, SEED_BOUND - 1)
    assert leader.held(1) == held()
    assert leader.step(closed, SEED_BOUND) == ()
    assert leader.held(1) == held(closed=SettledHow.FENCED)
    answer = refused("SUPERSEDED", "incarnation 3 is closed (fenced)")
    assert leader.step(renewal(), SEED_BOUND) == (answer,)


def test_a_join_need_not_wait_after_a_surrender():
    leader = grantor()
    leader.step(surrender(), 1_100)
    assert leader.step(IncarnationClosed(node=1, incarnation=3), 1_200) == ()
    assert leader.held(1) == held(closed=SettledHow.SURRENDERED)


@pytest.mark.parametrize("incarnation", [2, 4])
def test_only_the_newest_incarnation_is_closed_by_a_join(incarnation):
    leader = grantor()
    with pytest.raises(AssertionError, match="newest"):
        leader.step(IncarnationClosed(node=1, incarnation=incarnation), 10_000)
    assert leader.held(1) == held()


def test_a_join_starts_with_a_clean_record():
    leader = grantor()
    leader.step(renewal(applied=9), 2_000)
    leader.step(surrender(), 2_100)
    joined = IncarnationJoined(node=1, incarnation=4, session_hash=b"s4")
    assert leader.step(joined, 2_200) == ()
    assert leader.held(1) == held(2_200, incarnation=4, session_hash=b"s4", required=None, known_end=b"")
    assert leader.step(renewal(), 2_300) == (refused("SUPERSEDED", "incarnation 4 has joined since"),)
    assert leader.step(surrender(), 2_300) == ()
    leader.step(MemberEntered(node=1, incarnation=4, required=7), 2_350)
    assert leader.step(renewal(incarnation=4, session="s4"), 2_400) == (granted(2),)


def test_a_node_joins_for_the_first_time():
    leader = grantor()
    assert leader.step(IncarnationJoined(node=9, incarnation=1, session_hash=b"s1"), 2_000) == ()
    assert leader.held(9) == held(2_000, incarnation=1, session_hash=b"s1", required=None, known_end=b"")


# ---------------------------------------------------------------- the logical topology


def test_a_node_that_is_no_member_gets_no_grant_whatever_it_has_applied():
    leader = grantor(registered={1: Registered(incarnation=3, session_hash=b"s3", member=False)})
    answer = leader.step(renewal(applied=9), 2_000)
    assert answer == (refused("RECOVERING", "incarnation 3 is not in the logical topology"),)
    assert leader.held(1) == held(applied=9, required=None, known_end=b"")
    assert not leader.held(1).admitted


def test_a_member_gets_a_grant_once_it_has_applied_what_was_required_of_it():
    leader = grantor(registered={1: Registered(incarnation=3, session_hash=b"s3", member=False)})
    assert leader.step(MemberEntered(node=1, incarnation=3, required=9), 2_000) == ()
    assert leader.step(renewal(applied=8), 2_100) == (refused("RECOVERING", "applied 8, 9 was required"),)
    assert leader.step(renewal(applied=9), 2_200) == (granted(1),)
    assert leader.held(1).admitted


def test_whoever_leaves_gets_no_grant_any_more_and_keeps_the_bound_it_had():
    leader = grantor()
    leader.step(renewal(), 2_000)
    before = leader.held(1)
    assert leader.step(MemberLeft(node=1, incarnation=3), 2_100) == ()
    assert leader.held(1) == msgspec.structs.replace(before, required=None)
    assert leader.step(renewal(), 2_200) == (refused("RECOVERING", "incarnation 3 is not in the logical topology"),)
    assert leader.held(1).bound_ns == before.bound_ns


@pytest.mark.parametrize("event", [MemberEntered(node=1, incarnation=2, required=7), MemberLeft(node=1, incarnation=2)])
def test_what_concerns_another_incarnation_changes_nothing(event):
    leader = grantor()
    assert leader.step(event, 2_000) == ()
    assert leader.held(1) == held()


def test_a_barrier_waits_for_one_that_recovers_only_while_it_may_hold_a_lease_and_hears_its_reports():
    leader = grantor()
    leader.step(other(), 2_000)
    leader.step(MemberLeft(node=2, incarnation=5), 2_000)
    leader.step(surrender(), 2_000)
    leader.step(BarrierRequested(number=1, revision=8), 2_000)
    (refusal, verdict) = leader.step(other(applied=8), 2_100)
    assert refusal == refused("RECOVERING", "incarnation 5 is not in the logical topology", node=2)
    assert verdict == proceeded(1, 8, (2, SettledHow.APPLIED, 100), sequence=1)


def test_removed_nodes_are_not_registered_any_more():
    nodes = [node(1, session_hash=b"s", member=True, end_hash=b"e"), node(2, removed=True)]
    assert registrations(nodes) == {1: Registered(incarnation=1, session_hash=b"s", member=True, end_hash=b"e")}


# ---------------------------------------------------------------- joins that are illegal, and removal


@pytest.mark.parametrize(("incarnation", "why"), [(3, "INV-ID-2"), (2, "INV-ID-2"), (4, "one live session")])
def test_joins_that_are_illegal_change_nothing(incarnation, why):
    leader = grantor()
    with pytest.raises(AssertionError, match=why):
        leader.step(IncarnationJoined(node=1, incarnation=incarnation, session_hash=b"s4"), 10_000)
    assert leader.held(1) == held()


def test_removal_waits_for_the_lease_to_end():
    leader = grantor()
    with pytest.raises(AssertionError, match="removal waits"):
        leader.step(RemovalCommitted(node=1), SEED_BOUND - 1)
    assert leader.held(1) == held()
    assert leader.step(RemovalCommitted(node=1), SEED_BOUND) == ()
    assert leader.held(1) is None
    assert leader.step(renewal(), SEED_BOUND) == (refused("NOT_JOINED", "incarnation 3 has not joined"),)
