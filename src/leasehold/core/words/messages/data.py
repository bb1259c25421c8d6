"""Tables, write transactions and plans of scans."""

from typing import Annotated, TypeAlias
from typing import Literal as OneOf

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage, ClientRequest, Through
from leasehold.core.words.records import (
    ColumnStatistics,
    DeleteRecord,
    Field,
    SegmentFormat,
    SegmentRecord,
    TransactionState,
    ViewColumn,
)
from leasehold.core.words.statements import Literal
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    FieldId,
    Generation,
    Incarnation,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    TransactionId,
)
from leasehold.limits.messages import ASKED_MAX, ASKED_SEGMENTS_MAX, ASKED_VALUES_MAX
from leasehold.limits.statements import COLUMNS_MAX, FILTERS_MAX, REPLACED_VALUES_MAX
from leasehold.limits.upkeep import DELETES_MAX


class AskTable(ClientRequest, frozen=True, kw_only=True, tag="ask-table/1"):
    """Asks for a table's schema by name."""

    cluster_id: ClusterId | None
    name: str
    absences: bool = False
    """Whether the answer shall tell which of its nodes are away. Only a leader knows."""


class AskView(ClientRequest, frozen=True, kw_only=True, tag="ask-view/1"):
    """Asks for a view by name."""

    cluster_id: ClusterId | None
    name: str


class ViewFacts(BaseMessage, frozen=True, kw_only=True, tag="view-facts/1"):
    """A view as a client needs it to read it: `views` are all that it reads and last itself, each made from those
    before it and from `tables`."""

    cluster_id: ClusterId
    revision: Revision
    views: tuple["ViewBody", ...]
    tables: tuple["TableNeeded", ...]


class TableNeeded(BaseMessage, frozen=True, kw_only=True, tag="table-needed/1"):
    """A table that views read, and which of its columns: at least one."""

    name: str
    columns: tuple[str, ...]


class ViewBody(BaseMessage, frozen=True, kw_only=True, tag="view-body/1"):
    """One view; `body` is one SELECT, every name in it qualified. `columns` name what it selects, in order."""

    view: ObjectId
    name: str
    body: str
    columns: tuple[ViewColumn, ...]


class Place(BaseMessage, frozen=True, kw_only=True, tag="place/1"):
    """Where a node serves Flight."""

    node: NodeId
    name: str
    address: str
    incarnation: Incarnation


class NodeAbsence(BaseMessage, frozen=True, kw_only=True, tag="node-absence/1"):
    """A node that the leader does not hear, or that holds no lease."""

    node: NodeId
    lease_remaining_ns: int
    """How long its lease lasts at most; 0 once it has ended."""
    away_ns: int
    """For how long it has held none, as far as this leader knows."""
    replaced_in_ns: int | None = None
    """When its buckets get other replicas; None for never, or if no other node could have them."""


class BucketPlaces(BaseMessage, frozen=True, kw_only=True, tag="bucket-places/1"):
    """The replicas of a bucket, those in sync first."""

    bucket: BucketNumber
    replicas: tuple[NodeId, ...]


class TableFacts(BaseMessage, frozen=True, kw_only=True, tag="table-facts/1"):
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
    generation: Generation = Generation(1)
    """The one that these field ids and versions are of: another one gives the same numbers out anew."""
    absences: tuple[NodeAbsence, ...] = ()
    """Of its nodes, if a leader was asked for them."""


class OpenTransaction(ClientRequest, frozen=True, kw_only=True, tag="open-transaction/1"):
    """Opens a write transaction on a table; the same id again gives the same answer."""

    cluster_id: ClusterId
    transaction: TransactionId
    table: ObjectId
    schema_version: SchemaVersion
    generation: Generation = Generation(1)
    """That of the facts that the rows will be written by."""
    text_sha256: bytes = b""
    """Of the text of an INSERT, which its id stands for; empty for other appends."""


class TransactionFacts(BaseMessage, frozen=True, kw_only=True, tag="transaction-facts/1"):
    """A write transaction's state; `revision` is the commit's where COMMITTED."""

    transaction: TransactionId
    state: TransactionState
    rows: int
    revision: Revision
    segments_short: int = 0
    """Of a commit: how many of its segments are on fewer nodes than their table wants, as of the answer."""


class SegmentHolder(BaseMessage, frozen=True, kw_only=True, tag="holder/1"):
    """A node that has a segment on disk, synced."""

    node: NodeId
    incarnation: Incarnation
    seal: bytes = b""
    """Proves to the leader that this node says so (`core.data.seals`)."""


class StagedSegment(BaseMessage, frozen=True, kw_only=True, tag="staged-segment/1"):
    """What a node answers to a write: the file as it lies on every holder."""

    id: SegmentId
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    rows: int
    size_bytes: int
    sha256: bytes
    statistics: Annotated[tuple[ColumnStatistics, ...], Meta(max_length=COLUMNS_MAX)]
    holders: Annotated[tuple[SegmentHolder, ...], Meta(max_length=ASKED_MAX)]
    format: SegmentFormat = SegmentFormat.COLUMN_NAMES


class CommitTransaction(ClientRequest, frozen=True, kw_only=True, tag="commit-transaction/1"):
    """Makes the segments visible, all or none; the same id again asks for the outcome."""

    cluster_id: ClusterId
    transaction: TransactionId
    segments: Annotated[tuple[StagedSegment, ...], Meta(max_length=ASKED_SEGMENTS_MAX)]
    replaces: Annotated[tuple["Replaced", ...], Meta(max_length=ASKED_SEGMENTS_MAX)] = ()
    """Segments that go at the same revision: all their rows that are not deleted are in `segments`."""
    deletes: int = 0
    """With `replaces`: the newest DELETE that was applied to those rows."""
    forgets: bool = False
    """With `replaces` and without `segments`: these are lost, no node holds them, and their rows are given up."""
    covers: Annotated[tuple["FieldFilter", ...], Meta(max_length=FILTERS_MAX)] | None = None
    """Unless None: no segment but those that it `replaces` may hold a row that fulfils all of these."""
    kept: int = 0
    """How many of the last `segments` have only rows of segments that it `replaces`."""
    keeps_rows: bool = False
    """Whether the rows stay the same: all of the replaced segments are in `segments`, but those that are hidden."""
    batch: "StreamBatch | None" = None
    """Which batch of a streaming query this is, if it is one: each is committed once."""

    @property
    def takes_rows(self) -> bool:
        """Whether rows that are visible may go."""
        return bool(self.replaces) or self.covers is not None


class StreamBatch(BaseMessage, frozen=True, kw_only=True, tag="stream-batch/1"):
    """A batch of a streaming query, in which the batches of that query are numbered."""

    query: str
    """As its checkpoint says; it stays the same when the query starts anew."""
    number: int


class Replaced(BaseMessage, frozen=True, kw_only=True, tag="replaced/1"):
    """A segment that a commit replaces."""

    bucket: BucketNumber
    segment: SegmentId


class AbortTransaction(ClientRequest, frozen=True, kw_only=True, tag="abort-transaction/1"):
    """Ends a write transaction without effect, unless it is committed already."""

    cluster_id: ClusterId
    transaction: TransactionId


class Cutoff(BaseMessage, frozen=True, kw_only=True, tag="cutoff/1"):
    """Which rows of a table are gone for all of one query: what DELETEs up to number `deletes` take, and what lies
    before `earliest_us`. As of `revision`."""

    revision: Revision
    deletes: int
    undecided: Annotated[tuple[int, ...], Meta(max_length=DELETES_MAX)] = ()
    """Those of the DELETEs that may still be rolled back."""
    earliest_us: int | None = None
    """Microseconds since 1970 UTC; None where no row expires."""
    pinned: Revision = Revision(0)
    """The revision that a query of several processes reads, if it reads the present."""


class AgreeCutoff(ClientRequest, frozen=True, kw_only=True, tag="agree-cutoff/1"):
    """Asks for the `Cutoff` of a query that several processes run: all of them get the same."""

    cluster_id: ClusterId
    table: ObjectId
    query: str
    """128 random bits in hex."""
    through: Through = ()
    """The views that the table is read through."""


FilterOperator: TypeAlias = OneOf["=", "<", "<=", ">", ">=", "IN", "IS NULL", "IS NOT NULL", "STARTS WITH"]


class Filter(BaseMessage, frozen=True, kw_only=True, tag="filter/1"):
    """A condition on a column, as a reader asks for it: IN has at least one value, the null tests none, others one."""

    column: str
    operator: FilterOperator
    values: Annotated[tuple[Literal, ...], Meta(max_length=ASKED_VALUES_MAX)] = ()


class FieldFilter(BaseMessage, frozen=True, kw_only=True, tag="field-filter/1"):
    """A condition as it is planned. The values are literals of the field's type (`core.words.literals`)."""

    field: Field
    operator: FilterOperator
    values: Annotated[tuple[str, ...], Meta(max_length=REPLACED_VALUES_MAX)] = ()


class Follow(BaseMessage, frozen=True, kw_only=True, tag="follow/1"):
    """How far a reader has followed what is added to a table (`core/data/following.py`)."""

    table: ObjectId
    generation: Generation
    number: int
    """It has read the segments below this number."""
    deletes: int
    """The newest DELETE of the table that it knows of."""


class PlanScan(ClientRequest, frozen=True, kw_only=True, tag="plan-scan/1"):
    """Pins a revision and the segments of a table; `columns` None means all."""

    cluster_id: ClusterId | None
    name: str
    columns: Annotated[tuple[str, ...], Meta(max_length=COLUMNS_MAX)] | None
    through: Through = ()
    """The views that the table is read through."""
    rewrite: bool = False
    """Only the segments that are worth rewriting."""
    where: Annotated[tuple[Filter, ...], Meta(max_length=ASKED_MAX)] = ()
    """Only rows that fulfil all of these."""
    as_of: Revision | None = None
    """The revision whose rows are read, by default the present one."""
    as_of_us: int | None = None
    """Instead of a revision a time, in microseconds since 1970 UTC: the newest revision that was committed by then."""
    grouped: bool = False
    """With the groups of segments whose files can be read alike."""
    replaces: bool = False
    """For a commit that replaces the rows of `where`."""
    follows: Follow | None = None
    """Only rows that were added since; the answer says how far that is."""
    ignores_taken: bool = False
    """With `follows`: whether rows may have been taken away since."""


class PlanQuery(ClientRequest, frozen=True, kw_only=True, tag="plan-query/1"):
    """Pins one revision for all tables and views that a SELECT names, each as `database.name`."""

    cluster_id: ClusterId | None
    names: Annotated[tuple[str, ...], Meta(max_length=ASKED_MAX)]


class QueryPlan(BaseMessage, frozen=True, kw_only=True, tag="query-plan/1"):
    """What a SELECT reads, all at one `revision`.

    `plans` are the tables, with all columns: those that the SELECT names and those that its views read. Of the latter
    `needed` names the columns. `views` are all views below the SELECT, each made from those before it and from tables.
    """

    revision: Revision
    plans: tuple["ScanPlan", ...]
    views: tuple[ViewBody, ...]
    needed: tuple[TableNeeded, ...]


class FileColumn(BaseMessage, frozen=True, kw_only=True, tag="file-column/1"):
    """How the files of a group have a column."""

    field: FieldId
    type: str | None
    """In which it is stored; None if they lack it, so all rows have its first value."""
    is_opaque: bool = False
    """Whether no filter on it may reach the files, since Spark would skip rows that fulfil the filter."""


class ReadGroup(BaseMessage, frozen=True, kw_only=True, tag="read-group/1"):
    """Segments of a plan whose files can be read alike."""

    segments: int
    """How many."""
    columns: tuple[FileColumn, ...]
    deletes: tuple[int, ...]
    """The DELETEs that may hide rows of them."""
    may_expire: bool
    """Whether rows of them may lie before the cutoff of the TTL."""


class ReadGroups(BaseMessage, frozen=True, kw_only=True, tag="read-groups/1"):
    """How the files of a plan can be read without a node. The first segments of the plan are those of the groups, in
    their order. Those that follow are in no group."""

    groups: tuple[ReadGroup, ...]
    deletes: tuple[DeleteRecord, ...]
    """All DELETEs of the groups."""
    clock: FieldId | None
    """The column that rows expire by."""
    fields: tuple[Field, ...]
    """The columns that tell which rows are hidden."""


class ScanPlan(BaseMessage, frozen=True, kw_only=True, tag="scan-plan/1"):
    """What to read, and from where: any holder with a lease will do."""

    facts: TableFacts
    fields: tuple[Field, ...]
    segments: tuple[SegmentRecord, ...]
    deletes: int = 0
    """Of a plan for a commit that replaces segments: the newest DELETE of the table."""
    through: tuple[ObjectId, ...] = ()
    cutoff: Cutoff | None = None
    where: tuple[FieldFilter, ...] = ()
    left_out: int = 0
    """How many segments have no row that fulfils `where`, by their statistics."""
    as_of: Revision | None = None
    """The revision whose columns and segments these are, if an earlier one was asked for."""
    grouped: ReadGroups | None = None
    """If it was asked for, and one message can hold it."""
    whole: tuple[Replaced, ...] = ()
    """Of a plan that `replaces` rows: the segments all of whose rows fulfil `where`, which nobody has to read."""
    follows: Follow | None = None
    """All that was added before this is in the plan, or was read by the reader who follows."""
    stayed: bool = False
    """Of a plan that `replaces` rows: whether they are those that there were at `follows` of the request."""
