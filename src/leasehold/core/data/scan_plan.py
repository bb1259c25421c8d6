"""Plans of scans and of SELECTs: what is read, pinned at the revision of one catalog (INV-SCAN-1)."""

from typing import Final, NamedTuple

import msgspec

from leasehold.core.catalog.catalog import Catalog, check_through, fields_named, live_fields
from leasehold.core.catalog.reads import all_read
from leasehold.core.data.cutoff import cutoff
from leasehold.core.data.facts import parse_name, relation_named, table_facts, tables_needed, view_bodies
from leasehold.core.data.filters import may_hold, planned_filters
from leasehold.core.data.following import added, as_planned, now
from leasehold.core.data.read_groups import grouped
from leasehold.core.data.replacement import rows_stayed, to_replace
from leasehold.core.replicas.rewrite import worth_rewriting
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import PlanQuery, PlanScan, QueryPlan, ScanPlan
from leasehold.core.words.records import Field, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.segments import PLANNED_SEGMENT_BYTES_MIN
from leasehold.limits.statements import (
    FILTER_VALUES_MAX,
    QUERY_TABLES_MAX,
    REPLACED_VALUES_MAX,
)


class PlanLimits(NamedTuple):
    """Limits of what one answer plans."""

    tables_max: int = QUERY_TABLES_MAX
    bytes_max: int = MESSAGE_BYTES_MAX


PLAN_LIMITS: Final = PlanLimits()
_LIST_BYTES: Final = 4
"""By how much the head of a list is larger than that of an empty one. So plans are not encoded again to be counted."""


def plan_scan(request: PlanScan, catalog: Catalog, limits: PlanLimits = PLAN_LIMITS) -> ScanPlan:
    """Pins the revision of the catalog: its columns and its segments, without statistics, which no reader uses; for a
    rewrite only the first ones that are worth it. Raises `NotFound`, `Refused`: BAD_SCHEMA, TOO_MANY_SEGMENTS,
    BAD_VALUE, TOO_MANY_CONDITIONS.
    """
    check_through(request.through, catalog)
    table = catalog.table(parse_name(request.name))
    fields = chosen_fields(request.columns, table)
    values_max = REPLACED_VALUES_MAX if request.replaces else FILTER_VALUES_MAX
    where = planned_filters(request.where, table, values_max=values_max)
    segments: list[SegmentRecord] = []
    if request.rewrite:
        segments.extend(worth_rewriting(table, catalog))
    elif request.follows is not None and not request.replaces:
        segments.extend(added(request.follows, table, catalog, ignores_taken=request.ignores_taken))
    else:
        _check_can_fit(table, catalog, limits)
        for number in range(table.buckets):
            segments.extend(catalog.bucket_segments(table.id, BucketNumber(number)))
    found = may_hold(where, segments)
    plan = ScanPlan(
        facts=table_facts(table, catalog),
        fields=fields,
        segments=tuple(as_planned(one, is_numbered=request.follows is not None) for one in found),
        through=request.through,
        deletes=table.deletes if request.rewrite else 0,
        cutoff=cutoff(table, catalog),
        where=where,
        left_out=len(segments) - len(found),
        follows=now(table, catalog),
    )
    if request.replaces:
        since = request.follows
        stayed = since is not None and rows_stayed(since, found, table, catalog)
        plan = msgspec.structs.replace(to_replace(plan, found, table, catalog), stayed=stayed)
    elif request.grouped and not request.rewrite:
        plan = grouped(plan, found, table, catalog)
    return fitting(plan, table, catalog, limits)


def chosen_fields(columns: tuple[str, ...] | None, table: TableRecord) -> tuple[Field, ...]:
    """The columns in use with these names, by default all. Raises `NotFound`, `Refused` with code BAD_SCHEMA."""
    if columns is None:
        return live_fields(table)
    chosen = tuple(fields_named(table, columns))
    if len({field.id for field in chosen}) != len(chosen):
        raise Refused(
            f"a column of {table.name} is asked for twice", code=ErrorCode.BAD_SCHEMA, hint="name each column once"
        )
    return chosen


def fitting(plan: ScanPlan, table: TableRecord, catalog: Catalog, limits: PlanLimits) -> ScanPlan:
    """The plan, if one message can hold it; its groups only where there is room. Raises `Refused` with code
    TOO_MANY_SEGMENTS."""
    if plan.grouped is not None and len(encode(plan)) > limits.bytes_max:
        plan = msgspec.structs.replace(plan, grouped=None)
    if len(encode(plan)) > limits.bytes_max:
        raise _too_many_segments(len(plan.segments), table, catalog, limits)
    return plan


def plan_query(request: PlanQuery, catalog: Catalog, limits: PlanLimits = PLAN_LIMITS) -> QueryPlan:
    """Pins the revision of the catalog, for all tables that a SELECT reads, those of its views among them.

    Raises `NotFound`, or `Refused` with code TOO_MANY_TABLES, TOO_MANY_SEGMENTS.
    """
    if len(request.names) > limits.tables_max:
        raise _too_many_tables(len(request.names), limits)
    reads = all_read((relation_named(parse_name(name), catalog) for name in request.names), catalog)
    if len(reads.tables) > limits.tables_max:
        raise _too_many_tables(len(reads.tables), limits)
    through = tuple(view.id for view in reads.views)
    plans: list[ScanPlan] = []
    size_bytes = 0
    for table in reads.tables:
        name = str(catalog.table_name(table))
        plans.append(plan_scan(PlanScan(cluster_id=None, name=name, columns=None, through=through), catalog, limits))
        size_bytes += len(encode(plans[-1]))
        if size_bytes > limits.bytes_max:
            raise _too_many_segments(sum(len(one.segments) for one in plans), table, catalog, limits)
    answer = QueryPlan(
        revision=catalog.revision,
        plans=tuple(plans),
        views=view_bodies(reads, catalog),
        needed=tables_needed(reads, catalog),
    )
    assert all(one.facts.revision == answer.revision for one in plans), "one revision for all (INV-SCAN-1)"
    if size_bytes + len(encode(msgspec.structs.replace(answer, plans=()))) > limits.bytes_max - _LIST_BYTES:
        raise _too_many_tables(len(plans), limits)
    return answer


def _check_can_fit(table: TableRecord, catalog: Catalog, limits: PlanLimits) -> None:
    """Raises `Refused` if a plan can't name all segments, before any is looked at."""
    count = sum(catalog.segments.count((table.id, BucketNumber(number))) for number in range(table.buckets))
    if count * PLANNED_SEGMENT_BYTES_MIN > limits.bytes_max:
        raise _too_many_segments(count, table, catalog, limits)


def _too_many_segments(count: int, table: TableRecord, catalog: Catalog, limits: PlanLimits) -> Refused:
    return Refused(
        f"table {catalog.table_name(table)} has {count} segments, a plan of {limits.bytes_max} bytes names fewer",
        code=ErrorCode.TOO_MANY_SEGMENTS,
        hint="`leasehold compact` joins small segments; then write fewer, larger appends",
    )


def _too_many_tables(count: int, limits: PlanLimits) -> Refused:
    return Refused(
        f"the SELECT reads {count} tables and views, which is more than one answer can hold",
        code=ErrorCode.TOO_MANY_TABLES,
        hint=f"read at most {limits.tables_max} tables in one SELECT",
    )
