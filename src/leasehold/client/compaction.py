"""Compaction: new segments with the remaining rows of old ones take their place.

This takes deleted and expired rows out of the files, joins small files, and brings files of an older format into the
newest one. Readers see the same rows before and after. The nodes read and write the rows (`core/data/compactions.py`);
the client says which segments become one, and commits. Each portion is one write transaction, so it stays done if the
rest fails. If the table changes while a portion is read, the commit refuses it (`core/replicas/rewrite.py`). The next
portion is smaller, so that it fits between two DELETEs.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.client.not_written import aborted_on_error
from leasehold.client.threads import THREADS, Refresh, places_of
from leasehold.core.data.asking import Asking
from leasehold.core.data.compactions import OldSegment, compact_ticket, shares
from leasehold.core.data.known import Known
from leasehold.core.data.row_sender import RowSender, SenderPorts
from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import (
    CompactProgress,
    Place,
    Replaced,
    ScanPlan,
    StagedSegment,
    TableFacts,
    WriteTicket,
)
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Refused, Unreachable
from leasehold.ids import Generation, NodeLogin, Revision, TransactionId
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
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.flight import calling, within, writer_to
from leasehold.wire.flight import ticket as as_ticket
from leasehold.wire.steps import run
from leasehold.wire.tls import TlsSource

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


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a compaction."""

    segments_replaced: int = 0
    segments_written: int = 0
    rows_kept: int = 0
    rows_removed: int = 0


def compact(
    cluster: "Cluster",
    name: str,
    on_progress: Callable[[Compaction], None] | None = None,
    *,
    sleep: Callable[[int], None] = sleep_ns,
    portion_max: int = REWRITE_PORTION_SEGMENTS,
) -> Compaction:
    """Removes deleted and expired rows from the files of a table, and brings them into the newest format; `on_progress`
    gets each portion, of at most `portion_max` segments.

    Raises as a scan or an append does, and `Refused`: UNDER_WAY if statements work on the table for REWRITE_WAIT_NS,
    or a code of CHANGED if the table changed REWRITE_ATTEMPTS times in a row.
    """
    done = Compaction()
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


def _replace(cluster: "Cluster", plan: ScanPlan, portion: tuple[SegmentRecord, ...], done: Compaction) -> Compaction:
    facts, transaction = plan.facts, cluster.new_transaction()
    opened = cluster.open_transaction(facts, transaction)
    with aborted_on_error(cluster, facts, transaction):
        written = cluster.stage_compacted(facts, transaction, portion, opened.revision)
        staged = tuple(one for one in written if one.rows)
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
    return Compaction(
        segments_replaced=done.segments_replaced + len(portion),
        segments_written=done.segments_written + len(staged),
        rows_kept=done.rows_kept + committed.rows,
        rows_removed=done.rows_removed + sum(one.rows for one in portion) - committed.rows,
    )


def stage_compacted(
    facts: TableFacts,
    transaction: TransactionId,
    portion: Iterable[SegmentRecord],
    revision: Revision,
    *,
    refresh: Refresh | None = None,
    login: NodeLogin | None = None,
    known: Known | None = None,
    asking: Asking | None = None,
    tls: TlsSource | None = None,
) -> tuple[StagedSegment, ...]:
    """Has the nodes write what is left of the segments of a `portion`; returns the new segments, some without rows.

    The parameters and errors are as of `client/append.py`, with those of a scan.
    """
    sender = RowSender(
        facts,
        transaction,
        revision,
        places_of(facts, refresh, known=known),
        SenderPorts(THREADS, _Replicas(facts.generation, tls), SystemEntropy().hex_128, leaves_out=True),
        login=login,
        asking=asking or Asking(),
    )
    try:
        sender.start(shares(portion))
        run(sender.sent())
    finally:
        sender.stop()
    return sender.staged


class _Replicas:
    """Implements `core.data.row_sender.StagesRows`: has replicas compact what a plan of this `generation` names."""

    def __init__(self, generation: Generation, tls: TlsSource | None) -> None:
        self._generation = generation
        self._tls = tls

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[OldSegment],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        request = compact_ticket(ticket, share, self._generation)
        with calling(place.address):
            node = writer_to(place.address, self._tls, place.name)
            answers = node.do_get(as_ticket(request), within(timeout_ns, request))
            try:
                for chunk in answers:
                    for value in chunk.data.column(0):
                        answer = decode_message(value.as_py())
                        if isinstance(answer, StagedSegment):
                            return answer
                        if not isinstance(answer, CompactProgress):
                            raise BadMessage(f"a {type(answer).__name__} came instead of a new segment")
                        on_progress()
            finally:
                answers.cancel()
        raise Unreachable(f"{place.address}: the stream ended without an answer", hint="compact the table again")
