"""Writes that replace rows: those of a whole table, or those that fulfil conditions (docs/design.md, "Data").

Theory of operation. The client plans such a write twice: before it reads or writes anything, and when all new rows are
staged. The second plan must show no segment that the first one lacks, else somebody has added such rows meanwhile; but
the same rows may be in other segments after a compaction (`rows_stayed`). The commit names all segments of the second
plan. Rows of them that the write keeps were staged with the new ones.

| segments of the plan | their rows | what the client does |
| --- | --- | --- |
| `whole` | all fulfil the conditions, by their statistics | nothing |
| `segments` | some may | stages those that do not, unless it has read all of them (`keeps`) |

The commit is one transaction of the leader, as for a rewrite (`core/replicas/rewrite.py`): old rows go and new rows
come at one revision, so a scan reads the old ones or the new ones. A scan that was planned before goes on in the old
segments: a replaced row is not a revoked one, so no node has to know before the commit returns. A commit that `covers`
its conditions is refused if another segment may hold such rows by then.
"""

from collections.abc import Iterable, Set
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.data.filters import are_sound, holds_only, may_hold
from leasehold.core.data.following import newest_of
from leasehold.core.membership.generations import generation_of
from leasehold.core.replicas.rewrite import check_settled
from leasehold.core.words.messages import (
    CommitTransaction,
    FieldFilter,
    Filter,
    Follow,
    Replaced,
    ScanPlan,
    TableFacts,
)
from leasehold.core.words.records import Field, SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import BucketNumber, ObjectId, SchemaVersion, SegmentId
from leasehold.limits.statements import REPLACED_VALUES_MAX

Isolation: TypeAlias = Literal["serializable", "snapshot"]


class Overwrite(msgspec.Struct, frozen=True, kw_only=True):
    """What a write replaces, as it was when the write began."""

    table: ObjectId
    where: tuple[Filter, ...]
    """Conditions that the replaced rows fulfil, and by default the new rows too; none of them means all rows."""
    filters: tuple[FieldFilter, ...]
    """The same, on the columns of the table."""
    isolation: Isolation
    """With `serializable` no rows that fulfil the conditions may be added or replaced meanwhile. With `snapshot` rows
    that are added meanwhile stay."""
    seen: frozenset[SegmentId]
    """The segments that may hold such rows."""
    deletes: int
    since: Follow | None = None
    """How far the table had come."""
    by: Field | None = None
    """If given, the rows are replaced whose value of this column occurs in the new rows, besides the conditions."""
    schema_version: SchemaVersion = SchemaVersion(0)
    """Of the table. New rows that are old ones with other values have its columns by their names."""
    moves: bool = False
    """Whether new rows need not fulfil the conditions: they are the old ones with other values."""
    keeps: bool = True
    """Whether rows of the same segments that do not fulfil the conditions are kept. If not, the writer has read them
    too, and they are among the new ones: the segments must be the same at the commit."""


def begun_by(
    plan: ScanPlan, where: tuple[Filter, ...], isolation: Isolation = "serializable", by: Field | None = None
) -> Overwrite:
    """What a write replaces whose first plan this is."""
    seen = frozenset(one.segment for one in replaced_by(plan))
    return Overwrite(
        table=plan.facts.table,
        where=where,
        filters=plan.where,
        isolation=isolation,
        seen=seen,
        deletes=plan.deletes,
        since=plan.follows,
        by=by,
        schema_version=plan.facts.schema_version,
    )


def replaced_by(plan: ScanPlan) -> tuple[Replaced, ...]:
    """All segments that a write with this plan replaces."""
    return (*plan.whole, *(Replaced(bucket=one.bucket, segment=one.id) for one in plan.segments))


def check_unaltered(begun: Overwrite | TableFacts, facts: TableFacts) -> None:
    """Raises `Refused` with code CONFLICT if the table was altered since the write began: rows that were read before
    may lack columns, or have them under names of others. Raises `NotFound` (TABLE_DROPPED) if it is another table."""
    if facts.table != begun.table:
        raise _dropped(facts)
    if facts.schema_version != begun.schema_version:
        raise conflict(facts.name, "the table was altered")


def check_same_segments(begun: Overwrite, found: Set[SegmentId], facts: TableFacts) -> None:
    """Raises `Refused` with code CONFLICT if a later plan has other segments, with the same rows or with others."""
    if found != begun.seen:
        raise conflict(facts.name, "they were changed, or are in other files")


def still_there(begun: Overwrite, plan: ScanPlan, facts: TableFacts) -> ScanPlan:
    """What the write replaces of a later plan. Raises `Refused` with code CONFLICT, `NotFound`."""
    if plan.facts.table != facts.table:
        raise _dropped(facts)
    found = {one.segment for one in replaced_by(plan)}
    if not begun.keeps:
        check_same_segments(begun, found, facts)
    # If rows are replaced by a column, more segments were seen than may hold them.
    is_gone = begun.by is None and not plan.stayed and bool(begun.seen - found)
    if plan.deletes != begun.deletes or is_gone:
        raise conflict(facts.name, "they were replaced or deleted")
    chosen = [one.field.id for one in begun.filters] + ([] if begun.by is None else [begun.by.id])
    if [one.field.id for one in plan.where] != chosen:
        raise conflict(facts.name, "columns of its conditions were renamed")
    if plan.stayed or found <= begun.seen:
        return plan
    if begun.isolation == "serializable":
        raise conflict(facts.name, "further ones were added")
    return msgspec.structs.replace(
        plan,
        segments=tuple(one for one in plan.segments if one.id in begun.seen),
        whole=tuple(one for one in plan.whole if one.segment in begun.seen),
    )


def to_replace(plan: ScanPlan, found: Iterable[SegmentRecord], table: TableRecord, catalog: Catalog) -> ScanPlan:
    """The plan of a write that replaces rows; `found` are its segments, with their statistics. Raises `Refused` with
    code UNDER_WAY while a statement hides something of the table that may come back."""
    check_settled(table, catalog)
    is_whole = holds_only(plan.where)
    whole = {one.id: one.bucket for one in found if is_whole(one)}
    return msgspec.structs.replace(
        plan,
        deletes=table.deletes,
        segments=tuple(one for one in plan.segments if one.id not in whole),
        whole=tuple(Replaced(bucket=bucket, segment=segment) for segment, bucket in whole.items()),
    )


def rows_stayed(since: Follow, found: Iterable[SegmentRecord], table: TableRecord, catalog: Catalog) -> bool:
    """Whether the segments of a plan hold just the rows that such segments held then, but for deleted ones: no commit
    has taken rows of the table since, and none has added some of these."""
    if (since.table, since.generation) != (table.id, generation_of(catalog)) or table.taken >= since.number:
        return False
    return all(newest_of(one) < since.number for one in found)


def check_covered(request: CommitTransaction, table: TableRecord, catalog: Catalog) -> None:
    """Raises `Refused` with code CONFLICT if segments that the commit does not replace may hold rows that it covers,
    and with code BAD_MESSAGE for conditions that no leader has planned."""
    if request.covers is None:
        return
    fields = {one.id: one for one in live_fields(table)}
    if any(one.field.id not in fields for one in request.covers):
        raise conflict(str(catalog.table_name(table)), "a column of its conditions was dropped")
    where = tuple(msgspec.structs.replace(one, field=fields[one.field.id]) for one in request.covers)
    if not are_sound(where, live_fields(table), values_max=REPLACED_VALUES_MAX):
        raise Refused(
            "the conditions of a commit are not as they were planned",
            code=ErrorCode.BAD_MESSAGE,
            hint="upgrade the client",
        )
    replaced = {one.segment for one in request.replaces}
    buckets = (catalog.bucket_segments(table.id, BucketNumber(number)) for number in range(table.buckets))
    others = [one for one in chain.from_iterable(buckets) if one.id not in replaced]
    if others and may_hold(where, others):
        raise conflict(str(catalog.table_name(table)), "rows were added that it would have to replace")


def conflict(table: str, why: str) -> Refused:
    """What a write is refused with that another one came before."""
    return Refused(
        f"rows of {table} can't be replaced: {why} since this write began",
        code=ErrorCode.CONFLICT,
        hint="nothing was written; run it again",
    )


def _dropped(facts: TableFacts) -> NotFound:
    return NotFound(f"table {facts.name} was dropped", code=ErrorCode.TABLE_DROPPED, hint="look it up again")
