"""The keys that nodes brought to a leader."""

from leasehold.core.data.seals import SealKeys
from leasehold.core.words.messages import SegmentHolder, StagedSegment

SEGMENT = StagedSegment(
    id=f"{1:032x}-{0:032x}",
    table=2,
    bucket=0,
    schema_version=1,
    rows=1,
    size_bytes=1,
    sha256=b"s" * 32,
    statistics=(),
    holders=(SegmentHolder(node=1, incarnation=3), SegmentHolder(node=2, incarnation=5)),
)


def test_a_key_counts_while_the_incarnation_lives_that_brought_it():
    known = SealKeys()
    known.learn(1, 3, b"a")
    known.learn(2, 5, b"b")
    assert known.of_living({1: 3, 2: 5}) == {1: b"a", 2: b"b"}
    assert known.of_living({1: 4}) == {}
    known.learn(1, 4, b"c")
    assert known.of_living({1: 4, 2: 5}) == {1: b"c", 2: b"b"}


def test_only_living_holders_are_waited_for():
    known = SealKeys()
    assert known.unheard([SEGMENT], {1: 3, 2: 5, 3: 1}) == {1, 2}
    assert known.unheard([SEGMENT], {1: 3, 2: 6}) == {1}
    known.learn(1, 3, b"a")
    assert known.unheard([SEGMENT], {1: 3, 2: 6}) == frozenset()
    assert known.unheard([], {1: 3}) == frozenset()
