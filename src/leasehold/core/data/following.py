"""Following a table: what was added to it since a reader has looked, each row once (docs/spark.md, "Streams").

Theory of operation. Each segment with new rows gets a number at its commit; the numbers of the cluster only grow. A
reader who has read all segments below some number asks for those from there on, and is told how far they go.

A rewrite puts other segments with the same rows in the place of some. These are not new, so a reader leaves them out
and reads the segments that they replaced, as long as these are kept. Afterwards nobody can tell which rows are new.

| since the reader has looked | it gets |
| --- | --- |
| rows were added | their segments, in the order of their numbers |
| such a segment was rewritten, and is still kept | the segment as it was |
| such a segment was rewritten, and is not kept any more | TOO_OLD: there would be a gap |
| segments that it has read were rewritten | nothing |
| rows were deleted, or replaced by others | ROWS_TAKEN_AWAY; if it ignores that, the rows that came and did not go |

A DELETE counts from when it is past its point of no return. One that was rolled back, or whose rows are out of all
files, can't be told from one that took rows.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.membership.generations import generation_of
from leasehold.core.words import keys
from leasehold.core.words.messages import CommitTransaction, Follow
from leasehold.core.words.operations import Change
from leasehold.core.words.records import JoinedSegments, ReplacedRecord, SegmentRecord, TableRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import BucketNumber, Generation, ObjectId, Revision, SegmentId, segment_transaction

# ---------------------------------------------------------------- at the commit


class Numbered(NamedTuple):
    """What a commit writes so that its rows can be followed."""

    of_new: dict[SegmentId, int]
    """The numbers of segments with new rows."""
    joined: JoinedSegments | None
    """What the others are made of; None without any."""
    taken: int | None
    """The number of the commit, if it takes rows away."""
    next_number: int

    def changes(self, table: TableRecord, catalog: Catalog) -> Iterator[Change]:
        counters = catalog.counters
        assert counters is not None, "a cluster with tables has them"
        if self.next_number != counters.next_segment:
            yield put(keys.COUNTERS, msgspec.structs.replace(counters, next_segment=self.next_number))
        if self.taken is not None:
            yield put(keys.table(table.id), msgspec.structs.replace(table, taken=self.taken))


def commit_numbers(request: CommitTransaction, catalog: Catalog) -> Numbered:
    """Numbers the segments of a commit. Raises `Refused` with code BAD_SEGMENT."""
    assert catalog.counters is not None, "a cluster with tables has them"
    new = len(request.segments) - request.kept
    if request.kept < 0 or new < 0 or (request.kept and not request.replaces) or (request.keeps_rows and new):
        raise Refused(
            f"of {len(request.segments)} segments {request.kept} can't be those with rows that stay",
            code=ErrorCode.BAD_SEGMENT,
            hint="upgrade the client",
        )
    number = catalog.counters.next_segment
    taken = None
    if request.replaces and not request.keeps_rows:
        taken, number = number, number + 1
    of_new = {one.id: number + place for place, one in enumerate(request.segments[:new])}
    joined = None
    if request.kept:
        table = catalog.transactions[request.transaction].table
        old = (catalog.segments.one((table, one.bucket), one.segment) for one in request.replaces)
        newest = max((newest_of(one) for one in old if one is not None), default=0)
        joined = JoinedSegments(segments=len(request.replaces), newest=newest)
    return Numbered(of_new, joined, taken, number + new)


def newest_of(segment: SegmentRecord) -> int:
    """The greatest number of segments with new rows that it is made of, itself among them."""
    return segment.number if segment.joins is None else segment.joins.newest


# ---------------------------------------------------------------- in a plan


def now(table: TableRecord, catalog: Catalog) -> Follow:
    """How far a reader has followed the table who has read all of it."""
    assert catalog.counters is not None, "a cluster with tables has them"
    pending = [one.number for one in catalog.deletes.get(table.id, {}).values() if one.state is not UseState.IN_USE]
    return Follow(
        table=table.id,
        generation=generation_of(catalog),
        number=catalog.counters.next_segment,
        deletes=min([table.deletes + 1, *pending]) - 1,
    )


def added(follow: Follow, table: TableRecord, catalog: Catalog, *, ignores_taken: bool) -> list[SegmentRecord]:
    """The segments with rows that were added since, in the order of their numbers. Raises `Refused`: ROWS_TAKEN_AWAY,
    TOO_OLD."""
    name, reached = catalog.table_name(table), now(table, catalog)
    check_same(follow.table, follow.generation, table, catalog)
    if not ignores_taken:
        if reached.deletes > follow.deletes:
            raise _taken_away(f"rows of {name} were deleted")
        if table.taken >= follow.number:
            raise _taken_away(f"rows of {name} were replaced")
    if follow.number >= reached.number:
        return []
    found: list[SegmentRecord] = []
    rewritten: list[SegmentRecord] = []
    kept: Counter[str | None] = Counter()
    for one in all_segments(table, catalog):
        segment = one
        if isinstance(one, ReplacedRecord):
            segment = one.segment
            kept[one.by] += 1
        assert isinstance(segment, SegmentRecord), "one of the two"
        if newest_of(segment) >= follow.number:
            (found if segment.joins is None else rewritten).append(segment)
    for segment in rewritten:
        assert segment.joins is not None, "it was rewritten"
        if kept[segment_transaction(segment.id)] < segment.joins.segments:
            raise Refused(
                f"rows that were added to {name} were rewritten before they were read",
                code=ErrorCode.TOO_OLD,
                hint="start again with a snapshot of the table",
            )
    return sorted(found, key=lambda one: one.number)


def check_same(known: ObjectId, generation: Generation, table: TableRecord, catalog: Catalog) -> None:
    """Raises if a reader has followed another table, or another history."""
    if known != table.id:
        raise NotFound(
            f"table {catalog.table_name(table)} was dropped and made again",
            code=ErrorCode.TABLE_DROPPED,
            hint="start again with a snapshot of the table",
        )
    if generation != generation_of(catalog):
        raise _taken_away("the cluster was recovered from a backup")


def as_planned(segment: SegmentRecord, *, is_numbered: bool = False) -> SegmentRecord:
    """What a plan says of a segment: no reader uses its statistics, and only one who follows its number."""
    number = segment.number if is_numbered else 0
    return msgspec.structs.replace(segment, statistics=(), number=number, joins=None, commit=Revision(0))


def all_segments(table: TableRecord, catalog: Catalog) -> Iterator[SegmentRecord | ReplacedRecord]:
    """Those of the manifest, and those that were replaced and are still kept."""
    for number in range(table.buckets):
        for shelf in (catalog.segments, catalog.replaced):
            yield from shelf.get((table.id, BucketNumber(number)), {}).values()


def _taken_away(what: str) -> Refused:
    return Refused(
        f"{what} since the reader has looked last",
        code=ErrorCode.ROWS_TAKEN_AWAY,
        hint="start again with a snapshot of the table: a new checkpoint; or set the option ignoreDeletes",
    )
