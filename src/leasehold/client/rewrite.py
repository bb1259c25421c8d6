"""Rewriting a table: new segments with the remaining rows take the place of old segments.

This removes deleted and expired rows from the files, and turns files of an older format into the newest one. Readers
see the same rows before and after. Each portion is one write transaction, so it stays done if the rest fails. If the
table changes while a portion is read, the commit refuses it (`core/replicas/rewrite.py`). The next portion is smaller,
so that it fits between two DELETEs.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.client.not_written import aborted_on_error
from leasehold.core.words.messages import Replaced, ScanPlan
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.limits.upkeep import (
    REWRITE_ATTEMPTS,
    REWRITE_PLAN_SEGMENTS_MAX,
    REWRITE_PLANS_MAX,
    REWRITE_PORTION_BYTES,
    REWRITE_PORTION_SEGMENTS,
    REWRITE_WAIT_NS,
)
from leasehold.wire.clock import sleep_ns

if TYPE_CHECKING:
    from leasehold.client.cluster import Cluster

CHANGED: Final = frozenset(
    {
        ErrorCode.COLUMN_DROPPED,
        ErrorCode.REWRITE_STALE,
        ErrorCode.ROWS_TAKEN_AWAY,
        ErrorCode.SCHEMA_CHANGED,
        ErrorCode.SEGMENT_UNKNOWN,
    }
)
"""The refusals of a rewrite whose table changed since it was planned."""


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a rewrite."""

    segments_replaced: int = 0
    segments_written: int = 0
    rows_kept: int = 0
    rows_removed: int = 0


def rewrite(
    cluster: "Cluster",
    name: str,
    on_progress: Callable[[Rewritten], None] | None = None,
    *,
    sleep: Callable[[int], None] = sleep_ns,
    portion_max: int = REWRITE_PORTION_SEGMENTS,
) -> Rewritten:
    """Removes deleted and expired rows from the files of a table, and brings them into the newest format; `on_progress`
    gets each portion, of at most `portion_max` segments.

    Raises as a scan or an append does, and `Refused`: UNDER_WAY if statements work on the table for REWRITE_WAIT_NS,
    or a code of CHANGED if the table changed REWRITE_ATTEMPTS times in a row.
    """
    done = Rewritten()
    waited_ns, failures, divisor, plans = 0, 0, 1, 0
    while True:
        try:
            plan = cluster.plan(name, rewrite=True)
            rest = plan.segments
            while rest:
                portion = first_portion(rest, divisor, portion_max)
                done = _replace(cluster, plan, portion, done)
                rest = rest[len(portion) :]
                waited_ns, failures, divisor = 0, 0, max(1, divisor // 2)
                if on_progress is not None:
                    on_progress(done)
        except Refused as error:
            if error.code == ErrorCode.UNDER_WAY and waited_ns < REWRITE_WAIT_NS:
                waited_ns += RETRY_PAUSE_NS
                sleep(RETRY_PAUSE_NS)
            elif error.code in CHANGED and failures < REWRITE_ATTEMPTS - 1:
                failures += 1
                divisor = min(4 * divisor, portion_max)
            else:
                raise
        else:
            plans += 1
            if len(plan.segments) < REWRITE_PLAN_SEGMENTS_MAX or plans == REWRITE_PLANS_MAX:
                return done


def first_portion(
    segments: Sequence[SegmentRecord], divisor: int, portion_max: int = REWRITE_PORTION_SEGMENTS
) -> tuple[SegmentRecord, ...]:
    """The first segments, as many as one transaction replaces, or the `divisor`-th part of that; at least one."""
    most, most_bytes = max(1, portion_max // divisor), REWRITE_PORTION_BYTES // divisor
    sizes = accumulate(one.size_bytes for one in islice(segments, most))
    fitting = sum(1 for size_bytes in sizes if size_bytes <= most_bytes)
    return tuple(segments[: max(1, fitting)])


def _replace(cluster: "Cluster", plan: ScanPlan, portion: tuple[SegmentRecord, ...], done: Rewritten) -> Rewritten:
    facts, transaction = plan.facts, cluster.new_transaction()
    opened = cluster.open_transaction(facts, transaction)
    with aborted_on_error(cluster, facts, transaction):
        rows = cluster.read(msgspec.structs.replace(plan, segments=portion))
        staged = cluster.stage(facts, transaction, rows, opened.revision)
        replaces = tuple(Replaced(bucket=one.bucket, segment=one.id) for one in portion)
        committed = cluster.commit(
            facts.cluster_id,
            transaction,
            staged,
            replaces=replaces,
            deletes=plan.deletes,
            kept=len(staged),
            keeps_rows=True,
        )
    return Rewritten(
        segments_replaced=done.segments_replaced + len(portion),
        segments_written=done.segments_written + len(staged),
        rows_kept=done.rows_kept + committed.rows,
        rows_removed=done.rows_removed + sum(one.rows for one in portion) - committed.rows,
    )
