"""Compaction: a node writes a new segment with the rows of old ones, for a client or by itself."""

from typing import Annotated

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage, Word
from leasehold.core.words.messages.data import StagedSegment
from leasehold.core.words.messages.session import NodeMessage
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Generation,
    NodeLogin,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    TransactionId,
)
from leasehold.limits.upkeep import REWRITE_PORTION_SEGMENTS


class CompactTicket(BaseMessage, frozen=True, kw_only=True, tag="compact-ticket/1"):
    """Ticket of a DoGet by a client: the node writes a new segment with the rows of some that it holds.

    `joined` are these, of one bucket, each with its hash. `revision` is that of the transaction, which was opened after
    they were planned: so the node knows what they hide by the plan. The other fields are as in `WriteTicket`.
    """

    cluster_id: Annotated[ClusterId, Word]
    transaction: Annotated[TransactionId, Word]
    segment: Annotated[SegmentId, Word]
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    joined: Annotated[tuple[tuple[Annotated[SegmentId, Word], bytes], ...], Meta(max_length=REWRITE_PORTION_SEGMENTS)]
    revision: Revision
    generation: Generation
    """That of the plan, as in `ReadTicket`."""
    login: Annotated[NodeLogin, Word] | None = None


class CompactProgress(BaseMessage, frozen=True, kw_only=True, tag="compact-progress/1"):
    """Comes now and then before the answer to a CompactTicket, a `StagedSegment`: how many rows were read so far."""

    rows: int


class AskCompaction(NodeMessage, frozen=True, kw_only=True, tag="ask-compaction/1"):
    """A node asks for a bucket of a table with 'compact' = 'auto' whose small segments it should join: the next one
    after this bucket, in the order of tables and buckets, and around."""

    cluster_id: ClusterId
    table: ObjectId = ObjectId(0)
    bucket: BucketNumber = BucketNumber(0)


class CompactionTask(BaseMessage, frozen=True, kw_only=True, tag="compaction-task/1"):
    """The answer: what to do, in a transaction that is open for it; nothing without a ticket."""

    ticket: CompactTicket | None = None
    size_bytes: int = 0
    """Of the segments to join."""
    deletes: int = 0
    """As in `CommitTransaction`."""


class EndCompaction(NodeMessage, frozen=True, kw_only=True, tag="end-compaction/1"):
    """A node has done its task, and the new segment takes the place of the old ones; or it has failed, without a
    segment. The answer is a `TransactionFacts`."""

    cluster_id: ClusterId
    transaction: TransactionId
    joined: Annotated[tuple[SegmentId, ...], Meta(max_length=REWRITE_PORTION_SEGMENTS)]
    deletes: int
    segment: StagedSegment | None = None
