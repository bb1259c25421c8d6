"""Reading one segment from several replicas: no row lost or doubled, nothing stale taken, an end in time."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.data.hedging import Ask, GiveUp, Pause, Wait
from leasehold.core.data.scan import Done, Needed, SegmentReading
from leasehold.core.words.messages import BatchMark
from leasehold.limits.clients import CLIENT_PATIENCE_NS, SCAN_DISCARDS_MAX, SCAN_PAUSE_NS
from tests.few import examples
from tests.unit.core.replicas.test_replication import segment

SEEN = 7
DELAY = 100


def reading(rows=10, holders=(3, 1)):
    return SegmentReading(msgspec.structs.replace(segment(1, *holders), rows=rows), give_up_ns=CLIENT_PATIENCE_NS)


def move(one, now):
    return one.move(now, delay_ns=DELAY, may_hedge=True)


def mark(next_row, revision=SEEN):
    return BatchMark(next_row=next_row, view_revision=revision, term=1, sequence=1)


def receive(one, node, next_row, rows, now=0, *, revision=SEEN, newest=SEEN, least=0):
    return one.received(node, mark(next_row, revision), rows, now, Needed(newest=newest, least=least))


def test_rows_are_asked_for_from_where_the_last_batch_ended():
    one = reading()
    assert (move(one, 0), one.row) == (Ask(node=3), 0)
    assert receive(one, 3, 4, 4, 1) == ()
    assert move(one, 1) == Wait(until_ns=1 + DELAY)
    one.hedging.ended(3)
    assert (move(one, 1), one.row) == (Ask(node=3), 4)
    assert receive(one, 3, 10, 6, 2) == ()
    assert move(one, 2) == Done()


def test_within_a_segment_another_replica_is_asked_from_the_row_where_one_fell_silent():
    one = reading()
    move(one, 0)
    assert receive(one, 3, 4, 4, 10) == ()
    assert (move(one, 10 + DELAY), one.row) == (Ask(node=1, also=True), 4)
    assert receive(one, 1, 6, 2, 150) == (3,)
    assert receive(one, 3, 6, 2, 151) is None, "these rows were handed on already"
    assert receive(one, 1, 10, 4, 160) == ()
    assert move(one, 160) == Done()


def test_a_batch_may_stand_for_more_rows_than_it_has():
    one = reading()
    move(one, 0)
    assert receive(one, 3, 6, 2) == (), "some had expired"
    assert receive(one, 3, 10, 0) == ()
    assert move(one, 0) == Done()


def test_a_segment_without_rows_is_read_already():
    assert move(reading(rows=0), 0) == Done()


def test_the_next_replica_is_asked_at_once_and_after_a_round_a_pause():
    one = reading()
    move(one, 0)
    one.hedging.failed(3)
    assert move(one, 5) == Ask(node=1)
    one.hedging.failed(1)
    assert move(one, 6) == Pause(until_ns=6 + SCAN_PAUSE_NS)
    assert move(one, 6 + SCAN_PAUSE_NS) == Ask(node=3)


def test_a_batch_authorised_on_too_old_a_view_is_thrown_away_and_so_is_all_that_follows_on_that_stream():
    one = reading()
    move(one, 0)
    assert receive(one, 3, 2, 2) == ()
    assert receive(one, 3, 4, 2, revision=SEEN - 1) is None
    assert receive(one, 3, 6, 2, revision=SEEN) is None, "rows 2 and 3 would be missing"
    assert (move(one, 0), one.row) == (Ask(node=3), 2), "it is asked again, from there"


def test_nothing_is_handed_out_that_was_released_before_what_the_client_has_heard_of():
    """The batch lay in a buffer when the client heard of revision 9."""
    one = reading()
    move(one, 0)
    assert receive(one, 3, 2, 2, newest=SEEN) == ()
    assert receive(one, 3, 4, 2, newest=SEEN + 2) is None
    move(one, 0)
    assert receive(one, 3, 4, 2, revision=SEEN + 2, newest=SEEN + 2) == ()


def test_revisions_that_come_faster_than_batches_do_not_stop_a_reader():
    """After so many in a row, what the client knew when it asked suffices; what its statements returned is kept."""
    one = reading()
    newest = SEEN
    for _ in range(SCAN_DISCARDS_MAX):
        move(one, 0)
        newest += 2
        assert receive(one, 3, 4, 2, revision=newest - 1, newest=newest, least=newest - 1) is None
    move(one, 0)
    assert receive(one, 3, 2, 2, revision=newest, newest=newest + 1, least=newest + 1) is None, "a statement returned"
    move(one, 0)
    assert receive(one, 3, 2, 2, revision=newest, newest=newest + 1, least=newest) == ()
    assert receive(one, 3, 4, 2, revision=newest, newest=newest + 1, least=newest) is None, "the count begins anew"


def test_it_gives_up_so_long_after_the_first_failure():
    one = reading()
    move(one, 0)
    one.hedging.failed(3)
    assert move(one, 100) == Ask(node=1)
    one.hedging.failed(1)
    assert isinstance(move(one, 100 + CLIENT_PATIENCE_NS - 1), Pause)
    assert move(one, 100 + CLIENT_PATIENCE_NS) == GiveUp()


def test_a_consumer_that_took_its_time_does_not_count_as_a_replica_that_failed():
    one = reading()
    move(one, 0)
    assert receive(one, 3, 2, 2) == ()
    late = 2 * CLIENT_PATIENCE_NS
    one.hedging.failed(3)
    assert move(one, late) == Ask(node=1)
    one.hedging.failed(1)
    assert isinstance(move(one, late + CLIENT_PATIENCE_NS - 1), Pause)
    move(one, late + CLIENT_PATIENCE_NS - 1)
    one.hedging.failed(3)
    assert isinstance(move(one, late + CLIENT_PATIENCE_NS), GiveUp)


def test_only_progress_starts_the_count_anew():
    one = reading(holders=(3,))
    move(one, 0)
    one.hedging.failed(3)
    assert isinstance(move(one, 0), Pause)
    move(one, 0)
    assert receive(one, 3, 0, 0, CLIENT_PATIENCE_NS - 1) == (), "an empty batch is harmless"
    one.hedging.failed(3)
    assert isinstance(move(one, CLIENT_PATIENCE_NS), GiveUp)


def test_other_holders_are_asked_once_the_manifest_names_them():
    one = reading(holders=(3,))
    move(one, 0)
    one.hedging.failed(3)
    one.hedging.moved((2, 4))
    assert move(one, 0) == Ask(node=2)
    one.hedging.failed(2)
    assert move(one, 0) == Ask(node=4)
    one.hedging.failed(4)
    one.hedging.moved(())
    assert isinstance(move(one, 0), GiveUp)


@pytest.mark.parametrize(("next_row", "rows"), [(2, 1), (4, 2), (3, -1), (5, 3), (11, 8)])
def test_a_replica_that_repeats_rows_or_has_too_many_is_an_error(next_row, rows):
    one = reading()
    move(one, 0)
    assert receive(one, 3, 3, 3) == ()
    with pytest.raises(AssertionError):
        receive(one, 3, next_row, rows)
    assert one.row == 3


FAULTS = st.sampled_from(["fine", "fine", "fenced", "broken", "silent", "silent", "stale", "ended"])


@settings(max_examples=examples(300), deadline=None)
@given(rows=st.integers(0, 30), size=st.integers(1, 7), holders=st.integers(1, 3), faults=st.lists(FAULTS, max_size=60))
def test_no_row_is_lost_or_doubled_under_any_failures(rows, size, holders, faults):
    """Each replica that is asked streams batches from the row asked for; each step one of them sends a batch or has a
    fault, and one that is silent is asked no more than the others."""
    now, got, befalls = 0, [], iter(faults)
    one = reading(rows=rows, holders=tuple(range(1, holders + 1)))
    streams = {}
    for _ in range(2_000):
        match move(one, now):
            case Done():
                break
            case Pause(until_ns=until_ns):
                assert until_ns > now
                now = until_ns
            case Ask(node=node):
                assert one.row == len(got)
                streams[node] = one.row
            case Wait(until_ns=until_ns):
                now += stream(one, streams, rows, size, befalls, got, now, until_ns)
            case GiveUp():
                raise AssertionError("no failure lasted so long")
    assert move(one, now) == Done()
    assert got == list(range(rows))


def stream(one, streams, rows, size, befalls, got, now, until_ns):
    node, row = next(iter(streams.items()))
    fault = next(befalls, "fine")
    if fault == "silent":
        streams[node] = streams.pop(node)  # another one is first to send something
        return until_ns - now
    del streams[node]
    if fault in {"fenced", "broken"}:
        one.hedging.failed(node)
        return 1
    if fault == "ended":
        one.hedging.ended(node)
        return 1
    following = min(rows, row + size)
    overtaken = receive(one, node, following, following - row, now, revision=SEEN - (fault == "stale"))
    if overtaken is not None:
        got.extend(range(row, following))
        for other in overtaken:
            del streams[other]
        streams[node] = following
    return 1


@settings(max_examples=examples(100), deadline=None)
@given(holders=st.integers(1, 4), step=st.integers(0, SCAN_PAUSE_NS))
def test_it_ends_in_time_when_nobody_serves(holders, step):
    one, now, asked = reading(holders=tuple(range(1, holders + 1))), 0, 0
    while True:
        match move(one, now):
            case Ask(node=node):
                asked += 1
                now += step
                one.hedging.failed(node)
            case Pause(until_ns=until_ns):
                now = until_ns
            case GiveUp():
                break
    assert CLIENT_PATIENCE_NS <= now <= CLIENT_PATIENCE_NS + step * (holders + 1) + SCAN_PAUSE_NS
    assert asked <= holders * (CLIENT_PATIENCE_NS // SCAN_PAUSE_NS + 2)
