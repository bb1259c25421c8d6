"""Plans of scans of the past: the columns and the segments of an earlier revision, read by the rights of today.

The past has the rows of its revision, without those that a DELETE or a TTL has taken since: what was taken away is gone
for every reader (INV-SCAN-1). So such a scan is authorised and guarded like any other, and reads the files that nodes
still have. What a rewrite has replaced is there for REPLACED_KEPT_NS; then the revisions before it can't be read.
"""

from typing import NamedTuple

import msgspec

from leasehold.core.catalog.catalog import Catalog, check_through, live_fields
from leasehold.core.data.cutoff import cutoff
from leasehold.core.data.facts import parse_name, table_facts
from leasehold.core.data.filters import may_hold, planned_filters
from leasehold.core.data.following import as_planned
from leasehold.core.data.read_access import entry_at
from leasehold.core.data.read_groups import grouped
from leasehold.core.data.scan_plan import PLAN_LIMITS, PlanLimits, chosen_fields, fitting
from leasehold.core.membership.generations import generation_of
from leasehold.core.words.literals import render_instant
from leasehold.core.words.messages import Follow, PlanScan, ScanPlan
from leasehold.core.words.records import SegmentRecord, TableRecord, UseState
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Revision


class PastTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table as the meta storage had it at a revision; without a record it was not there."""

    revision: Revision
    table: TableRecord | None
    segments: tuple[SegmentRecord, ...]
    next_segment: int = 0
    """The number that the next segment was to get."""


def plan_past(request: PlanScan, past: PastTable, catalog: Catalog, limits: PlanLimits = PLAN_LIMITS) -> ScanPlan:
    """The plan of a scan as of a past revision; `catalog` is that of today, under which the table has its name.

    Raises as `plan_scan`, and `Refused` with code TOO_OLD or COLUMN_DROPPED.
    """
    check_through(request.through, catalog)
    today = catalog.table(parse_name(request.name))
    name = str(catalog.table_name(today))
    if past.table is None or not was_there(past) or past.table.id != today.id:
        raise too_old(f"table {name} was not there at revision {past.revision}")
    gone = missing(past, catalog)
    if gone:
        raise too_old(f"a rewrite has replaced {len(gone)} of the segments that {name} had at revision {past.revision}")
    fields, where = chosen_fields(request.columns, past.table), planned_filters(request.where, past.table)
    alive = {field.id for field in live_fields(today)}
    for field in (*fields, *(one.field for one in where)):
        if field.id not in alive:
            raise Refused(
                f"column {field.name} of {name} was dropped since revision {past.revision}",
                code=ErrorCode.COLUMN_DROPPED,
                hint="choose the columns to read, without it",
            )
    found = may_hold(where, past.segments)
    plan = ScanPlan(
        facts=table_facts(today, catalog),
        fields=fields,
        segments=tuple(_as_it_lies(one, catalog) for one in found),
        through=request.through,
        cutoff=cutoff(today, catalog),
        where=where,
        left_out=len(past.segments) - len(found),
        as_of=past.revision,
        follows=Follow(
            table=today.id,
            generation=generation_of(catalog),
            number=past.next_segment,
            deletes=past.table.deletes,
        ),
    )
    if request.grouped:
        plan = grouped(plan, found, today, catalog)
    return fitting(plan, today, catalog, limits)


def was_there(past: PastTable) -> bool:
    return past.table is not None and past.table.state is UseState.IN_USE


def missing(past: PastTable, catalog: Catalog) -> list[SegmentRecord]:
    """The segments of the past that no scan can read any more."""
    return [one for one in past.segments if entry_at((one.table, one.bucket), one.id, catalog) is None]


def _as_it_lies(segment: SegmentRecord, catalog: Catalog) -> SegmentRecord:
    """Where its file is today."""
    found = entry_at((segment.table, segment.bucket), segment.id, catalog)
    assert found is not None, "`missing` has looked"
    return as_planned(found)


class OldestRevision(NamedTuple):
    """The oldest revision that can be read, and its commit time if it has one."""

    revision: Revision
    time_us: int | None


def too_old(text: str, oldest: OldestRevision | None = None) -> Refused:
    hint = "read a later revision"
    if oldest is not None:
        at = "" if oldest.time_us is None else f", committed at {render_instant(oldest.time_us)}"
        hint = f"the oldest that can be read is revision {oldest.revision}{at}"
    return Refused(text, code=ErrorCode.TOO_OLD, hint=hint)
