"""Hidden rows that files still hold, and rewriting, which takes them out of the files (docs/design.md, "Data").

Theory of operation. A DELETE writes a record that says which rows it takes, and nodes leave them out of every batch
from then on (`hiding`). The expiry horizon does the same. For a rewrite a client reads what is left of some segments,
stages it, and one commit replaces the old segments in the manifest. The commit compares that nothing began to hide rows
since the plan, since hidden rows may come back. A scan that was planned before goes on in the old segments.

| a segment is      | planned | read by scans planned before | its file | its DELETEs |
| in the manifest   | yes     | yes                          | kept     | kept        |
| replaced          | no      | yes                          | kept     | kept        |
| released, after REPLACED_KEPT_NS | no | SEGMENT_UNKNOWN    | trashed  | go, once they concern no other segment |

A DELETE concerns only segments that were in the manifest when it began, so one that is spent stays spent.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol, TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import next_revision, put
from leasehold.core.catalog.shelf import Shelf
from leasehold.core.replicas.replication import is_present
from leasehold.core.words import keys, records
from leasehold.core.words.messages import CommitTransaction
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    DeleteRecord,
    Field,
    ReplacedRecord,
    SegmentFormat,
    SegmentRecord,
    TableRecord,
    UseState,
)
from leasehold.core.words.skipping import may_fulfil
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, FieldId, ObjectId, Revision, SegmentId
from leasehold.limits.segments import SEGMENTS_PER_COMMIT_MAX
from leasehold.limits.upkeep import (
    DELETE_CHECKS_MAX,
    REWRITE_EXPIRED_PERCENT,
    REWRITE_PLAN_SEGMENTS_MAX,
    SMALL_SEGMENT_BYTES,
    SMALL_SEGMENTS_MIN,
)

DAY_US: Final = 86_400_000_000

# ---------------------------------------------------------------- what a DELETE concerns


def hiding(table: ObjectId, segment: SegmentRecord, catalog: Catalog) -> tuple[DeleteRecord, ...]:
    """The DELETEs that may hide rows of a segment, in the order of their numbers."""
    deletes = catalog.deletes.get(table)
    if deletes is None:
        return ()
    fields = {field.id: field for field in catalog.tables[table].fields}
    found = (one for one in deletes.values() if concern(one, fields)(segment))
    return tuple(sorted(found, key=lambda one: one.number))


Known: TypeAlias = Mapping[FieldId, records.ColumnStatistics]
"""The statistics of a segment, by their columns."""


class Concern(Protocol):
    """Tells whether a DELETE concerns a segment, whose statistics a caller may hand in by column."""

    def __call__(self, segment: SegmentRecord, known: Known | None = None, /) -> bool:
        """Whether it may hold rows that the DELETE takes."""
        ...


def concern(delete: DeleteRecord, fields: dict[FieldId, Field]) -> Concern:
    """Tests whether a segment may hold rows that a DELETE takes, by its age and its statistics."""
    # A column that is gone could go since the DELETE concerned no segment any more.
    tests = [
        (one.field, may_fulfil(fields[one.field], one.operator, (one.value,)))
        for one in delete.where
        if one.field in fields
    ]
    is_gone = len(tests) < len(delete.where)

    def concerned(segment: SegmentRecord, known: Known | None = None, /) -> bool:
        if is_gone or segment.deletes >= delete.number:
            return False
        if not segment.statistics:
            return True
        for field, test in tests:
            if not test(known.get(field) if known is not None else statistics_of(field, segment), segment.rows):
                return False
        return True

    return concerned


def statistics_of(field: FieldId, segment: SegmentRecord) -> records.ColumnStatistics | None:
    return next((one for one in segment.statistics if one.field == field), None)


def live_deletes(table: TableRecord, catalog: Catalog) -> list[DeleteRecord]:
    """The DELETEs that concern a segment of the manifest, by their numbers: a rewrite would end them.

    As of `unspent`, those count too that would take more than DELETE_CHECKS_MAX checks to know better.
    """
    deletes = catalog.deletes.get(table.id, {}).values()
    return _concerning(deletes, table, (catalog.segments,), most=DELETE_CHECKS_MAX)


def unspent(deletes: Iterable[DeleteRecord], table: TableRecord, catalog: Catalog) -> list[DeleteRecord]:
    """Those that concern a segment of the manifest, or one that was replaced: nodes need them."""
    return _concerning(deletes, table, (catalog.segments, catalog.replaced), most=DELETE_CHECKS_MAX)


def spent(table: TableRecord, catalog: Catalog) -> tuple[int, ...]:
    """The numbers of the DELETEs that concern no segment any more, however many there are to look at (`checks`)."""
    deletes = [one for one in catalog.deletes.get(table.id, {}).values() if one.state is UseState.IN_USE]
    kept = {one.number for one in _concerning(deletes, table, (catalog.segments, catalog.replaced), most=None)}
    return tuple(sorted(one.number for one in deletes if one.number not in kept))


def checks(table: TableRecord, catalog: Catalog) -> int:
    """How many segments `spent` holds against DELETEs, at most."""
    segments = _count(table, (catalog.segments, catalog.replaced))
    return segments * len(catalog.deletes.get(table.id, ()))


SegmentMaps: TypeAlias = "tuple[Shelf[SegmentRecord] | Shelf[ReplacedRecord], ...]"


def _concerning(
    deletes: Iterable[DeleteRecord], table: TableRecord, maps: SegmentMaps, *, most: int | None
) -> list[DeleteRecord]:
    """The DELETEs that may concern a segment; beyond `most` checks of one all of them."""
    ordered = sorted(deletes, key=lambda one: one.number)
    count = _count(table, maps) if ordered else 0
    if most is not None and count > most:
        return ordered
    fields = {field.id: field for field in table.fields}
    segments = list(_segments(table, maps)) if ordered else []
    found: list[DeleteRecord] = []
    for place, one in enumerate(ordered, start=1):
        if (most is not None and place * count > most) or any(map(concern(one, fields), segments)):
            found.append(one)
    return found


def _count(table: TableRecord, maps: SegmentMaps) -> int:
    return sum(found.count((table.id, BucketNumber(number))) for found in maps for number in range(table.buckets))


def _segments(table: TableRecord, maps: SegmentMaps) -> Iterator[SegmentRecord]:
    for found in maps:
        for number in range(table.buckets):
            for one in found.get((table.id, BucketNumber(number)), {}).values():
                yield one.segment if isinstance(one, ReplacedRecord) else one


def by_age(segment: SegmentRecord) -> tuple[BucketNumber, int, SegmentId]:
    """Orders the segments of a table by bucket, and in a bucket by their commits."""
    joins = segment.joins
    return segment.bucket, segment.number if joins is None else joins.newest, segment.id


def _manifest(table: TableRecord, catalog: Catalog) -> Iterator[SegmentRecord]:
    for number in range(table.buckets):
        yield from catalog.bucket_segments(table.id, BucketNumber(number))


# ---------------------------------------------------------------- planning a rewrite


def worth_rewriting(
    table: TableRecord, catalog: Catalog, *, segments_max: int = REWRITE_PLAN_SEGMENTS_MAX
) -> tuple[SegmentRecord, ...]:
    """The segments of the manifest that DELETEs concern, or a good part of whose rows has expired, or that are small
    and many, or of an older format; the first `segments_max` of them.

    Raises `Refused` with code UNDER_WAY while a statement hides something of the table that may come back.
    """
    check_settled(table, catalog)
    horizon = catalog.horizons.get(table.id)
    horizon_us = None if horizon is None else horizon.horizon_us
    fields = {field.id: field for field in table.fields}
    concerned = [concern(one, fields) for one in catalog.deletes.get(table.id, {}).values()]
    clock = None if table.time_column is None or horizon_us is None else fields.get(table.time_column)

    joined = _joined(table, catalog)

    def is_worth_it(segment: SegmentRecord) -> bool:
        if segment.format is not SegmentFormat.FIELD_IDS:
            return True
        if segment.id in joined:
            return True
        known = {one.field: one for one in segment.statistics}
        if any(concerns(segment, known) for concerns in concerned):
            return True
        return clock is not None and horizon_us is not None and _has_expired(segment, known, clock, horizon_us)

    # In the order of their commits: rows that came at about the same time stay together.
    return tuple(islice(filter(is_worth_it, sorted(_manifest(table, catalog), key=by_age)), segments_max))


def check_settled(table: TableRecord, catalog: Catalog) -> None:
    """Raises `Refused` with code UNDER_WAY while a statement hides something of the table that may come back."""
    horizon = catalog.horizons.get(table.id)
    hidden = any(one.state is not UseState.IN_USE for one in catalog.deletes.get(table.id, {}).values())
    hidden = hidden or any(field.state is not UseState.IN_USE for field in table.fields)
    if hidden or (horizon is not None and horizon.hidden_us is not None):
        raise Refused(
            f"a statement that removes something from {table.name} is running",
            code=ErrorCode.UNDER_WAY,
            hint="SHOW PROCEDURES shows it; try again when it has ended",
        )


def _joined(table: TableRecord, catalog: Catalog) -> frozenset[SegmentId]:
    """The small segments that are worth joining."""
    numbers = (BucketNumber(number) for number in range(table.buckets))
    # Most buckets have too few segments of any size: these are not looked at.
    many = (one for one in numbers if catalog.segments.count((table.id, one)) >= SMALL_SEGMENTS_MIN)
    return frozenset(one.id for number in many for one in small_ones(catalog.bucket_segments(table.id, number)))


def small_ones(segments: Iterable[SegmentRecord]) -> list[SegmentRecord]:
    """The small segments of a bucket that are worth joining: none if there are few.

    One that is larger than all smaller ones together waits until these have grown. So each row is written anew a few
    times while a table grows by small appends, and not each time that a bucket is joined.
    """
    found = sorted((one for one in segments if one.size_bytes < SMALL_SEGMENT_BYTES), key=lambda one: one.size_bytes)
    total = sum(one.size_bytes for one in found)
    while len(found) >= SMALL_SEGMENTS_MIN and 2 * found[-1].size_bytes > total:
        total -= found.pop().size_bytes
    return found if len(found) >= SMALL_SEGMENTS_MIN else []


def _has_expired(segment: SegmentRecord, statistics: Known, field: Field, horizon_us: int) -> bool:
    """Whether enough of its rows has, if they are spread evenly between the earliest and the latest."""
    known = statistics.get(field.id)
    if known is None or not isinstance(known.minimum, int) or not isinstance(known.maximum, int):
        return False
    unit = DAY_US if field.type == "DATE" else 1
    low, high = known.minimum * unit, known.maximum * unit
    if horizon_us <= low:
        return False
    rows = segment.rows - known.nulls
    expired = rows if horizon_us > high else rows * (horizon_us - low) // (high - low)
    return expired * 100 >= segment.rows * REWRITE_EXPIRED_PERCENT


# ---------------------------------------------------------------- committing a rewrite


def replacing(request: CommitTransaction, table: TableRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Takes the segments that a commit replaces out of the manifest, and keeps them for scans under way.

    Raises `Refused` with code REWRITE_STALE if the rows or columns that were read may be others since the plan.
    """
    if not request.replaces:
        return ()
    if len(request.replaces) > SEGMENTS_PER_COMMIT_MAX or len(set(request.replaces)) != len(request.replaces):
        raise Refused(
            "a rewrite names too many segments, or one twice", code=ErrorCode.BAD_SEGMENT, hint="upgrade the client"
        )
    if request.forgets:
        return _forgetting(request, table, catalog)
    if request.deletes != table.deletes:
        raise _stale(table, "rows were deleted or a TTL was shortened")
    kept_columns = {one.field for segment in request.segments for one in segment.statistics}
    columns = {field.id for field in table.fields} if request.segments else set[FieldId]()
    commit = Revision(0) if request.keeps_rows else next_revision(catalog)
    changes: list[Change] = []
    for one in request.replaces:
        entry = catalog.segments.get((table.id, one.bucket), {}).get(one.segment)
        if entry is None:
            raise _stale(table, "another rewrite replaced its segments")
        if columns & {known.field for known in entry.statistics} - kept_columns:
            raise _stale(table, "a column was hidden while they were read")
        lean = msgspec.structs.replace(entry, statistics=())
        changes.append(Change(keys.segment(table.id, one.bucket, entry.id), None))
        replaced = ReplacedRecord(segment=lean, by=request.transaction, commit=commit)
        changes.append(put(keys.replaced(table.id, one.bucket, entry.id), replaced))
    return tuple(changes)


def _forgetting(request: CommitTransaction, table: TableRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Takes lost segments out of the manifest: no scan can read them, so nothing is kept for any."""
    if request.segments:
        raise Refused(
            "a request that gives up lost segments can't write segments",
            code=ErrorCode.BAD_SEGMENT,
            hint="upgrade the client",
        )
    for one in request.replaces:
        entry = catalog.segments.get((table.id, one.bucket), {}).get(one.segment)
        if entry is None or any(is_present(node, catalog) for node in entry.holders):
            raise Refused(
                f"segment {one.segment[:80]} of {table.name} is not lost, or was already given up: nothing changed",
                code=ErrorCode.NOT_LOST,
                hint="check again which segments are lost",
            )
    return tuple(Change(keys.segment(table.id, one.bucket, one.segment), None) for one in request.replaces)


def _stale(table: TableRecord, why: str) -> Refused:
    return Refused(
        f"the rows of {table.name} can't be replaced, because they changed after they were read: {why}",
        code=ErrorCode.REWRITE_STALE,
        hint="compact the table again",
    )
