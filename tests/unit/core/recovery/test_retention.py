"""What a leader lets be forgotten, by age and by number, and what holds it back."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.recovery.retention import Retention
from leasehold.limits.metastorage import COMPACTION_INTERVAL_NS, RETENTION_HOLD_NS, RETENTION_SAMPLES_MAX
from leasehold.limits.units import SECOND_NS
from tests.few import examples
from tests.unit.core.catalog_words import SETTINGS

HOUR = 3600 * SECOND_NS
BEGAN = 7 * SECOND_NS
SETTLED = BEGAN + RETENTION_HOLD_NS
"""From here on it is known what nodes hold."""


def kept(*, retention_ns=HOUR, revisions=1_000_000, size_bytes=1 << 40):
    return msgspec.structs.replace(
        SETTINGS, retention_ns=retention_ns, retention_revisions=revisions, retention_bytes=size_bytes
    )


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


def written(retention, how, revisions, *, size_bytes=100, first=1):
    """A revision of that size each second, and a look at each."""
    for revision in range(first, first + revisions):
        retention.wrote(size_bytes)
        retention.sample(revision, how, BEGAN + revision * SECOND_NS)


def test_more_bytes_than_so_many_are_never_kept_without_a_hold():
    how = kept(size_bytes=2_000)
    retention = Retention(BEGAN)
    written(retention, how, 100)
    assert retention.allowed(100, how, SETTLED - 1) == 1
    assert retention.allowed(100, how, SETTLED) == 80
    retention.hold(3, 50, SETTLED)
    assert retention.allowed(100, how, SETTLED) == 50
    written(retention, how, 1, first=101, size_bytes=1_950)
    assert retention.allowed(101, how, SETTLED + RETENTION_HOLD_NS) == 100
    assert retention.allowed(101, kept(size_bytes=10_000), SETTLED + RETENTION_HOLD_NS) == 100, "what went is gone"


def test_a_revision_larger_than_all_that_is_kept_leaves_itself_readable():
    how = kept(size_bytes=2_000)
    retention = Retention(BEGAN)
    written(retention, how, 3, size_bytes=2_001)
    assert retention.allowed(3, how, SETTLED) == 3


def test_what_a_leader_found_counts_as_if_its_revisions_were_of_one_size():
    how = kept(size_bytes=2_000)
    retention = Retention(BEGAN)
    retention.sample(1_000, how, BEGAN)
    retention.wrote(100)
    retention.sample(1_001, how, BEGAN + SECOND_NS)
    retention.found(200, 1_700)  # 100 of them above revision 1,000
    assert retention.allowed(1_001, how, SETTLED) == 1, "1,700 of 2,000"
    retention.wrote(300)
    retention.sample(1_002, how, BEGAN + 2 * SECOND_NS)
    assert retention.allowed(1_002, how, SETTLED) == 1, "2,000 of 2,000"
    retention.wrote(1)
    retention.sample(1_003, how, BEGAN + 3 * SECOND_NS)
    assert retention.allowed(1_003, how, SETTLED) == 250, "a sixteenth of what was found goes"
    retention.wrote(1_599)
    retention.sample(1_004, how, BEGAN + 4 * SECOND_NS)
    assert retention.allowed(1_004, how, SETTLED) == 1_000


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.booleans()), min_size=1, max_size=300), st.integers(1, 5_000))
def test_what_is_kept_is_at_most_so_many_bytes(steps, size_bytes):
    how = kept(size_bytes=size_bytes)
    retention = Retention(BEGAN - RETENTION_HOLD_NS)
    retention.sample(1, how, BEGAN)
    retention.found(1, 0)
    above, now_ns = [0, 0], BEGAN
    for written_bytes, looks in steps:
        retention.wrote(written_bytes)
        above.append(written_bytes)
        if looks:
            now_ns += SECOND_NS
            newest = len(above) - 1
            retention.sample(newest, how, now_ns)
            assert sum(above[retention.allowed(newest, how, now_ns) + 1 :]) <= size_bytes


def test_a_hold_ends_by_itself_unless_pages_renew_it():
    retention = sampled((BEGAN, 10))
    few = kept(revisions=100)
    retention.hold(3, 4_000, SETTLED)
    retention.renew(3, SETTLED + 5)
    assert retention.allowed(5_000, few, SETTLED + RETENTION_HOLD_NS + 4) == 4_000
    assert retention.allowed(5_000, few, SETTLED + RETENTION_HOLD_NS + 5) == 4_900
    retention.renew(3, SETTLED + RETENTION_HOLD_NS + 6)
    assert retention.allowed(5_000, few, SETTLED + RETENTION_HOLD_NS + 6) == 4_900, "what has ended is not renewed"


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
    assert retention.allowed(5_000, kept(revisions=100), SETTLED) == 4_900


def test_a_session_without_a_hold_makes_none():
    retention = sampled((BEGAN, 10))
    retention.followed(3, 100, 4_000, SETTLED)
    retention.delivered(3, 200, SETTLED)
    assert retention.allowed(5_000, kept(revisions=100), SETTLED) == 4_900


@settings(max_examples=examples(100), deadline=None)
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
