"""How many segments a table may have: as many as a plan can name. A rewrite joins small ones."""

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import Shelf
from leasehold.core.replicas.rewrite import worth_rewriting
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Replaced
from leasehold.core.words.records import SegmentFormat, SegmentRecord
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, NodeId, ObjectId, SchemaVersion, SegmentId
from leasehold.limits.segments import PLANNED_SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX, TABLE_SEGMENTS_MAX
from leasehold.limits.statements import BUCKETS_MAX, REPLICATION_MAX
from leasehold.limits.upkeep import SMALL_SEGMENT_BYTES, SMALL_SEGMENTS_MIN
from tests.unit.core.catalog_words import Ground, hex_128
from tests.unit.core.data.write_words import (
    TABLE,
    W1,
    W2,
    commit,
    commit_as_told,
    ground,
    opened,
    sealed_by_holders,
    segment,
)

LARGEST = 2**63 - 1
FIRST, SECOND = ((ObjectId(TABLE), BucketNumber(number)) for number in (0, 1))


def holding(most: int) -> Ground:
    """A table with so many segments, two of them in the first bucket, and a write that is open."""
    base = opened(ground())
    base.commit(commit(base, segment(0), segment(1), segment(2, bucket=1)))
    (other,) = base.catalog.bucket_segments(*SECOND)
    others = HashTrieMap({SegmentId(f"{W1}-{hex_128(number)}"): other for number in range(2, most)})
    segments = Shelf(HashTrieMap({**base.catalog.segments, SECOND: others}))
    base.catalog = msgspec.structs.replace(base.catalog, segments=segments)
    return opened(base, W2)


def later(number: int, **how: object) -> object:
    return segment(number, transaction=W2, **how)


def test_a_commit_that_makes_a_table_too_large_to_be_planned_is_refused() -> None:
    full = holding(TABLE_SEGMENTS_MAX)
    with pytest.raises(Refused) as caught:
        commit(full, later(9), transaction=W2)
    assert caught.value.code == "TOO_MANY_SEGMENTS"
    assert f"db.t has {TABLE_SEGMENTS_MAX} segments, and this write adds 1" in caught.value.text
    assert "leasehold compact db.t" in caught.value.hint


def test_a_commit_that_adds_none_is_taken_however_many_there_are() -> None:
    full = holding(TABLE_SEGMENTS_MAX + 2)
    old = [one.id for one in full.catalog.bucket_segments(*FIRST)]
    replaces = tuple(Replaced(bucket=BucketNumber(0), segment=one) for one in old)
    joined = sealed_by_holders(full, later(9))
    full.commit(commit_as_told(full, *joined, transaction=W2, replaces=replaces, deletes=0))
    assert len(full.catalog.bucket_segments(*FIRST)) == 1
    full.commit(commit(opened(full, "b" * 32), transaction="b" * 32))


def test_no_segment_takes_more_of_a_plan_than_its_bound() -> None:
    largest = SegmentRecord(
        id=SegmentId(f"{'f' * 32}-{'f' * 32}"),
        table=ObjectId(LARGEST),
        bucket=BucketNumber(BUCKETS_MAX),
        schema_version=SchemaVersion(LARGEST),
        rows=SEGMENT_ROWS_MAX,
        size_bytes=SEGMENT_BYTES_MAX,
        sha256=bytes(32),
        statistics=(),
        holders=tuple(NodeId(LARGEST - place) for place in range(REPLICATION_MAX)),
        deletes=LARGEST,
        format=max(SegmentFormat),
    )
    assert len(encode(largest)) <= PLANNED_SEGMENT_BYTES_MAX


# ---------------------------------------------------------------- what a rewrite joins


def with_segments(*sizes: int) -> Catalog:
    """A table with segments of these sizes in its first bucket, and one small segment in the other."""
    base = opened(ground())
    made = [segment(place, size_bytes=size) for place, size in enumerate(sizes, 1)]
    base.commit(commit(base, *made, segment(len(sizes) + 1, bucket=1)))
    return base.catalog


def joined(catalog: Catalog) -> list[int]:
    """The sizes of the segments that are worth rewriting."""
    return [one.size_bytes for one in worth_rewriting(catalog.tables[ObjectId(TABLE)], catalog)]


def test_small_segments_are_joined_where_a_bucket_has_many_of_them() -> None:
    few = [100] * (SMALL_SEGMENTS_MIN - 1)
    assert joined(with_segments(*few)) == []
    assert joined(with_segments(*few, SMALL_SEGMENT_BYTES, SMALL_SEGMENT_BYTES)) == [], "large ones do not count"
    many = [*few, 200]
    assert joined(with_segments(*many, SMALL_SEGMENT_BYTES)) == many


def test_statistics_and_deletes_do_not_matter_to_what_is_joined() -> None:
    catalog = with_segments(*[100] * SMALL_SEGMENTS_MIN)
    table = msgspec.structs.replace(catalog.tables[ObjectId(TABLE)], deletes=3)
    assert len(worth_rewriting(table, catalog)) == SMALL_SEGMENTS_MIN
