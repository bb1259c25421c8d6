"""Compaction that nodes do by themselves, of tables with 'compact' = 'auto'.

Theory of operation. A node asks the leader for a task now and then. The leader picks a bucket with more than
AUTO_SEGMENTS_MAX small segments of which this node is the compactor, and opens a write transaction for it. So no bucket
is compacted twice at once, and a node that is away asks for nothing. The node writes the new segment, with its peers
(`core/data/compactions.py`), and the leader commits it by the rules of any rewrite. The leader keeps nothing in memory:
whatever it must know is in the record of the transaction, and the task names what it replaces.

| state of a bucket | event                            | next                                           |
| idle              | its compactor asks, and it is due | a transaction is open                          |
| open              | the compactor ends its task      | idle: the new segment took their place, or not |
| open              | the compactor asks again         | idle: it has lost the answer, or was restarted |
| open              | TRANSACTION_TTL_NS               | idle: aborted, as any transaction              |

No user's right is needed, since no row is shown or changed. Nobody but the compactor may write or commit in the
transaction.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.data.commit import abort_transaction, open_transaction
from leasehold.core.data.compactions import OldSegment, shares
from leasehold.core.membership.generations import generation_of
from leasehold.core.replicas.rewrite import by_age, check_settled, small_ones
from leasehold.core.words.compact_property import is_automatic
from leasehold.core.words.messages import (
    AskCompaction,
    CommitTransaction,
    CompactionTask,
    CompactTicket,
    EndCompaction,
    OpenTransaction,
    Replaced,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    BucketRecord,
    SegmentRecord,
    TableRecord,
    TransactionRecord,
    UseState,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import BucketNumber, Generation, NodeId, Revision, SegmentId, TransactionId, segment_transaction
from leasehold.limits.upkeep import AUTO_SEGMENTS_MAX, REWRITE_PORTION_SEGMENTS, SMALL_SEGMENT_BYTES


class DueBucket(NamedTuple):
    """What a node should compact now: segments of one bucket that become one."""

    table: TableRecord
    bucket: BucketNumber
    segments: tuple[OldSegment, ...]


def has_automatic(catalog: Catalog) -> bool:
    """Whether any table is compacted by itself."""
    return any(is_automatic(one.properties) for one in catalog.tables.values())


def open_compactions(catalog: Catalog) -> Iterator[TransactionRecord]:
    """The transactions in which nodes compact buckets now."""
    found = (catalog.transactions[one] for one in catalog.open_transactions.get(None, ()))  # no user has begun them
    return (one for one in found if one.compacts is not None)


class DueBuckets:
    """Finds buckets to compact. It remembers those that are not due, until their segments change: to look at all
    segments of a large table takes long."""

    def __init__(self) -> None:
        self._idle: dict[BucketKey, object] = {}
        """With the marks of their segments."""

    def next_of(self, request: AskCompaction, catalog: Catalog, leased: Collection[NodeId]) -> DueBucket | None:
        """The first bucket after the one that the node names that it should compact; `leased` nodes hold a lease."""
        tables = sorted(one.id for one in catalog.tables.values() if is_automatic(one.properties))
        buckets = [(table, BucketNumber(number)) for table in tables for number in range(catalog.tables[table].buckets)]
        self._idle = {key: self._idle[key] for key in buckets if key in self._idle}
        later = [one for one in buckets if one > (request.table, request.bucket)]
        others = {(one.table, one.compacts) for one in open_compactions(catalog) if one.compactor != request.node}
        for key in (*later, *buckets[: len(buckets) - len(later)]):
            if key not in others and compactor(catalog.buckets[key], leased) == request.node:
                found = self._due(key, request.node, catalog)
                if found is not None:
                    return found
        return None

    def _due(self, key: BucketKey, node: NodeId, catalog: Catalog) -> DueBucket | None:
        table = catalog.tables[key[0]]
        held = [one for one in self._small(key, catalog) if node in one.holders]
        joined = next((share for _, share in shares(held[:REWRITE_PORTION_SEGMENTS])), [])
        if len(joined) < 2 or table.state is not UseState.IN_USE:
            return None
        try:
            check_settled(table, catalog)
        except Refused:  # what is hidden may come back: later
            return None
        return DueBucket(table, key[1], tuple(joined))

    def _small(self, key: BucketKey, catalog: Catalog) -> list[SegmentRecord]:
        """The segments of a bucket that are worth joining, the oldest first, if it has more small ones than it should
        have."""
        mark = catalog.segments.mark(key)
        if catalog.segments.count(key) <= AUTO_SEGMENTS_MAX or self._idle.get(key) is mark:
            return []
        segments = catalog.bucket_segments(*key)
        is_due = sum(1 for one in segments if one.size_bytes < SMALL_SEGMENT_BYTES) > AUTO_SEGMENTS_MAX
        found = sorted(small_ones(segments), key=by_age) if is_due else []
        if not found:
            self._idle[key] = mark
        return found


def compactor(bucket: BucketRecord, leased: Collection[NodeId]) -> NodeId | None:
    """The node that compacts a bucket: of its replicas that are in sync and serve another one for another bucket."""
    able = [node for node in bucket.in_sync if node in leased]
    return able[bucket.bucket % len(able)] if able else None


def begin(
    request: AskCompaction, found: DueBucket | None, transaction: TransactionId, catalog: Catalog
) -> tuple[Change, ...]:
    """Aborts what this node has not ended, and opens a transaction for what is due, by a catalog from before. Raises as
    `open_transaction`, and `Refused` with code BUSY if another node has begun since."""
    under_way = list(open_compactions(catalog))
    mine = [one for one in under_way if one.compactor == request.node]
    aborted = [change for one in mine for change in abort_transaction(one.id, catalog)]
    if found is None:
        return tuple(aborted)
    of_bucket = (one for one in under_way if (one.table, one.compacts) == (found.table.id, found.bucket))
    if any(one.compactor != request.node for one in of_bucket):
        raise Refused("another node compacts this bucket", code=ErrorCode.BUSY, hint="ask again later")
    opening = OpenTransaction(
        cluster_id=request.cluster_id,
        transaction=transaction,
        table=found.table.id,
        schema_version=found.table.schema_version,
        generation=generation_of(catalog),
    )
    return (*aborted, *open_transaction(opening, catalog, compacts=(found.bucket, request.node)))


def task(
    request: AskCompaction, found: DueBucket, segment: SegmentId, revision: Revision, generation: Generation
) -> CompactionTask:
    """What the node has to do: write the new `segment`, in its transaction, which was opened at `revision`."""
    ticket = CompactTicket(
        cluster_id=request.cluster_id,
        transaction=segment_transaction(segment),
        segment=segment,
        table=found.table.id,
        bucket=found.bucket,
        schema_version=found.table.schema_version,
        joined=tuple((one.segment, one.sha256) for one in found.segments),
        revision=revision,
        generation=generation,
    )
    return CompactionTask(
        ticket=ticket, size_bytes=sum(one.nbytes for one in found.segments), deletes=found.table.deletes
    )


def compacted_bucket(request: EndCompaction, catalog: Catalog) -> BucketNumber:
    """The bucket whose compaction the node ends. Raises `Refused` (TRANSACTION_UNKNOWN) if it was given none in this
    transaction, and with code BAD_SEGMENT if it names a segment of another bucket."""
    record = catalog.transactions.get(request.transaction)
    if record is None or record.compacts is None or record.compactor != request.node:
        raise Refused(
            f"node {request.node} compacts nothing in write transaction {request.transaction[:64]!r}",
            code=ErrorCode.TRANSACTION_UNKNOWN,
            hint="ask for another task",
        )
    if request.segment is not None and request.segment.bucket != record.compacts:
        raise Refused("the new segment is of another bucket", code=ErrorCode.BAD_SEGMENT, hint="upgrade the node")
    return record.compacts


def commit_request(request: EndCompaction, bucket: BucketNumber) -> CommitTransaction:
    """The commit of a task that is done."""
    segments = () if request.segment is None or not request.segment.rows else (request.segment,)
    return CommitTransaction(
        cluster_id=request.cluster_id,
        transaction=request.transaction,
        segments=segments,
        replaces=tuple(Replaced(bucket=bucket, segment=one) for one in request.joined),
        deletes=request.deletes,
        kept=len(segments),
        keeps_rows=True,
    )
