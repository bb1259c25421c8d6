"""What processes say to each other, each message defined once, in one closed union.

Durations travel, clock readings never do. Every request carries the cluster id, and what a node sends
carries its id, incarnation and session. The tag carries the version.
"""

from typing import TypeAlias

import msgspec

from leasehold.core.operations import RevisionChanges
from leasehold.core.records import (
    BarrierReceipt,
    ColumnStatistics,
    Field,
    Outcome,
    SegmentRecord,
    SettledNode,
    TransactionState,
)
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    FieldId,
    Generation,
    Incarnation,
    LineageHash,
    NodeId,
    Nonce,
    ObjectId,
    RequestNumber,
    Revision,
    SchemaVersion,
    SegmentId,
    Sequence,
    Session,
    StatementId,
    Term,
    Token,
    TransactionId,
)


class Base(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True):
    """Base of every message."""


class Failure(Base, frozen=True, kw_only=True, tag="failure/1"):
    """A definite or indefinite error as it travels."""

    code: str
    text: str
    hint: str
    definite: bool


# ---------------------------------------------------------------- identity (section 5)


class WhoAreYou(Base, frozen=True, kw_only=True, tag="who-are-you/1"):
    """Asks a coordinator which cluster it serves."""


class ClusterFacts(Base, frozen=True, kw_only=True, tag="cluster-facts/1"):
    """What a coordinator serves; `leader` says whether it leads."""

    cluster_id: ClusterId
    generation: Generation
    term: Term
    leader: bool


class Initialise(Base, frozen=True, kw_only=True, tag="initialise/1"):
    """Gives a new meta storage its cluster id, once; a second one is refused."""

    cluster_id: ClusterId


class Allocate(Base, frozen=True, kw_only=True, tag="allocate/1"):
    """Asks for an id; the token makes it idempotent."""

    cluster_id: ClusterId
    token: Token
    name: str
    address: str


class AllocateAnswer(Base, frozen=True, kw_only=True, tag="allocate-answer/1"):
    """The id that belongs to the token for ever."""

    node: NodeId


class Join(Base, frozen=True, kw_only=True, tag="join/1", omit_defaults=True):
    """Asks to be let in as the next incarnation. `finished` is the nonce of the attempt that led to `previous`."""

    cluster_id: ClusterId
    generation: Generation
    token: Token
    node: NodeId
    name: str
    address: str
    previous: Incarnation
    nonce: Nonce
    session: Session
    protocol: int
    applied: Revision
    lineage: LineageHash
    finished: Nonce | None = None


class JoinAnswer(Base, frozen=True, kw_only=True, tag="join-answer/1"):
    """Admitted: write the incarnation durably before anything is sent under it."""

    incarnation: Incarnation


class JoinWait(Base, frozen=True, kw_only=True, tag="join-wait/1"):
    """The lease of the previous incarnation has not ended; ask again, same nonce, after this long."""

    wait_ns: int


# ---------------------------------------------------------------- a node's session stream


class OpenSession(Base, frozen=True, kw_only=True, tag="open-session/1"):
    """First message of a stream: who speaks, and where its watch begins."""

    cluster_id: ClusterId
    node: NodeId
    incarnation: Incarnation
    session: Session
    watch_from: Revision


class SessionOpened(Base, frozen=True, kw_only=True, tag="session-opened/1"):
    """The answer to it: the leader's term, how often to renew, and LM."""

    term: Term
    renew_every_ns: int
    latest: Revision


class Renewal(Base, frozen=True, kw_only=True, tag="renewal/1"):
    """The holder asks for its lease; `applied` is published in its view already."""

    node: NodeId
    incarnation: Incarnation
    session: Session
    request: RequestNumber
    applied: Revision
    lineage: LineageHash


class Grant(Base, frozen=True, kw_only=True, tag="grant/1"):
    """Permission to serve for `duration_ns` from the local instant at which `request` was stamped."""

    request: RequestNumber
    term: Term
    sequence: Sequence
    duration_ns: int
    floor: Revision


class RenewalRefused(Base, frozen=True, kw_only=True, tag="renewal-refused/1"):
    """No grant; BEHIND and NOT_LEADER may pass, every other code ends the process that asked."""

    request: RequestNumber
    code: str
    text: str


class Watched(Base, frozen=True, kw_only=True, tag="watched/1"):
    """A whole revision of the watched range."""

    batch: RevisionChanges


class WatchFailed(Base, frozen=True, kw_only=True, tag="watch-failed/1"):
    """The watch can't go on: the revision asked for is compacted or lies in the future."""

    code: str
    minimum: Revision


class Surrender(Base, frozen=True, kw_only=True, tag="surrender/1"):
    """The last message of an incarnation: it serves nothing any more."""

    node: NodeId
    incarnation: Incarnation
    session: Session


class SurrenderAccepted(Base, frozen=True, kw_only=True, tag="surrender-accepted/1"):
    """The incarnation is closed."""


class SegmentsHeld(Base, frozen=True, kw_only=True, tag="segments-held/1"):
    """A node has fetched and verified these segments of a bucket, durably."""

    node: NodeId
    incarnation: Incarnation
    session: Session
    table: ObjectId
    bucket: BucketNumber
    segments: tuple[SegmentId, ...]


class TableCleaned(Base, frozen=True, kw_only=True, tag="table-cleaned/1"):
    """A node holds no file of a dropped table any more."""

    node: NodeId
    incarnation: Incarnation
    session: Session
    table: ObjectId


# ---------------------------------------------------------------- clients


class Execute(Base, frozen=True, kw_only=True, tag="execute/1"):
    """Runs one SQL statement; the same id again tells the outcome instead of running it twice."""

    cluster_id: ClusterId | None
    statement: StatementId
    text: str


class AskOutcome(Base, frozen=True, kw_only=True, tag="ask-outcome/1"):
    """What became of a statement."""

    cluster_id: ClusterId | None
    statement: StatementId


class Receipt(Base, frozen=True, kw_only=True, tag="receipt/1"):
    """How a statement that changes something ended."""

    statement_id: StatementId
    text: str
    revision: Revision | None
    outcome: Outcome
    elapsed_ns: int
    bound_ns: int
    settled: tuple[SettledNode, ...]
    pending: tuple[NodeId, ...]
    cleaning: tuple[NodeId, ...]


class WaitingFor(Base, frozen=True, kw_only=True, tag="waiting-for/1"):
    """Progress of a statement: which nodes hold it up, and for how long at most."""

    statement_id: StatementId
    nodes: tuple[str, ...]
    at_most_ns: int


class Rows(Base, frozen=True, kw_only=True, tag="rows/1"):
    """The answer to SHOW and DESCRIBE."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | bool | None, ...], ...]
    revision: Revision


class AskStatus(Base, frozen=True, kw_only=True, tag="ask-status/1"):
    """Asks for the state of the cluster."""


class NodeStatus(Base, frozen=True, kw_only=True, tag="node-status/1"):
    """`state` is one of ACTIVE, RECOVERING, FENCED, DOWN."""

    id: NodeId
    name: str
    address: str
    incarnation: Incarnation
    state: str
    applied_revision: Revision | None
    lease_remaining_ns: int


class ClusterStatus(Base, frozen=True, kw_only=True, tag="cluster-status/1"):
    """The state of the cluster as its leader sees it."""

    cluster_id: ClusterId
    term: Term
    revision: Revision
    bound_ns: int
    nodes: tuple[NodeStatus, ...]


class AskReceipts(Base, frozen=True, kw_only=True, tag="ask-receipts/1"):
    """Asks for the barriers of the statements still known, oldest first, from `after` on."""

    after: int
    limit: int


class KnownBarrier(Base, frozen=True, kw_only=True, tag="known-barrier/1"):
    """A statement's barrier, for the audit."""

    order: int
    statement: StatementId
    barrier: BarrierReceipt


class Receipts(Base, frozen=True, kw_only=True, tag="receipts/1"):
    """A page of barriers; ask again from `next_after` unless it is None."""

    barriers: tuple[KnownBarrier, ...]
    next_after: int | None


# ---------------------------------------------------------------- data


class AskTable(Base, frozen=True, kw_only=True, tag="ask-table/1"):
    """Asks for a table's schema by name."""

    cluster_id: ClusterId | None
    name: str


class Place(Base, frozen=True, kw_only=True, tag="place/1"):
    """Where a node serves Flight."""

    node: NodeId
    name: str
    address: str
    incarnation: Incarnation


class BucketPlaces(Base, frozen=True, kw_only=True, tag="bucket-places/1"):
    """The replicas of a bucket, those in sync first."""

    bucket: BucketNumber
    replicas: tuple[NodeId, ...]


class TableFacts(Base, frozen=True, kw_only=True, tag="table-facts/1"):
    """A table as a client needs it to read or write."""

    cluster_id: ClusterId
    revision: Revision
    table: ObjectId
    name: str
    schema_version: SchemaVersion
    fields: tuple[Field, ...]
    cluster_by: FieldId | None
    buckets: tuple[BucketPlaces, ...]
    places: tuple[Place, ...]


class OpenTransaction(Base, frozen=True, kw_only=True, tag="open-transaction/1"):
    """Opens a write transaction on a table; the same id again gives the same answer."""

    cluster_id: ClusterId
    transaction: TransactionId
    table: ObjectId
    schema_version: SchemaVersion


class TransactionFacts(Base, frozen=True, kw_only=True, tag="transaction-facts/1"):
    """A write transaction's state; `revision` is the commit's where COMMITTED."""

    transaction: TransactionId
    state: TransactionState
    rows: int
    revision: Revision


class Holder(Base, frozen=True, kw_only=True, tag="holder/1"):
    """A node that has a segment on disk, synced."""

    node: NodeId
    incarnation: Incarnation


class StagedSegment(Base, frozen=True, kw_only=True, tag="staged-segment/1"):
    """What a node answers to a write: the file as it lies on every holder."""

    id: SegmentId
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    rows: int
    size_bytes: int
    sha256: bytes
    statistics: tuple[ColumnStatistics, ...]
    holders: tuple[Holder, ...]


class CommitTransaction(Base, frozen=True, kw_only=True, tag="commit-transaction/1"):
    """Makes the segments visible, all or none; the same id again tells the outcome."""

    cluster_id: ClusterId
    transaction: TransactionId
    segments: tuple[StagedSegment, ...]


class AbortTransaction(Base, frozen=True, kw_only=True, tag="abort-transaction/1"):
    """Ends a write transaction without effect, unless it is committed already."""

    cluster_id: ClusterId
    transaction: TransactionId


class PlanScan(Base, frozen=True, kw_only=True, tag="plan-scan/1"):
    """Pins a revision and the segments of a table; `columns` None means all."""

    cluster_id: ClusterId | None
    name: str
    columns: tuple[str, ...] | None


class ScanPlan(Base, frozen=True, kw_only=True, tag="scan-plan/1"):
    """What to read, and from where: any holder with a lease will do."""

    facts: TableFacts
    fields: tuple[Field, ...]
    segments: tuple[SegmentRecord, ...]


# ---------------------------------------------------------------- tickets and batch marks on Flight


class WriteTicket(Base, frozen=True, kw_only=True, tag="write-ticket/1"):
    """Descriptor of a DoPut by a client: rows of one bucket, for one new segment."""

    cluster_id: ClusterId
    transaction: TransactionId
    segment: SegmentId
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    revision: Revision


class ForwardTicket(Base, frozen=True, kw_only=True, tag="forward-ticket/1"):
    """Descriptor of a DoPut by the node that encodes: the segment's bytes as they are on its disk."""

    cluster_id: ClusterId
    segment: SegmentId
    table: ObjectId
    bucket: BucketNumber
    revision: Revision
    sender: NodeId
    sender_incarnation: Incarnation


class SegmentStored(Base, frozen=True, kw_only=True, tag="stored/1"):
    """The answer of a replica that wrote forwarded bytes."""

    node: NodeId
    incarnation: Incarnation
    size_bytes: int
    sha256: bytes


class RowsEnd(Base, frozen=True, kw_only=True, tag="rows-end/1"):
    """Ends a client's DoPut: a stream that ends without it was cut off, and its rows are thrown away."""

    rows: int


class BytesEnd(Base, frozen=True, kw_only=True, tag="bytes-end/1"):
    """Ends a node's DoPut in the same way: what the file must be."""

    size_bytes: int
    sha256: bytes


class ReadTicket(Base, frozen=True, kw_only=True, tag="read-ticket/1"):
    """Ticket of a DoGet: one segment of a table from a row on, projected on `fields`.

    `revision` is the newest the client has seen: the node waits for it, within a bound.
    """

    cluster_id: ClusterId
    request: str
    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId
    sha256: bytes
    row_offset: int
    fields: tuple[Field, ...]
    revision: Revision


class FetchTicket(Base, frozen=True, kw_only=True, tag="fetch-ticket/1"):
    """Ticket of a DoGet by a node: the bytes of a segment."""

    cluster_id: ClusterId
    table: ObjectId
    bucket: BucketNumber
    segment: SegmentId


class BatchMark(Base, frozen=True, kw_only=True, tag="batch-mark/1"):
    """Travels with each batch: the first row after it, and the lease it was released under."""

    next_row: int
    view_revision: Revision
    term: Term
    sequence: Sequence


Message: TypeAlias = (
    Failure
    | WhoAreYou
    | ClusterFacts
    | Initialise
    | Allocate
    | AllocateAnswer
    | Join
    | JoinAnswer
    | JoinWait
    | OpenSession
    | SessionOpened
    | Renewal
    | Grant
    | RenewalRefused
    | Watched
    | WatchFailed
    | Surrender
    | SurrenderAccepted
    | SegmentsHeld
    | TableCleaned
    | Execute
    | AskOutcome
    | Receipt
    | WaitingFor
    | Rows
    | AskStatus
    | NodeStatus
    | ClusterStatus
    | AskReceipts
    | Receipts
    | AskTable
    | TableFacts
    | OpenTransaction
    | TransactionFacts
    | StagedSegment
    | CommitTransaction
    | AbortTransaction
    | PlanScan
    | ScanPlan
    | WriteTicket
    | ForwardTicket
    | RowsEnd
    | BytesEnd
    | SegmentStored
    | ReadTicket
    | FetchTicket
    | BatchMark
)
"""Everything that may travel on its own."""
