"""What is counted of a recovery: the guess of what is left, and its words."""

from leasehold.core.recovery.progress import Tally, in_words
from leasehold.core.words.messages import NodeRecovery
from leasehold.limits.recovery import FETCH_STALLED_NS
from leasehold.limits.units import SECOND_NS


def fetching(tally: Tally, now_ns: int) -> NodeRecovery:
    return tally.progress(9, 9, now_ns, leaping=False, replaying=False)


def test_the_rest_of_the_segments_takes_as_long_as_those_before_unless_none_comes_any_more():
    tally = Tally(9, 0)
    tally.compare(7, 0, 0)
    tally.count(0, 0, 30, 0)
    assert fetching(tally, SECOND_NS).left_ns is None, "nothing has come yet"
    tally.count(10, 0, None, 2 * SECOND_NS)
    assert fetching(tally, 2 * SECOND_NS).left_ns == 4 * SECOND_NS
    last_ns = 2 * SECOND_NS + FETCH_STALLED_NS - 1
    assert fetching(tally, last_ns).left_ns is not None
    assert fetching(tally, last_ns + 1).left_ns is None, "nobody may have the rest"
    tally.count(20, 3, None, last_ns + 1)
    assert fetching(tally, last_ns + 1).left_ns == 0


def test_all_of_it_in_words():
    tally = Tally(3, 0)
    tally.replaying("b", "revisions 4 to 9 are kept", 3, 0)
    begun = tally.progress(3, 9, SECOND_NS, leaping=False, replaying=True)
    assert in_words(begun) == "case b: revisions 4 to 9 are kept; revision 3 of 9"
    tally.compare(1, 2, SECOND_NS)
    on = tally.progress(5, 9, SECOND_NS, leaping=False, replaying=True)
    assert in_words(on) == (
        "case b: revisions 4 to 9 are kept; revision 5 of 9; 1 segment kept, 2 to fetch; about 2 s left"
    )
