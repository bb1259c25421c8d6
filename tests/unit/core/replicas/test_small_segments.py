"""Which small segments of a bucket are joined: enough of them, and each row only a few times."""

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.replicas.rewrite import small_ones
from leasehold.core.words.records import SegmentRecord
from leasehold.limits.upkeep import SMALL_SEGMENT_BYTES, SMALL_SEGMENTS_MIN
from tests.golden.examples import example

LEAST = example(SegmentRecord, full=False)
KIB = 1024


def segments(*sizes: int) -> list[SegmentRecord]:
    return [msgspec.structs.replace(LEAST, id=f"s{place}", size_bytes=size) for place, size in enumerate(sizes)]


def joined(*sizes: int) -> list[int]:
    return [one.size_bytes for one in small_ones(segments(*sizes))]


def test_few_are_left_alone_and_many_are_joined():
    assert joined(*[KIB] * (SMALL_SEGMENTS_MIN - 1)) == []
    assert joined(*[KIB] * SMALL_SEGMENTS_MIN) == [KIB] * SMALL_SEGMENTS_MIN


def test_large_ones_do_not_count():
    assert joined(*[KIB] * (SMALL_SEGMENTS_MIN - 1), SMALL_SEGMENT_BYTES) == []


def test_one_that_is_larger_than_the_others_together_waits():
    many = [KIB] * SMALL_SEGMENTS_MIN
    assert joined(*many, 17 * KIB) == many
    assert joined(*many, 16 * KIB) == [*many, 16 * KIB]
    assert joined(*many, 400 * KIB, 300 * KIB) == many


@given(st.lists(st.integers(1, SMALL_SEGMENT_BYTES), max_size=60))
def test_what_is_joined_is_small_and_the_largest_is_at_most_half_of_it(sizes: list[int]) -> None:
    found = joined(*sizes)
    assert not found or len(found) >= SMALL_SEGMENTS_MIN
    assert all(size < SMALL_SEGMENT_BYTES for size in found)
    assert not found or 2 * max(found) <= sum(found)


@given(st.lists(st.integers(1, 64 * KIB), min_size=200, max_size=600))
def test_while_a_table_grows_by_small_appends_each_byte_is_written_anew_a_few_times(appends: list[int]) -> None:
    """As often as sizes double, and once more; with the fewest that are joined at once it is far less."""
    present: list[int] = []
    written = 0
    for size in appends:
        present.append(size)
        if found := joined(*present):
            for one in found:
                present.remove(one)
            present.append(sum(found))
            written += sum(found)
    assert sum(present) == sum(appends)
    doublings = math.log2(sum(appends) / min(appends)) + 1
    assert written <= doublings * sum(appends)
    assert sum(size < SMALL_SEGMENT_BYTES for size in present) < 2 * SMALL_SEGMENTS_MIN + doublings
