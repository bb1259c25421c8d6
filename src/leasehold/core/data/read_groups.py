"""Groups of segments whose files a reader can read alike, without a node: what has to be done to their rows.

Theory of operation. A node reads a file under the schema of the plan and hides rows. Who reads files by a reader of its
own does both, for many files at a time. So the leader sorts the segments of a plan by what differs among them, from the
manifest alone (docs/decisions/0059-segments-are-read-in-groups.md):

| what differs | known by |
| --- | --- |
| which columns they lack that have a first value | the columns that have statistics |
| the types in which the columns are stored | the schema version, and what was widened since |
| columns with values that Spark's reader of Parquet loses when it skips rows | their bounds |
| which DELETEs may hide rows | their age, and statistics |
| whether rows may have expired | statistics of the time column |

Spark loses two kinds of values. The bounds in a file leave NaN out, which is greater than all numbers. And on its way
to the file, a day or time before 1900 in a filter is converted to the Julian calendar and back: a day from the 5th to
the 14th of October 1582 becomes a later one.

Only columns that are read count: those asked for, those of conditions, and those that tell which rows are hidden. A
segment is in no group if its file does not name the columns by id, or if there would be more than READ_GROUPS_MAX
groups: then the largest ones stay.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.filters import lean
from leasehold.core.replicas.rewrite import DAY_US, Known, concern
from leasehold.core.words.bounds import Bound
from leasehold.core.words.literals import days_from_civil
from leasehold.core.words.messages import FileColumn, ReadGroup, ReadGroups, ScanPlan
from leasehold.core.words.records import ColumnStatistics, Field, SegmentFormat, SegmentRecord, TableRecord
from leasehold.core.words.skipping import may_fulfil
from leasehold.ids import FieldId, SchemaVersion
from leasehold.limits.queries import READ_GROUPS_MAX

CALENDARS_AGREE_DAY: Final = days_from_civil(1901, 1, 1)
"""From this day on, and some time before, no day or time is converted."""


def grouped(plan: ScanPlan, known: Sequence[SegmentRecord], table: TableRecord, catalog: Catalog) -> ScanPlan:
    """The plan with its segments in groups, unless the cluster's setting lets nobody read files. `known` are the same
    segments with their statistics. `table` is the table of today: its DELETEs and its TTL count for the past too."""
    if catalog.cluster is not None and not catalog.cluster.local_reads:
        return plan
    kinds = _Kinds(plan, table, catalog)
    members: dict[ReadGroup, list[SegmentRecord]] = {}
    alone: list[SegmentRecord] = []
    for planned, segment in zip(plan.segments, known, strict=True):
        kind = kinds.of(segment)
        (alone if kind is None else members.setdefault(kind, [])).append(planned)
    largest = sorted(members, key=lambda one: -sum(segment.size_bytes for segment in members[one]))
    kept, others = largest[:READ_GROUPS_MAX], largest[READ_GROUPS_MAX:]
    ordered = (*kept, *others)
    return msgspec.structs.replace(
        plan,
        segments=(*(segment for one in ordered for segment in members[one]), *alone),
        grouped=kinds.described([msgspec.structs.replace(one, segments=len(members[one])) for one in kept]),
    )


def members(plan: ScanPlan) -> tuple[tuple[SegmentRecord, ...], ...]:
    """The segments of each group of a plan."""
    found: list[tuple[SegmentRecord, ...]] = []
    place = 0
    for one in plan.grouped.groups if plan.grouped is not None else ():
        found.append(plan.segments[place : place + one.segments])
        place += one.segments
    return tuple(found)


def expiry_day(earliest_us: int) -> int:
    """The first day, since 1970, that does not lie before that instant."""
    return -(-earliest_us // DAY_US)


def _is_opaque(kind: str, minimum: Bound | None) -> bool:
    match kind:
        case "FLOAT" | "DOUBLE":
            return minimum is None  # as where there is a NaN
        case "DATE" | "TIMESTAMP":
            first = CALENDARS_AGREE_DAY * (DAY_US if kind == "TIMESTAMP" else 1)
            return not isinstance(minimum, int) or minimum < first
        case _:
            return False


class _Kinds:
    """Tells what has to be done to the rows of a segment, as a group without segments."""

    def __init__(self, plan: ScanPlan, table: TableRecord, catalog: Catalog) -> None:
        assert plan.cutoff is not None, "every plan has a cutoff"
        self._fields = {one.id: one for one in table.fields}
        self._asked = tuple(dict.fromkeys(one.id for one in (*plan.fields, *(each.field for each in plan.where))))
        self._deletes = sorted(catalog.deletes.get(table.id, {}).values(), key=lambda one: one.number)
        self._concerned = [concern(one, self._fields) for one in self._deletes]
        self._widened: dict[FieldId, list[tuple[SchemaVersion, str]]] = {}
        for one in table.widened:
            self._widened.setdefault(one.field, []).append((one.before, one.type))
        self._clock: FieldId | None = None
        self._expired: Callable[[ColumnStatistics | None, int], bool] | None = None
        clock = None if table.time_column is None else self._fields.get(table.time_column)
        earliest_us = plan.cutoff.earliest_us
        if clock is not None and earliest_us is not None:
            earliest = expiry_day(earliest_us) if clock.type == "DATE" else earliest_us
            self._clock, self._expired = clock.id, may_fulfil(clock, "<", (str(earliest),))

    def of(self, segment: SegmentRecord) -> ReadGroup | None:
        """None where the manifest does not tell."""
        if segment.format is not SegmentFormat.FIELD_IDS or not segment.statistics:
            return None
        known: Known = {one.field: one for one in segment.statistics}
        hiding = [one for one, test in zip(self._deletes, self._concerned, strict=True) if test(segment, known)]
        read = dict.fromkeys((*self._asked, *(one.field for delete in hiding for one in delete.where)))
        clock = self._clock
        may_expire = clock is not None and self._expired is not None and self._expired(known.get(clock), segment.rows)
        if clock is not None and may_expire:
            read[clock] = None
        return ReadGroup(
            segments=0,
            columns=tuple(self._column(self._fields[one], known.get(one), segment) for one in read),
            deletes=tuple(one.number for one in hiding),
            may_expire=may_expire,
        )

    def _column(self, field: Field, known: ColumnStatistics | None, segment: SegmentRecord) -> FileColumn:
        if known is None and field.initial is not None:
            return FileColumn(field=field.id, type=None)
        widened = self._widened.get(field.id, ())
        stored = next((kind for before, kind in widened if segment.schema_version < before), field.type)
        is_opaque = known is not None and known.nulls < segment.rows and _is_opaque(stored, known.minimum)
        return FileColumn(field=field.id, type=stored, is_opaque=is_opaque)

    def described(self, groups: Sequence[ReadGroup]) -> ReadGroups:
        numbers = {number for one in groups for number in one.deletes}
        deletes = tuple(one for one in self._deletes if one.number in numbers)
        clock = self._clock if any(one.may_expire for one in groups) else None
        telling = {one.field for delete in deletes for one in delete.where} | ({clock} if clock is not None else set())
        return ReadGroups(
            groups=tuple(groups),
            deletes=deletes,
            clock=clock,
            fields=tuple(lean(self._fields[one]) for one in sorted(telling)),
        )
