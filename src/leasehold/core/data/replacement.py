"""Writes that replace rows: those of a whole table, or those that fulfil conditions (docs/design.md, "Data").

Theory of operation. The client plans such a write twice: before it reads or writes anything, and when all new rows are
staged. The second plan must show no segment that the first one lacks, else somebody has added such rows meanwhile. The
commit names all segments of the second plan. Rows of them that the write keeps were staged with the new ones.

| segments of the plan | their rows | what the client does |
| --- | --- | --- |
| `whole` | all fulfil the conditions, by their statistics | nothing |
| `segments` | some may | stages those that do not |

The commit is one transaction of the leader, as for a rewrite (`core/replicas/rewrite.py`): old rows go and new rows
come at one revision, so a scan reads the old ones or the new ones. A scan that was planned before goes on in the old
segments: a replaced row is not a revoked one, so no node has to know before the commit returns. A commit that `covers`
its conditions is refused if another segment may hold such rows by then.
"""

from collections.abc import Iterable

import msgspec

from leasehold.core.catalog.catalog import Catalog, live_fields
from leasehold.core.data.filters import are_sound, holds_only, may_hold
from leasehold.core.replicas.rewrite import check_settled
from leasehold.core.words.messages import CommitTransaction, Replaced, ScanPlan
from leasehold.core.words.records import SegmentRecord, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber
from leasehold.limits.statements import REPLACED_VALUES_MAX


def to_replace(plan: ScanPlan, found: Iterable[SegmentRecord], table: TableRecord, catalog: Catalog) -> ScanPlan:
    """The plan of a write that replaces rows; `found` are its segments, with their statistics. Raises `Refused` with
    code UNDER_WAY while a statement hides something of the table that may come back."""
    check_settled(table, catalog)
    whole = {one.id: one.bucket for one in found if holds_only(plan.where, one)}
    return msgspec.structs.replace(
        plan,
        deletes=table.deletes,
        segments=tuple(one for one in plan.segments if one.id not in whole),
        whole=tuple(Replaced(bucket=bucket, segment=segment) for segment, bucket in whole.items()),
    )


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
        raise Refused("the conditions of a commit are not as they were planned", code=ErrorCode.BAD_MESSAGE)
    replaced = {one.segment for one in request.replaces}
    for number in range(table.buckets):
        found = may_hold(where, catalog.bucket_segments(table.id, BucketNumber(number)))
        if any(one.id not in replaced for one in found):
            raise conflict(str(catalog.table_name(table)), "rows were added that it would have to replace")


def conflict(table: str, why: str) -> Refused:
    """What a write is refused with that another one came before."""
    return Refused(
        f"rows of {table} can't be replaced: {why} since this write began",
        code=ErrorCode.CONFLICT,
        hint="nothing was written; run it again",
    )
