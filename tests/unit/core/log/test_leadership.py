"""The leader record: when a challenger may take it, and when a reign is over."""

import msgspec
import pytest

from leasehold.core.log.leadership import (
    Challenger,
    LeadershipTiming,
    Reign,
    Standing,
    first_record,
    resigned,
)
from leasehold.core.words.records import LeaderRecord
from leasehold.ids import Generation, Term
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

TIMING = LeadershipTiming(
    beat_every_ns=SECOND_NS // 2, margin_ns=SECOND_NS // 2, drift_ppm=10_000, courtesy_ns=SECOND_NS
)


def standing(*, beat: int = 0, version: int = 7, term: int = 4, holder: str = "c1", duration_ns: int = 3 * SECOND_NS):
    record = LeaderRecord(generation=Generation(1), term=Term(term), holder=holder, beat=beat, duration_ns=duration_ns)
    return Standing(record, version)


class TestChallenger:
    def test_takes_at_once_what_nobody_holds(self):
        assert Challenger(TIMING, "c2").due_ns(None, 100) == 100
        assert Challenger(TIMING, "c2").due_ns(standing(holder="", duration_ns=0), 100) == 100

    def test_counts_from_its_own_first_read(self):
        challenger = Challenger(TIMING, "c2")
        due_ns = challenger.due_ns(standing(), 5 * SECOND_NS)
        assert due_ns == 5 * SECOND_NS + -(-3 * SECOND_NS * 1_010_000 // 990_000) + SECOND_NS // 2
        assert challenger.due_ns(standing(), 8 * SECOND_NS) == due_ns, "unchanged: the count goes on"

    def test_a_beat_begins_the_count_anew(self):
        challenger = Challenger(TIMING, "c2")
        first_ns = challenger.due_ns(standing(beat=0, version=7), 0)
        assert challenger.due_ns(standing(beat=1, version=9), 3 * SECOND_NS) == first_ns + 3 * SECOND_NS

    def test_counts_the_holders_duration_and_not_its_own(self):
        longer_ns = Challenger(TIMING, "c2").due_ns(standing(duration_ns=30 * SECOND_NS), 0)
        assert longer_ns > 30 * SECOND_NS

    def test_lets_the_successor_go_first_that_the_last_holder_named(self):
        left = Standing(resigned(standing(), "c3"), 8)
        challenger = Challenger(TIMING, "c2")
        challenger.due_ns(standing(), 0)
        assert challenger.due_ns(left, 5 * SECOND_NS) == 6 * SECOND_NS
        assert challenger.due_ns(left, 5 * SECOND_NS + 1) == 6 * SECOND_NS, "it is a courtesy, and has an end"
        assert Challenger(TIMING, "c3").due_ns(left, 5 * SECOND_NS) == 5 * SECOND_NS
        anybody = Standing(resigned(standing()), 8)
        assert challenger.due_ns(anybody, 5 * SECOND_NS) == 5 * SECOND_NS

    def test_another_term_with_the_same_beat_is_another_record(self):
        challenger = Challenger(TIMING, "c2")
        challenger.due_ns(standing(term=4, version=7), 0)
        assert challenger.due_ns(standing(term=5, version=8), SECOND_NS) > 4 * SECOND_NS


def acknowledged(record: LeaderRecord, version: int = 8) -> Standing:
    return Standing(record, version)


class TestReign:
    def reign(self, sent_ns: int = 0) -> Reign:
        return Reign(standing(), sent_ns=sent_ns, timing=TIMING)

    def test_lasts_from_when_the_election_was_sent(self):
        reign = self.reign(sent_ns=SECOND_NS)
        assert (reign.term, reign.standing) == (4, standing())
        assert (reign.ends_ns, reign.beat_at_ns) == (4 * SECOND_NS, 1_500 * MILLISECOND_NS)
        assert reign.leads(4 * SECOND_NS - 1)
        assert not reign.leads(4 * SECOND_NS)

    def test_once_over_it_is_over_for_good(self):
        reign = self.reign()
        beat = acknowledged(reign.next_beat(SECOND_NS))
        assert not reign.leads(3 * SECOND_NS)
        assert not reign.beaten(beat, 3 * SECOND_NS)
        assert reign.ends_ns == 3 * SECOND_NS
        assert not reign.leads(SECOND_NS), "not even for an earlier reading"

    def test_a_late_answer_does_not_prolong_it(self):
        reign = self.reign()
        beat = acknowledged(reign.next_beat(2 * SECOND_NS))
        assert not reign.beaten(beat, 3 * SECOND_NS)
        assert not reign.leads(2 * SECOND_NS)

    def test_a_beat_counts_from_when_it_was_sent_however_late_its_answer(self):
        reign = self.reign()
        beat = acknowledged(reign.next_beat(500 * MILLISECOND_NS))
        assert reign.beaten(beat, 2_900 * MILLISECOND_NS)
        assert (reign.ends_ns, reign.beat_at_ns) == (3_500 * MILLISECOND_NS, SECOND_NS)
        assert reign.standing == beat
        assert reign.next_beat(SECOND_NS).beat == 2

    def test_a_beat_that_is_sent_again_is_the_same_and_counts_from_its_first_sending(self):
        reign = self.reign()
        first = reign.next_beat(500 * MILLISECOND_NS)
        assert reign.found(standing(), 600 * MILLISECOND_NS)
        assert reign.awaits_answer
        assert reign.next_beat(900 * MILLISECOND_NS) == first
        assert reign.beaten(acknowledged(first), SECOND_NS)
        assert (reign.ends_ns, reign.beat_at_ns) == (3_500 * MILLISECOND_NS, SECOND_NS)
        assert not reign.awaits_answer
        assert reign.next_beat(1_100 * MILLISECOND_NS).beat == 2

    def test_a_beat_that_is_found_has_happened(self):
        reign = self.reign()
        found = acknowledged(reign.next_beat(500 * MILLISECOND_NS), version=9)
        assert reign.found(found, SECOND_NS)
        assert (reign.ends_ns, reign.standing, reign.awaits_answer) == (3_500 * MILLISECOND_NS, found, False)

    def test_a_beat_that_is_found_too_late_prolongs_nothing(self):
        reign = self.reign()
        found = acknowledged(reign.next_beat(500 * MILLISECOND_NS))
        assert not reign.found(found, 3 * SECOND_NS)
        assert reign.ends_ns == 3 * SECOND_NS

    def test_a_record_that_nobody_changed_prolongs_nothing(self):
        reign = self.reign()
        reign.next_beat(500 * MILLISECOND_NS)
        assert reign.found(standing(), SECOND_NS)
        assert (reign.ends_ns, reign.beat_at_ns) == (3 * SECOND_NS, 500 * MILLISECOND_NS)
        assert not reign.found(standing(), 3 * SECOND_NS)

    @pytest.mark.parametrize("found", [None, standing(version=9), standing(term=5, version=9, holder="c2")])
    def test_the_record_of_another_ends_it(self, found):
        reign = self.reign()
        reign.next_beat(500 * MILLISECOND_NS)
        assert not reign.found(found, SECOND_NS)
        assert not reign.leads(SECOND_NS)

    def test_the_same_words_of_another_process_are_another_record(self):
        reign = self.reign()
        beat = reign.next_beat(500 * MILLISECOND_NS)
        assert not reign.found(acknowledged(msgspec.structs.replace(beat, nonce="ab")), SECOND_NS)

    def test_only_its_own_beat_is_acknowledged(self):
        reign = self.reign()
        with pytest.raises(AssertionError):
            reign.beaten(standing(), SECOND_NS)
        reign.next_beat(500 * MILLISECOND_NS)
        with pytest.raises(AssertionError):
            reign.beaten(standing(beat=2, version=8), SECOND_NS)
        assert reign.ends_ns == 3 * SECOND_NS

    def test_a_term_keeps_the_duration_that_its_election_wrote(self):
        reign = Reign(standing(duration_ns=30 * SECOND_NS), sent_ns=0, timing=TIMING)
        beat = acknowledged(reign.next_beat(SECOND_NS))
        assert beat.record.duration_ns == 30 * SECOND_NS, "a challenger may count 3 s from a beat that says so"
        assert reign.beaten(beat, 2 * SECOND_NS)
        assert reign.ends_ns == 31 * SECOND_NS

    def test_ends_when_another_term_is_noticed(self):
        reign = self.reign()
        reign.end()
        assert not reign.leads(0)


def test_the_next_term_follows_the_one_that_was_seen():
    record = first_record(standing(term=9), generation=Generation(2), holder="c2", duration_ns=SECOND_NS)
    assert (record.term, record.generation, record.holder, record.beat) == (10, 2, "c2", 0)
    assert first_record(None, generation=Generation(1), holder="c2", duration_ns=SECOND_NS).term == 1
    with pytest.raises(AssertionError):
        first_record(None, generation=Generation(1), holder="", duration_ns=SECOND_NS)


def test_the_next_term_names_no_successor():
    left = Standing(resigned(standing(), "c3"), 8)
    assert left.record.successor == "c3"
    assert not first_record(left, generation=Generation(1), holder="c2", duration_ns=SECOND_NS).successor


def test_who_resigns_keeps_the_term_and_frees_the_place():
    left = resigned(standing(term=9))
    assert (left.term, left.holder, left.duration_ns) == (9, "", 0)
