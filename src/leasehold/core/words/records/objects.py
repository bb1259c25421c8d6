"""What people name in the catalog: databases, tables, views, and where their rows are."""

from enum import StrEnum
from typing import Literal

import msgspec

from leasehold.core.words.records.base import Record
from leasehold.ids import BucketNumber, FieldId, NodeId, ObjectId, Revision, SchemaVersion


class UseState(StrEnum):
    """Whether an object may be used. PRE_DELETE: hidden and refused, not yet past the point of no return."""

    IN_USE = "IN_USE"
    PRE_DELETE = "PRE_DELETE"


class DatabaseRecord(Record, frozen=True, kw_only=True, tag="database/1"):
    """A database."""

    id: ObjectId
    name: str
    state: UseState
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)


class Field(Record, frozen=True, kw_only=True, tag="field/1"):
    """A column; its identity is `id`, resolved when rows are read. `type` is spelled as in `core.words.types`.

    Values are literals as `core.words.literals` spells them, None for NULL.
    """

    id: FieldId
    name: str
    type: str
    nullable: bool
    state: UseState
    initial: str | None = None
    """What rows have that were written before the column was there; never changes."""
    default: str | None = None
    """What rows get from here on that are written without it."""
    comment: str = ""


class Widening(Record, frozen=True, kw_only=True, tag="widening/1"):
    """A column got a wider type: files of the schema versions below `before` have it in `type`."""

    field: FieldId
    before: SchemaVersion
    type: str


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
    comment: str = ""
    deletes: int = 0
    """The number of the newest DELETE of its rows; a TTL that is shortened takes a number too."""
    min_in_sync: int = 0
    """How many nodes must hold the rows of a write at its commit; 0: as the cluster's setting says."""
    widened: tuple[Widening, ...] = ()
    """Of the columns that are there, the earliest first: who reads a file by itself must know its types."""
    taken: int = 0
    """Counts as `SegmentRecord.number`: the newest commit that has replaced rows of the table by others."""
    deleted: Revision = Revision(0)
    """The first that shows the newest DELETE, or the newest TTL that took rows away at once."""
    changes_from: Revision = Revision(0)
    """What has changed after this revision is known whole: all segments that were replaced since are kept."""


class Need(Record, frozen=True, kw_only=True, tag="need/1"):
    """What a view reads of a table; of another view it needs all, and names no field."""

    object: ObjectId
    fields: tuple[FieldId, ...]


class ViewColumn(Record, frozen=True, kw_only=True, tag="view-column/1"):
    """A column that a view shows."""

    name: str
    type: str
    """Spelled as in `core.words.types`; empty where only the engine that runs the body can tell."""


class ViewRecord(Record, frozen=True, kw_only=True, tag="view/1"):
    """A view; its names are those of tables too. `body` is one SELECT in canonical text, every name qualified."""

    id: ObjectId
    database: ObjectId
    name: str
    state: UseState
    body: str
    columns: tuple[ViewColumn, ...]
    needs: tuple[Need, ...]
    comment: str = ""


class Comparison(Record, frozen=True, kw_only=True, tag="comparison/1"):
    """`field operator value`, the value a literal of the column's type; a NULL compares with nothing."""

    field: FieldId
    operator: Literal["=", "<", "<=", ">", ">="]
    value: str


class DeleteRecord(Record, frozen=True, kw_only=True, tag="delete/1"):
    """Rows of a table that are gone: those that fulfil all of `where`, in segments older than the DELETE `number`.

    PRE_DELETE: hidden, and back again if the statement is rolled back.
    """

    table: ObjectId
    number: int
    state: UseState
    where: tuple[Comparison, ...]


class BucketRecord(Record, frozen=True, kw_only=True, tag="bucket/1"):
    """Where a bucket lives: the nodes it is assigned to, and those known to hold all of it."""

    table: ObjectId
    bucket: BucketNumber
    replicas: tuple[NodeId, ...]
    in_sync: tuple[NodeId, ...]
    retired: tuple[NodeId, ...] = ()
    """Nodes that were replicas, and that the manifest may still name as holders (`core.replicas.retired`)."""
    retired_below: int = 0
    """Write transactions with a smaller number may have staged segments on them."""
    moving: tuple[NodeId, NodeId] | None = None
    """A replica that a rebalance moves: from which node to which one (`core.replicas.spread`)."""


class HorizonRecord(Record, frozen=True, kw_only=True, tag="horizon/1"):
    """A table's expiry horizon: rows whose time column lies before it are gone. It only grows."""

    table: ObjectId
    horizon_us: int
    """Microseconds since 1970 UTC, in the unit of the time column."""
    hidden_us: int | None = None
    """A later one, of a TTL that is being shortened: it hides rows, which are back if that is rolled back."""
    since: int = 0
    """The table's number (`TableRecord.deletes`) of the newest TTL that moved it at once, not with time."""

    @property
    def earliest_us(self) -> int:
        """Rows older than this are not shown."""
        return self.horizon_us if self.hidden_us is None else max(self.horizon_us, self.hidden_us)


class DroppedRecord(Record, frozen=True, kw_only=True, tag="dropped/1"):
    """The point of no return of a drop: nodes delete the table's files and are struck off `pending`."""

    table: ObjectId
    name: str
    pending: tuple[NodeId, ...]
