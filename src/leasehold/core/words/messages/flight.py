"""Tickets and batch marks on Flight."""

from typing import Annotated

from msgspec import Meta, Struct

from leasehold.core.words.messages.base import BaseMessage, Through, Word
from leasehold.core.words.messages.data import Cutoff, FieldFilter, StagedSegment
from leasehold.core.words.records import Field
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Generation,
    Incarnation,
    NodeId,
    NodeLogin,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    Sequence,
    Session,
    Term,
    TransactionId,
)
from leasehold.limits.flight import SEGMENTS_PER_SCAN_MAX
from leasehold.limits.statements import COLUMNS_MAX, FILTERS_MAX


class WriteTicket(BaseMessage, frozen=True, kw_only=True, tag="write-ticket/1"):
    """Descriptor of a DoPut by a client: rows of one bucket, for one new segment.

    Its generation is that of the transaction: the leader held it against the facts of the writer when it was opened.
    """

    cluster_id: Annotated[ClusterId, Word]
    transaction: Annotated[TransactionId, Word]
    segment: Annotated[SegmentId, Word]
    table: ObjectId
    bucket: BucketNumber
    schema_version: SchemaVersion
    revision: Revision
    login: Annotated[NodeLogin, Word] | None = None


class ForwardTicket(BaseMessage, frozen=True, kw_only=True, tag="forward-ticket/1"):
    """Descriptor of a DoPut by the node that encodes: the segment's bytes as they are on its disk. `session` proves
    that it is that node, its incarnation that it is of this generation: each one raises them."""

    cluster_id: Annotated[ClusterId, Word]
    segment: Annotated[SegmentId, Word]
    table: ObjectId
    bucket: BucketNumber
    revision: Revision
    sender: NodeId
    sender_incarnation: Incarnation
    session: Annotated[Session, Word] | None = None


class ForwardAdmitted(BaseMessage, frozen=True, kw_only=True, tag="forward-admitted/1"):
    """The first answer to a ForwardTicket: the peer takes the file. `SegmentStored` follows once it is synced."""


class SegmentStored(BaseMessage, frozen=True, kw_only=True, tag="stored/1"):
    """The answer of a replica that wrote forwarded bytes."""

    node: NodeId
    incarnation: Incarnation
    size_bytes: int
    sha256: bytes
    seal: bytes = b""
    """Of this replica, under what the sender said of the segment (`core.data.seals`)."""


class RowsEnd(BaseMessage, frozen=True, kw_only=True, tag="rows-end/1"):
    """Ends a client's DoPut: a stream that ends without it was cut off, and its rows are thrown away."""

    rows: int


class ScrubTicket(BaseMessage, frozen=True, kw_only=True, tag="scrub-ticket/1"):
    """Presented to a node by an administrator: it reads its segment files whole, of one table or of all."""

    cluster_id: Annotated[ClusterId, Word]
    revision: Revision
    table: ObjectId | None = None
    login: Annotated[NodeLogin, Word] | None = None


class ScrubbedTable(BaseMessage, frozen=True, kw_only=True, tag="scrubbed-table/1"):
    """What a node has found of one table so far."""

    table: ObjectId
    name: str
    """Empty if the catalog has no such table."""
    files: int = 0
    size_bytes: int = 0
    damaged: int = 0
    healed: int = 0
    """Damaged files that another node's copy has replaced."""
    unhealed: int = 0
    """Damaged files that were not replaced, with so many rows."""
    unhealed_rows: int = 0
    unhealed_segments: tuple[SegmentId, ...] = ()
    """The first of them."""
    missing: int = 0
    """Segments that the manifest counts on at this node, without a file."""
    unknown: int = 0
    """Files that the catalog does not know."""
    unread: int = 0
    """Files that could not be read for a reason that says nothing against them, such as a lack of file handles."""


class ScrubEnd(BaseMessage, frozen=True, kw_only=True, tag="scrub-end/1"):
    """Ends the answer to a ScrubTicket: a stream that ends without it was cut off."""

    node: NodeId


class BytesEnd(BaseMessage, frozen=True, kw_only=True, tag="bytes-end/1"):
    """Ends a node's DoPut in the same way: what the file must be."""

    size_bytes: int
    sha256: bytes
    segment: StagedSegment | None = None
    """What the sender will answer to its client, for the peer to seal; no holders are named yet."""


class ReadTicket(BaseMessage, frozen=True, kw_only=True, tag="read-ticket/1"):
    """Ticket of a DoGet: one segment of a table from a row on, projected on `fields`.

    `revision` is the newest the client has seen: the node waits for it, within a bound.
    """

    cluster_id: Annotated[ClusterId, Word]
    request: Annotated[str, Word]
    table: ObjectId
    bucket: BucketNumber
    segment: Annotated[SegmentId, Word]
    sha256: bytes
    row_offset: int
    fields: Annotated[tuple[Field, ...], Meta(max_length=COLUMNS_MAX)]
    revision: Revision
    through: Through = ()
    """The views that the table is read through: the scan ends with any of them."""
    login: Annotated[NodeLogin, Word] | None = None
    generation: Generation = Generation(1)
    """That of the plan: the ids of its fields mean something else in another one, whatever its revision."""
    cutoff: Cutoff | None = None
    """Which rows are gone for the whole query; without one, those that the view of each batch hides."""
    where: Annotated[tuple[FieldFilter, ...], Meta(max_length=FILTERS_MAX)] = ()
    """Only rows that fulfil all of these are sent."""


class NextSegment(Struct, frozen=True, kw_only=True):
    """A further segment that a scan reads."""

    segment: Annotated[SegmentId, Word]
    sha256: bytes


class ReadTogether(BaseMessage, frozen=True, kw_only=True, tag="read-together/1"):
    """Ticket of a DoGet: as `first`, and then further segments of its bucket. Its `row_offset` and the marks of batches
    count the rows of all."""

    first: ReadTicket
    then: Annotated[tuple[NextSegment, ...], Meta(max_length=SEGMENTS_PER_SCAN_MAX - 1)]


class FetchTicket(BaseMessage, frozen=True, kw_only=True, tag="fetch-ticket/1"):
    """Ticket of a DoGet by a node: the bytes of a segment. `session` proves that it is that node."""

    cluster_id: Annotated[ClusterId, Word]
    table: ObjectId
    bucket: BucketNumber
    segment: Annotated[SegmentId, Word]
    node: NodeId = NodeId(0)
    session: Annotated[Session, Word] | None = None


class FlightCaller(BaseMessage, frozen=True, kw_only=True, tag="flight-caller/1"):
    """The caller of a call, in its header: a user by the login, a node by its session."""

    login: Annotated[NodeLogin, Word] | None = None
    node: NodeId = NodeId(0)
    session: Annotated[Session, Word] | None = None


class BatchMark(BaseMessage, frozen=True, kw_only=True, tag="batch-mark/1"):
    """Travels with each batch: the first row after it, and the lease it was released under."""

    next_row: int
    view_revision: Revision
    term: Term
    sequence: Sequence
