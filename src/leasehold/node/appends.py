"""Appends: rows of one bucket become one segment, here and on the bucket's other replicas (DESIGN section 9).

Rows are encoded once. The bytes go to this disk and, at the same time, to the peers, so all replicas are identical
under one hash. Nothing of it is visible: the commit compares what the answer says with the catalog of that moment.

| step                                   | if it fails |
| guard, then admit the ticket           | refused, nothing was written |
| encode, write, forward                 | the file goes here and at the peers |
| the client's end of rows               | missing: it was cut off; as above |
| guard and admit again                  | as above |
| sync here, wait for the peers' answers | a peer that fails is not named as a holder |
| guard and admit again, then answer     | no answer: the file goes when the transaction ends |

Each step decides on the view of a guard of its own. Between them nothing is decided and nothing is released: a fence
that begins and ends while rows come costs nothing. The schema that the rows were made to fit and the peers that they
went to stay those of the first view: the commit compares both with the catalog of its moment. Columns are told by
their field ids, so what was renamed since the writer looked is written where it belongs.
"""

import hashlib
from collections.abc import Callable, Iterator
from threading import BoundedSemaphore

import msgspec
import pyarrow as pa

from leasehold.core.codec import encode
from leasehold.core.data.requests import guarded
from leasehold.core.data.write_access import (
    Admitted,
    admit_forward,
    admit_write,
    described,
    forward_ticket,
    sealed_here,
    stored,
)
from leasehold.core.messages import (
    BytesEnd,
    ForwardAdmitted,
    ForwardTicket,
    RowsEnd,
    SegmentStored,
    StagedSegment,
    WriteTicket,
)
from leasehold.errors import Refused
from leasehold.limits.flight import FLIGHT_BATCH_BYTES, FLIGHT_WRITES_MAX
from leasehold.limits.replication import FORWARD_CHUNK_BYTES
from leasehold.limits.segments import SCHEMA_WAIT_NS, SEGMENT_BYTES_MAX
from leasehold.node.forwarding import FORWARD_LIMITS, Forwarding, ForwardLimits, Peers
from leasehold.node.guarding import place, wait_until_shown
from leasehold.node.published import Published
from leasehold.storage.conforming import realign, written_fields
from leasehold.storage.files import SegmentFiles
from leasehold.storage.segment import SegmentEncoder
from leasehold.wire.flight import BYTES_SCHEMA, expect, parts
from leasehold.wire.flight_server import Incoming


class Appends:
    """Serves write and forward tickets; any thread may."""

    def __init__(
        self,
        *,
        published: Published,
        files: SegmentFiles,
        now_ns: Callable[[], int],
        writes_max: int = FLIGHT_WRITES_MAX,
        schema_wait_ns: int = SCHEMA_WAIT_NS,
        forward_limits: ForwardLimits = FORWARD_LIMITS,
    ) -> None:
        self._published = published
        self._files = files
        self._now_ns = now_ns
        self._writes_max = writes_max
        self._schema_wait_ns = schema_wait_ns
        self._forward_limits = forward_limits
        self._peers = Peers()
        # Apart, or nodes that forward to each other could wait for each other.
        self._writing = BoundedSemaphore(writes_max)
        self._accepting = BoundedSemaphore(writes_max)

    # ------------------------------------------------------------ from a client

    def write(self, ticket: WriteTicket, incoming: Incoming) -> bytes:
        """Takes the rows of one segment and answers with its `StagedSegment`.

        Raises `Fenced`, `NotFound` (TABLE_DROPPED) and `Refused`: ROWS_DO_NOT_FIT, ABORTED, NOT_ASSIGNED and others.
        """
        # Before it takes a place: a client that may not write keeps nobody out.
        self._wait_until_shown(ticket)
        admitted = self._admit(ticket)
        with place(self._writing, "writes", self._writes_max):
            return encode(self._write(ticket, admitted, incoming))

    def _write(self, ticket: WriteTicket, admitted: Admitted, incoming: Incoming) -> StagedSegment:
        fields = written_fields(incoming.schema, admitted.table)
        forward = forward_ticket(ticket, admitted, self._published)
        with (
            self._files.create(ticket.table, ticket.bucket, ticket.segment) as file,
            Forwarding(
                admitted.peers,
                forward,
                self._peers,
                min_in_sync=admitted.min_in_sync,
                now_ns=self._now_ns,
                limits=self._forward_limits,
            ) as forwarding,
        ):

            def hand_on(chunk: bytes) -> None:
                forwarding.send(chunk)
                file.write(chunk)

            encoder = SegmentEncoder(fields, hand_on)
            try:
                for batch in _rows(incoming):
                    encoder.write(realign(batch, fields))
                encoded = encoder.finish()
            finally:
                encoder.abort()
            self._admit(ticket)
            segment = StagedSegment(
                id=ticket.segment,
                table=ticket.table,
                bucket=ticket.bucket,
                schema_version=admitted.table.schema_version,
                rows=encoded.rows,
                size_bytes=encoded.size_bytes,
                sha256=encoded.sha256,
                statistics=encoded.statistics,
                holders=(),
            )
            end = BytesEnd(size_bytes=encoded.size_bytes, sha256=encoded.sha256, segment=segment)
            forwarding.send(end)
            file.finish()
            myself = sealed_here(self._published, segment, admitted.order)
            holders = (myself, *forwarding.holders(end))
        # I12: what took long may have outlived the lease. Without an answer the file goes when the transaction ends.
        self._admit(ticket)
        return msgspec.structs.replace(segment, holders=holders)

    def _admit(self, ticket: WriteTicket) -> Admitted:
        """Decides on a view that has passed the guard."""
        passed = guarded(self._published, self._now_ns, (ticket.table, ticket.bucket))
        return admit_write(ticket, passed.view, self._published.node)

    # ------------------------------------------------------------ from a peer

    def accept(self, ticket: ForwardTicket, incoming: Incoming) -> Iterator[bytes]:
        """Takes the bytes of a segment as they lie on the sender's disk. Answers `ForwardAdmitted`, then
        `SegmentStored`."""
        self._wait_until_shown(ticket)
        self._admit_forward(ticket)
        with place(self._accepting, "forwarded writes", self._writes_max):
            yield encode(ForwardAdmitted())
            yield encode(self._accept(ticket, incoming))

    def _accept(self, ticket: ForwardTicket, incoming: Incoming) -> SegmentStored:
        digest = hashlib.sha256()
        with self._files.create(ticket.table, ticket.bucket, ticket.segment) as file:
            end: BytesEnd | None = None
            for chunk in _chunks(incoming):
                if isinstance(chunk, BytesEnd):
                    end = chunk
                    break
                if file.size_bytes + len(chunk) > SEGMENT_BYTES_MAX:
                    raise Refused("a segment over the limit", code="SEGMENT_TOO_LARGE", hint="upgrade the sender")
                digest.update(chunk)
                file.write(chunk)
            if end is None:
                raise _cut_off()
            if (file.size_bytes, digest.digest()) != (end.size_bytes, end.sha256):
                raise Refused("the bytes are not those that were sent", code="BROKEN_STREAM", hint="send them again")
            segment = described(ticket, end)
            self._admit_forward(ticket)
            file.finish()
        return stored(segment, self._published, self._admit_forward(ticket))

    def _admit_forward(self, ticket: ForwardTicket) -> int:
        passed = guarded(self._published, self._now_ns, (ticket.table, ticket.bucket))
        return admit_forward(ticket, passed.view, self._published.node)

    def _wait_until_shown(self, ticket: WriteTicket | ForwardTicket) -> None:
        bucket = (ticket.table, ticket.bucket)
        wait_until_shown(self._published, self._now_ns, ticket.revision, bucket, wait_ns=self._schema_wait_ns)


# ---------------------------------------------------------------- what a stream brings


def _rows(incoming: Incoming) -> Iterator[pa.RecordBatch]:
    """The batches of a client's stream; raises `Refused` with code BROKEN_STREAM if it was cut off."""
    rows = 0
    for sent in incoming:
        if sent.batch is not None:
            rows += sent.batch.num_rows
            yield from parts(sent.batch, FLIGHT_BATCH_BYTES)
        if sent.metadata is not None:
            if expect(RowsEnd, sent.metadata).rows != rows:
                break
            return
    raise _cut_off()


def _chunks(incoming: Incoming) -> Iterator[memoryview | BytesEnd]:
    for sent in incoming:
        if sent.batch is not None:
            yield from _bytes_of(sent.batch)
        if sent.metadata is not None:
            yield expect(BytesEnd, sent.metadata)


def _bytes_of(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """The chunks in a batch that another process made: nothing in it is trusted."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _malformed() from error
    if not batch.schema.equals(BYTES_SCHEMA) or batch.nbytes > 2 * FORWARD_CHUNK_BYTES:
        raise _malformed()
    for value in batch.column(0):
        content = value.as_buffer()
        if content is None:
            raise _malformed()
        yield memoryview(content)


def _cut_off() -> Refused:
    return Refused("the stream broke off before its end", code="BROKEN_STREAM", hint="Write the segment again.")


def _malformed() -> Refused:
    return Refused("the stream does not carry a segment's bytes", code="BAD_MESSAGE", hint="upgrade the sender")
