"""Reading one segment from several replicas: no row lost or doubled, nothing stale taken, an end in time."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.messages import BatchMark
from leasehold.core.scan import Ask, Done, GiveUp, Pause, SegmentReading
from leasehold.limits import SCAN_GIVE_UP_NS, SCAN_PAUSE_NS
from tests.unit.core.test_replication import segment

SEEN = 7


def reading(rows=10, holders=(3, 1), now=0):
    return SegmentReading(msgspec.structs.replace(segment(1, *holders), rows=rows), seen=SEEN, now_ns=now)


def mark(next_row, revision=SEEN):
    return BatchMark(next_row=next_row, view_revision=revision, term=1, sequence=1)


def test_rows_are_asked_for_from_where_the_last_batch_ended():
    one = reading()
    assert one.move(0) == Ask(node=3, row=0)
    assert one.received(mark(4), 4, 1)
    assert one.move(1) == Ask(node=3, row=4)
    assert one.received(mark(10), 6, 2)
    assert one.move(2) == Done()


def test_a_batch_may_stand_for_more_rows_than_it_has():
    one = reading()
    assert one.received(mark(6), 2, 0), "some had expired"
    assert one.received(mark(10), 0, 0)
    assert one.move(0) == Done()


def test_a_segment_without_rows_is_read_already():
    assert reading(rows=0).move(0) == Done()


def test_the_next_replica_is_asked_at_once_and_after_a_round_a_pause():
    one = reading()
    one.failed(3, "fenced")
    assert one.move(5) == Ask(node=1, row=0)
    one.failed(1, "unreachable")
    assert one.move(6) == Pause(until_ns=6 + SCAN_PAUSE_NS)
    assert one.move(6 + SCAN_PAUSE_NS) == Ask(node=3, row=0)
    one.failed(3, "fenced")
    assert one.move(7) == Ask(node=1, row=0)


def test_a_batch_authorised_on_too_old_a_view_is_thrown_away_and_so_is_all_that_follows_on_that_stream():
    one = reading()
    assert one.received(mark(2), 2, 0)
    assert not one.received(mark(4, SEEN - 1), 2, 0)
    assert not one.received(mark(6, SEEN), 2, 0), "rows 2 and 3 would be missing"
    one.failed(3, "stale")
    assert one.move(0) == Ask(node=1, row=2)
    assert one.received(mark(4), 2, 0)


def test_it_gives_up_so_long_after_the_first_failure_and_says_why():
    one = reading()
    one.failed(3, "fenced")
    assert one.move(100) == Ask(node=1, row=0)
    one.failed(1, "connection refused")
    assert isinstance(one.move(100 + SCAN_GIVE_UP_NS - 1), Pause)
    assert one.move(100 + SCAN_GIVE_UP_NS) == GiveUp(reasons=((1, "connection refused"), (3, "fenced")))


def test_a_consumer_that_took_its_time_does_not_count_as_a_replica_that_failed():
    one = reading()
    assert one.received(mark(2), 2, 0)
    late = 2 * SCAN_GIVE_UP_NS
    one.failed(3, "fenced meanwhile")
    assert one.move(late) == Ask(node=1, row=2)
    assert one.move(late + SCAN_GIVE_UP_NS - 1) == Ask(node=1, row=2)
    assert isinstance(one.move(late + SCAN_GIVE_UP_NS), GiveUp)


def test_only_progress_starts_the_count_anew():
    one = reading()
    one.failed(3, "broke off")
    one.move(0)
    assert one.received(mark(0), 0, SCAN_GIVE_UP_NS - 1), "an empty batch is harmless"
    one.failed(1, "broke off")
    assert isinstance(one.move(SCAN_GIVE_UP_NS), GiveUp)
    assert one.received(mark(1), 1, SCAN_GIVE_UP_NS)
    one.failed(1, "broke off")
    assert isinstance(one.move(2 * SCAN_GIVE_UP_NS), Ask)


def test_other_holders_are_asked_once_the_manifest_names_them():
    one = reading(holders=(3,))
    one.failed(3, "gone")
    one.moved((2, 4))
    asked = {one.move(0).node}
    one.failed(asked.copy().pop(), "gone")
    asked |= {move.node for move in (one.move(0), one.move(0)) if isinstance(move, Ask)}
    assert asked == {2, 4}
    one.moved(())
    assert isinstance(one.move(0), GiveUp)


@pytest.mark.parametrize(("next_row", "rows"), [(2, 1), (4, 2), (3, -1), (5, 3), (11, 8)])
def test_a_replica_that_repeats_rows_or_has_too_many_is_an_error(next_row, rows):
    one = reading()
    assert one.received(mark(3), 3, 0)
    with pytest.raises(AssertionError):
        one.received(mark(next_row), rows, 0)
    assert one.move(0) == Ask(node=3, row=3)


FAULTS = st.sampled_from(["fine", "fine", "fenced", "broken", "stale", "stale then fine"])


@settings(max_examples=300, deadline=None)
@given(rows=st.integers(0, 30), size=st.integers(1, 7), holders=st.integers(1, 3), faults=st.lists(FAULTS, max_size=60))
def test_no_row_is_lost_or_doubled_under_any_failures(rows, size, holders, faults):
    """Each replica streams batches from the row asked for until a fault; in the end one of them works."""
    now, got, befalls = 0, [], iter(faults)
    one = reading(rows=rows, holders=tuple(range(1, holders + 1)))
    for _ in range(2_000):
        move = one.move(now)
        match move:
            case Done():
                break
            case Pause(until_ns=until_ns):
                assert until_ns > now
                now = until_ns
            case Ask(node=node, row=row):
                assert row == len(got)
                now += stream(one, node, row, rows, size, befalls, got, now)
            case GiveUp():
                raise AssertionError("no failure lasted so long")
    assert move == Done()
    assert got == list(range(rows))


def stream(one, node, row, rows, size, befalls, got, now):
    while row < rows:
        following = min(rows, row + size)
        fault = next(befalls, "fine")
        if fault in {"fenced", "broken"}:
            one.failed(node, fault)
            return 1
        batch = range(row, following)
        if one.received(mark(following, SEEN - fault.startswith("stale")), len(batch), now):
            got.extend(batch)
        elif fault == "stale":
            one.failed(node, fault)
            return 1
        row = following
    if len(got) < rows:
        one.failed(node, "the stream ended early")
    return 1


@settings(max_examples=100, deadline=None)
@given(holders=st.integers(1, 4), step=st.integers(0, SCAN_PAUSE_NS))
def test_it_ends_in_time_when_nobody_serves(holders, step):
    one, now, asked = reading(holders=tuple(range(1, holders + 1))), 0, 0
    while True:
        move = one.move(now)
        match move:
            case Ask(node=node):
                asked += 1
                now += step
                one.failed(node, "down")
            case Pause(until_ns=until_ns):
                now = until_ns
            case GiveUp(reasons=reasons):
                break
    assert [node for node, _ in reasons] == list(range(1, holders + 1))
    assert SCAN_GIVE_UP_NS <= now <= SCAN_GIVE_UP_NS + step * (holders + 1) + SCAN_PAUSE_NS
    assert asked <= holders * (SCAN_GIVE_UP_NS // SCAN_PAUSE_NS + 2)
