"""The leader record: when a challenger may take it, and when a reign is over."""

import msgspec
import pytest

from leasehold.core.words.records import LeaderRecord
from leasehold.ids import Generation, Revision, Term
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.leadership import (
    Challenger,
    LeadershipTiming,
    Reign,
    Standing,
    first_record,
    resigned,
)

TIMING = LeadershipTiming(
    duration_ns=3 * SECOND_NS, beat_every_ns=SECOND_NS // 2, margin_ns=SECOND_NS // 2, drift_ppm=10_000
)


def standing(*, beat: int = 0, modified: int = 7, term: int = 4, holder: str = "c1", duration_ns: int = 3 * SECOND_NS):
    record = LeaderRecord(generation=Generation(1), term=Term(term), holder=holder, beat=beat, duration_ns=duration_ns)
    return Standing(record=record, modified=Revision(modified))


class TestChallenger:
    def test_takes_at_once_what_nobody_holds(self):
        assert Challenger(TIMING).due_ns(None, 100) == 100
        assert Challenger(TIMING).due_ns(standing(holder="", duration_ns=0), 100) == 100

    def test_counts_from_its_own_first_read(self):
        challenger = Challenger(TIMING)
        due_ns = challenger.due_ns(standing(), 5 * SECOND_NS)
        assert due_ns == 5 * SECOND_NS + -(-3 * SECOND_NS * 1_010_000 // 990_000) + SECOND_NS // 2
        assert challenger.due_ns(standing(), 8 * SECOND_NS) == due_ns, "unchanged: the count goes on"

    def test_a_beat_begins_the_count_anew(self):
        challenger = Challenger(TIMING)
        first_ns = challenger.due_ns(standing(beat=0, modified=7), 0)
        assert challenger.due_ns(standing(beat=1, modified=9), 3 * SECOND_NS) == first_ns + 3 * SECOND_NS

    def test_counts_the_holders_duration_and_not_its_own(self):
        longer_ns = Challenger(TIMING).due_ns(standing(duration_ns=30 * SECOND_NS), 0)
        assert longer_ns > 30 * SECOND_NS

    def test_another_term_with_the_same_beat_is_another_record(self):
        challenger = Challenger(TIMING)
        challenger.due_ns(standing(term=4, modified=7), 0)
        assert challenger.due_ns(standing(term=5, modified=8), SECOND_NS) > 4 * SECOND_NS


class TestReign:
    def reign(self, sent_ns: int = 0) -> Reign:
        return Reign(standing(), sent_ns=sent_ns, timing=TIMING)

    def test_lasts_from_when_the_election_was_sent(self):
        reign = self.reign(sent_ns=SECOND_NS)
        assert reign.leads(4 * SECOND_NS - 1)
        assert not reign.leads(4 * SECOND_NS)

    def test_once_over_it_is_over_for_good(self):
        reign = self.reign()
        assert not reign.leads(3 * SECOND_NS)
        beat = Standing(record=reign.next_record(), modified=Revision(8))
        assert not reign.beaten(beat, sent_ns=SECOND_NS, now_ns=3 * SECOND_NS)
        assert not reign.leads(SECOND_NS), "not even for an earlier reading"

    def test_a_beat_counts_from_when_it_was_sent_however_late_its_answer(self):
        reign = self.reign()
        beat = Standing(record=reign.next_record(), modified=Revision(8))
        assert reign.beaten(beat, sent_ns=500 * MILLISECOND_NS, now_ns=2_900 * MILLISECOND_NS)
        assert reign.ends_ns == 3_500 * MILLISECOND_NS
        assert reign.beat_at_ns == SECOND_NS
        assert reign.next_record().beat == 2

    def test_an_end_never_moves_back(self):
        reign = self.reign()
        shorter = msgspec.structs.replace(reign.next_record(), duration_ns=1)
        assert reign.beaten(Standing(record=shorter, modified=Revision(8)), sent_ns=1, now_ns=2)
        assert reign.ends_ns == 3 * SECOND_NS

    def test_an_unanswered_beat_extends_nothing(self):
        reign = self.reign()
        reign.unanswered(SECOND_NS)
        assert (reign.ends_ns, reign.beat_at_ns) == (3 * SECOND_NS, 1_500 * MILLISECOND_NS)
        reign.noted(standing(beat=1, modified=9))
        assert reign.ends_ns == 3 * SECOND_NS
        assert (reign.standing.modified, reign.next_record().beat) == (9, 2)


def test_the_next_term_follows_the_one_that_was_seen():
    record = first_record(standing(term=9), generation=Generation(2), holder="c2", timing=TIMING)
    assert (record.term, record.generation, record.holder, record.beat) == (10, 2, "c2", 0)
    assert first_record(None, generation=Generation(1), holder="c2", timing=TIMING).term == 1
    with pytest.raises(AssertionError):
        first_record(None, generation=Generation(1), holder="", timing=TIMING)


def test_who_resigns_keeps_the_term_and_frees_the_place():
    left = resigned(standing(term=9))
    assert (left.term, left.holder, left.duration_ns) == (9, "", 0)
