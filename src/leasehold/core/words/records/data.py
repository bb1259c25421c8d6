"""Segments and the write transactions that make them visible."""

from enum import IntEnum, StrEnum

from leasehold.core.words.records.base import Record
from leasehold.ids import (
    BucketNumber,
    FieldId,
    NodeId,
    ObjectId,
    PrincipalId,
    Revision,
    SchemaVersion,
    SegmentId,
    TransactionId,
)


class ColumnStatistics(Record, frozen=True, kw_only=True, tag="statistics/1"):
    """Of one field of one segment; bounds are JSON scalars, None where unknown or not comparable."""

    field: FieldId
    nulls: int
    minimum: bool | int | float | str | None
    maximum: bool | int | float | str | None


class SegmentFormat(IntEnum):
    """How a segment file names its columns. All formats have the field ids (`PARQUET:field_id`)."""

    COLUMN_NAMES = 1
    """By the names that the columns of the table had when the file was written."""
    FIELD_IDS = 2
    """By field id, as `#7`, which is no name of a column (docs/decisions/0057-columns-in-files-are-named-by-id.md)."""


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
    deletes: int = 0
    """The newest DELETE of the table that was there when this became visible: only later ones concern its rows."""
    format: SegmentFormat = SegmentFormat.COLUMN_NAMES
    """Of its file."""
    number: int = 0
    """Counts the segments of the cluster with new rows, in the order of their commits. 0 for one whose rows were there
    before, and for one of an older version."""
    joins: "JoinedSegments | None" = None
    """Where its rows were before, if they were."""
    commit: Revision = Revision(0)
    """That of its own commit, if it has rows that were not there before or that stay while others are replaced; 0 in a
    rewrite, and for one of an older version."""


class JoinedSegments(Record, frozen=True, kw_only=True, tag="joined/1"):
    """The segments that a commit replaced by others with the same rows."""

    segments: int
    """How many."""
    newest: int
    """The greatest number of those with new rows that any of them is made of; 0 if none has one."""


class ReplacedRecord(Record, frozen=True, kw_only=True, tag="replaced-segment/1"):
    """A segment that a rewrite took out of the manifest: nodes keep it for a while, for scans that began before."""

    segment: SegmentRecord
    """Without its statistics: nobody plans with it any more."""
    by: TransactionId | None = None
    """The write transaction whose commit replaced it; None in records of older versions."""
    commit: Revision = Revision(0)
    """The revision of this commit, if it replaced rows by others; 0 if all rows stay, as in a rewrite."""


class QueryRecord(Record, frozen=True, kw_only=True, tag="query/1"):
    """The cutoff of a table for a query that several processes run; see the message `Cutoff`."""

    table: ObjectId
    query: str
    """128 random bits in hex."""
    deletes: int
    undecided: tuple[int, ...]
    earliest_us: int | None
    pinned: Revision = Revision(0)
    """The revision that the query reads, if it reads the present."""
    begun_by: PrincipalId | None = None
    """The user whose share it is in; None without users, and in records of older versions."""


class StreamRecord(Record, frozen=True, kw_only=True, tag="stream/1"):
    """The newest batch that a streaming query has committed (`core/data/streams.py`)."""

    query: str
    table: ObjectId
    batch: int
    committed_us: int
    """Microseconds since 1970 UTC."""
    begun_by: PrincipalId | None = None
    """The user whose share the query is in; None without users, and in records of older versions."""


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
    user: str | None = None
    """Who asked for it, where users exist; as `login` only of an INSERT."""
    login: bytes | None = None
    """The hash of the login that it came with."""
    text_sha256: bytes = b""
    """Of the text of an INSERT; empty for other appends, and in records of older versions."""
    compacts: BucketNumber | None = None
    """The bucket that a node compacts in it by itself: nobody else may write or commit here."""
    compactor: NodeId | None = None
    """This node."""
    begun_by: PrincipalId | None = None
    """The user whose share it is in while it is open; None without users, for compactions by nodes, and in records of
    older versions."""
