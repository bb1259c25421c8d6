"""What a leader lets be forgotten, by age and by number, and what holds it back."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.recovery.retention import Retention
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS, RETENTION_HOLD_NS, RETENTION_SAMPLES_MAX
from leasehold.limits.units import SECOND_NS
from tests.unit.core.catalog_words import SETTINGS

HOUR = 3600 * SECOND_NS
BEGAN = 7 * SECOND_NS
SETTLED = BEGAN + RETENTION_HOLD_NS
"""From here on it is known what nodes hold."""


def kept(*, retention_ns=HOUR, revisions=1_000_000):
    return msgspec.structs.replace(SETTINGS, retention_ns=retention_ns, retention_revisions=revisions)


def sampled(*samples, how=None):
    retention = Retention(BEGAN)
    for now_ns, newest in samples:
        retention.sample(newest, how or kept(), now_ns)
    return retention


def test_a_new_leader_forgets_nothing_until_the_holds_of_the_old_one_have_run_out():
    retention = sampled((BEGAN, 500))
    few = kept(revisions=100)
    assert retention.allowed(900, few, SETTLED - 1) == 1
    assert retention.allowed(900, few, SETTLED) == 800


def test_what_is_older_than_the_retention_goes():
    retention = sampled((BEGAN, 10), (BEGAN + 60 * SECOND_NS, 40), (BEGAN + 120 * SECOND_NS, 70))
    assert retention.allowed(90, kept(), BEGAN + HOUR - 1) == 1
    assert retention.allowed(90, kept(), BEGAN + HOUR) == 10
    assert retention.allowed(90, kept(), BEGAN + HOUR + 60 * SECOND_NS - 1) == 10
    assert retention.allowed(90, kept(), BEGAN + HOUR + 60 * SECOND_NS) == 40
    assert retention.allowed(90, kept(), BEGAN + 2 * HOUR) == 70


def test_more_than_so_many_are_never_kept_without_a_hold():
    retention = sampled((BEGAN, 10))
    assert retention.allowed(5_000, kept(revisions=100), SETTLED) == 4_900
    retention.hold(3, 4_000, SETTLED)
    assert retention.allowed(5_000, kept(revisions=100), SETTLED) == 4_000


def test_a_hold_ends_by_itself_unless_pages_renew_it():
    retention = sampled((BEGAN, 10))
    few = kept(revisions=100)
    retention.hold(3, 4_000, SETTLED)
    retention.renew(3, SETTLED + 5)
    assert retention.allowed(5_000, few, SETTLED + RETENTION_HOLD_NS + 4) == 4_000
    assert retention.allowed(5_000, few, SETTLED + RETENTION_HOLD_NS + 5) == 4_900
    retention.renew(3, SETTLED + RETENTION_HOLD_NS + 6)
    assert retention.held(3) is None, "what has ended is not renewed"


def test_the_session_behind_a_snapshot_takes_the_hold_over_until_it_has_delivered_what_there_was():
    retention = sampled((BEGAN, 10))
    few = kept(revisions=100)
    retention.hold(3, 4_000, SETTLED)
    retention.followed(3, 3_500, 5_000, SETTLED)
    retention.delivered(3, 5_000, SETTLED)
    assert retention.allowed(9_000, few, SETTLED) == 4_000, "a session from before the snapshot changes nothing"
    retention.followed(3, 4_001, 5_000, SETTLED)
    retention.delivered(3, 4_600, SETTLED)
    assert retention.allowed(9_000, few, SETTLED) == 4_600, "it holds no more than it has still to deliver"
    retention.delivered(3, 5_000, SETTLED)
    assert retention.allowed(9_000, few, SETTLED) == 8_900


def test_a_session_with_nothing_to_deliver_needs_no_hold():
    retention = sampled((BEGAN, 10))
    retention.hold(3, 4_000, SETTLED)
    retention.followed(3, 4_001, 4_000, SETTLED)
    assert retention.held(3) is None


def test_a_session_without_a_hold_makes_none():
    retention = sampled((BEGAN, 10))
    retention.followed(3, 100, 4_000, SETTLED)
    retention.delivered(3, 200, SETTLED)
    assert retention.held(3) is None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=300),
    st.sampled_from([30 * SECOND_NS, 600 * SECOND_NS, 30 * 24 * HOUR]),
)
def test_nothing_younger_than_the_retention_goes_and_what_is_remembered_is_bounded(steps, retention_ns):
    """Each step some revisions are made, then a leader looks."""
    how = kept(retention_ns=retention_ns)
    retention = Retention(BEGAN)
    now_ns, newest, made = BEGAN, 1, {1: BEGAN}
    for intervals, revisions in steps:
        now_ns += intervals * COMPACTION_INTERVAL_NS
        for _ in range(revisions):
            newest += 1
            made[newest] = now_ns
        retention.sample(newest, how, now_ns)
        before = retention.allowed(newest, how, now_ns)
        assert before <= newest
        assert all(made[one] <= now_ns - retention_ns for one in range(1, before))


def test_a_longer_retention_is_remembered_in_wider_steps():
    retention = Retention(BEGAN)
    for turn in range(5 * RETENTION_SAMPLES_MAX):
        how = kept(retention_ns=SECOND_NS if turn < RETENTION_SAMPLES_MAX else HOUR)
        retention.sample(turn + 1, how, BEGAN + turn * COMPACTION_INTERVAL_NS)
    newest, early = 5 * RETENTION_SAMPLES_MAX, 100
    at_ns = BEGAN + HOUR + early * COMPACTION_INTERVAL_NS
    assert early // 2 < retention.allowed(newest, how, at_ns) <= early + 1, "what is oldest is remembered too"
