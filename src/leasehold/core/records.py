"""What the meta storage and the vault hold, each record defined once.

A record's tag carries its version (`node/1`); a change of shape is a new struct under a new tag, and the
golden bytes of the old one stay in the tests for ever. Records hold no clock reading. Secrets (tokens,
sessions) are stored as their SHA-256, since every node can read every record.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from leasehold.ids import (
    BucketNumber,
    ClusterId,
    FieldId,
    Generation,
    Incarnation,
    NodeId,
    Nonce,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    Sequence,
    StatementId,
    Term,
    Token,
    TransactionId,
)


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True):
    """Base of everything stored."""


# ---------------------------------------------------------------- the cluster


class ClusterRecord(Record, frozen=True, kw_only=True, tag="cluster/1"):
    """Written once, by initialisation."""

    cluster_id: ClusterId
    generation: Generation
    format_version: int


class SettingsRecord(Record, frozen=True, kw_only=True, tag="settings/1"):
    """What the cluster must agree on; changed by statements, never by a process's configuration."""

    lease_duration_ns: int
    lease_margin_ns: int
    drift_ppm: int
    catch_up_difference: int
    min_in_sync: int


class CountersRecord(Record, frozen=True, kw_only=True, tag="counters/1"):
    """The next number of each kind; they only grow."""

    next_node: NodeId
    next_object: ObjectId
    next_procedure: int
    next_transaction: int


class LargestLeaseRecord(Record, frozen=True, kw_only=True, tag="largest-lease/1"):
    """An upper bound on the duration of every grant that may still be outstanding."""

    duration_ns: int


class LeaderRecord(Record, frozen=True, kw_only=True, tag="leader/1"):
    """Who leads; lies outside the watched range."""

    generation: Generation
    term: Term
    holder: str
    beat: int
    duration_ns: int


class NodeRecord(Record, frozen=True, kw_only=True, tag="node/1"):
    """A data node. `incarnation` 0: allocated an id, never joined."""

    id: NodeId
    name: str
    address: str
    token_hash: bytes
    incarnation: Incarnation
    nonce: Nonce | None
    session_hash: bytes | None
    removed: bool


# ---------------------------------------------------------------- the catalog


class UseState(StrEnum):
    """Whether an object may be used. PRE_DELETE: hidden and refused, not yet past the point of no return."""

    IN_USE = "IN_USE"
    PRE_DELETE = "PRE_DELETE"


class DatabaseRecord(Record, frozen=True, kw_only=True, tag="database/1"):
    """A database."""

    id: ObjectId
    name: str
    state: UseState


class Field(Record, frozen=True, kw_only=True, tag="field/1"):
    """A column; its identity is `id`, resolved when rows are read. `type` is spelled as in `core.types`."""

    id: FieldId
    name: str
    type: str
    nullable: bool
    state: UseState


class TableRecord(Record, frozen=True, kw_only=True, tag="table/1"):
    """A table and its schema. `cluster_by` is the field whose hash picks the bucket, if any."""

    id: ObjectId
    database: ObjectId
    name: str
    state: UseState
    schema_version: SchemaVersion
    fields: tuple[Field, ...]
    next_field: FieldId
    cluster_by: FieldId | None
    buckets: int
    replication: int
    ttl_ns: int | None
    time_column: FieldId | None
    properties: dict[str, str]


class BucketRecord(Record, frozen=True, kw_only=True, tag="bucket/1"):
    """Where a bucket lives: the nodes it is assigned to, and those known to hold all of it."""

    table: ObjectId
    bucket: BucketNumber
    replicas: tuple[NodeId, ...]
    in_sync: tuple[NodeId, ...]


class HorizonRecord(Record, frozen=True, kw_only=True, tag="horizon/1"):
    """A table's expiry horizon: rows whose time column lies before it are gone. It only grows."""

    table: ObjectId
    horizon_us: int
    """Microseconds since 1970 UTC, in the unit of the time column."""


class DroppedRecord(Record, frozen=True, kw_only=True, tag="dropped/1"):
    """The point of no return of a drop: nodes delete the table's files and are struck off `pending`."""

    table: ObjectId
    name: str
    pending: tuple[NodeId, ...]


# ---------------------------------------------------------------- data


class ColumnStatistics(Record, frozen=True, kw_only=True, tag="statistics/1"):
    """Of one field of one segment; bounds are JSON scalars, None where unknown or not comparable."""

    field: FieldId
    nulls: int
    minimum: bool | int | float | str | None
    maximum: bool | int | float | str | None


class SegmentRecord(Record, frozen=True, kw_only=True, tag="segment/1"):
    """A manifest entry: an immutable file, visible from the revision that wrote this record."""

    id: SegmentId
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    rows: int
    size_bytes: int
    sha256: bytes
    statistics: tuple[ColumnStatistics, ...]
    holders: tuple[NodeId, ...]


class TransactionState(StrEnum):
    """A write transaction is OPEN, then ends once."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class TransactionRecord(Record, frozen=True, kw_only=True, tag="transaction/1"):
    """A write transaction; `id` is its idempotency key, `order` says which to purge first."""

    id: TransactionId
    order: int
    table: ObjectId
    schema_version: SchemaVersion
    state: TransactionState
    rows: int


# ---------------------------------------------------------------- statements


class SettledHow(StrEnum):
    """Why a node no longer holds a barrier up."""

    APPLIED = "applied"
    FENCED = "fenced"
    SURRENDERED = "surrendered"
    REMOVED = "removed"


class SettledNode(Record, frozen=True, kw_only=True, tag="settled/1"):
    """One line of a receipt: `after_ns` is the time since the barrier began."""

    node: NodeId
    how: SettledHow
    after_ns: int


class BarrierReceipt(Record, frozen=True, kw_only=True, tag="barrier/1"):
    """A barrier that proceeded: each grant after `sequence` of `term`, or of a later term, has floor >= `revision`."""

    revision: Revision
    term: Term
    sequence: Sequence
    settled: tuple[SettledNode, ...]


class Outcome(StrEnum):
    """How a statement ended."""

    COMMITTED = "COMMITTED"
    COMMITTED_PENDING = "COMMITTED_PENDING"
    ROLLED_BACK = "ROLLED_BACK"
    REFUSED = "REFUSED"
    RUNNING = "RUNNING"


class StatementRecord(Record, frozen=True, kw_only=True, tag="statement/1"):
    """A statement that committed something; `order` says which to purge first."""

    id: StatementId
    order: int
    text: str
    outcome: Outcome
    revision: Revision | None
    elapsed_ns: int
    bound_ns: int
    barriers: tuple[BarrierReceipt, ...]
    pending: tuple[NodeId, ...]


class Step(StrEnum):
    """Where a procedure stands; written in the same transaction as the catalog."""

    PUBLISHED = "PUBLISHED"
    """Additive: the change is committed at the revision of this record; its barrier comes next."""
    PRE_STATE = "PRE_STATE"
    """Destructive: the pre-state is committed at the revision of this record; its barrier comes next."""
    FINISHED = "FINISHED"
    """Destructive: past the point of no return; only the statement's record is left to close."""


class ProcedureRecord(Record, frozen=True, kw_only=True, tag="procedure/1"):
    """A running statement, resumable by any later leader exactly where it stands."""

    number: int
    statement: StatementId
    text: str
    step: Step
    kind: Literal["additive", "destructive"]
    target: ObjectId
    field: FieldId | None


# ---------------------------------------------------------------- the vault


class Claiming(Record, frozen=True, kw_only=True, tag="claiming/1"):
    """A node that asks for an id; durable before it asks."""

    token: Token


class Allocated(Record, frozen=True, kw_only=True, tag="allocated/1", omit_defaults=True):
    """A node that owns an id. `incarnation` is its newest known one, 0 before the first join; `nonce` named the
    attempt that led to it."""

    token: Token
    node: NodeId
    cluster_id: ClusterId
    incarnation: Incarnation
    nonce: Nonce | None = None


class Joining(Record, frozen=True, kw_only=True, tag="joining/1", omit_defaults=True):
    """A node in the middle of a join; an unfinished one is retried with its own nonce. `finished` is the nonce of the
    attempt that led to `previous`."""

    token: Token
    node: NodeId
    cluster_id: ClusterId
    previous: Incarnation
    nonce: Nonce
    finished: Nonce | None = None


IdentityRecord: TypeAlias = Claiming | Allocated | Joining

AnyRecord: TypeAlias = (
    ClusterRecord
    | SettingsRecord
    | CountersRecord
    | LargestLeaseRecord
    | LeaderRecord
    | NodeRecord
    | DatabaseRecord
    | TableRecord
    | BucketRecord
    | HorizonRecord
    | DroppedRecord
    | SegmentRecord
    | TransactionRecord
    | StatementRecord
    | ProcedureRecord
    | Claiming
    | Allocated
    | Joining
)
"""Everything that is stored under a key of its own."""
