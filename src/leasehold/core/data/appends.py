"""Appends: rows of one bucket become one segment, here and on the bucket's other replicas (docs/design.md, "Data").

Rows are encoded once. The bytes go to this disk and to the peers at the same time, so all replicas are identical. The
commit makes them visible, after it has compared what the answer says with the catalog of that moment.

| step                                   | if it fails |
| guard, then admit the ticket           | refused, nothing was written |
| encode, write, forward                 | the file goes here and at the peers |
| the client's end of rows               | missing: it was cut off; as above |
| guard and admit again                  | as above |
| sync here, wait for the peers' answers | a peer that fails is not named as a holder |
| guard and admit again, then answer     | no answer: the file goes when the transaction ends |

Each step decides on the view of a guard of its own, by the rules of `core/data/write_access.py`. Between them nothing
is decided: a fence that begins and ends while rows come does no harm. The schema and the peers stay those of the first
view, and the commit compares both. Columns go by their field ids: one that was renamed meanwhile gets its rows.
"""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import msgspec

from leasehold.core.data.bounded_fields import bounded_fields
from leasehold.core.data.forwarding import FORWARD_LIMITS, Forwarding, ForwardLimits
from leasehold.core.data.peers import Chunk, Peers
from leasehold.core.data.requests import Requests, Slots, check_cluster
from leasehold.core.data.segment_files import RowBatch, WritesFiles, file_of
from leasehold.core.data.write_access import (
    AdmittedWrite,
    admit_forward,
    admit_write,
    described,
    forward_ticket,
    sealed_here,
    stored,
)
from leasehold.core.words.messages import (
    BytesEnd,
    ForwardAdmitted,
    ForwardTicket,
    RowsEnd,
    SegmentStored,
    StagedSegment,
    WriteTicket,
)
from leasehold.core.words.records import ColumnStatistics, Field, SegmentFormat, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId
from leasehold.limits.flight import FLIGHT_WRITES_MAX
from leasehold.limits.segments import SEGMENT_BYTES_MAX

B = TypeVar("B", bound=RowBatch)
B_co = TypeVar("B_co", bound=RowBatch, covariant=True)
B_contra = TypeVar("B_contra", bound=RowBatch, contravariant=True)


class EncodedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of a finished segment."""

    rows: int
    size_bytes: int
    sha256: bytes
    statistics: tuple[ColumnStatistics, ...]
    format: SegmentFormat


class RowStream(Protocol[B_co]):
    """The rows that a client sends."""

    def fields(self, table: TableRecord) -> tuple[Field, ...]:
        """The columns that they have. Raises `Refused` with code ROWS_DO_NOT_FIT."""
        ...

    def pieces(self) -> AsyncGenerator[B_co | RowsEnd, None]:
        """The rows, and the client's word that these were all; without it the stream was cut off."""
        ...


class Encoder(Protocol[B_contra]):
    """Makes the bytes of one segment file from rows, and hands them on as they come about."""

    async def write(self, batch: B_contra) -> None:
        """Takes rows. Raises what handing on raises, `Refused` with code SEGMENT_TOO_LARGE, and `Definite` with code
        BUSY."""
        ...

    async def finish(self) -> EncodedSegment:
        """Hands on the rest of the file; describes the segment."""
        ...

    def abort(self) -> None:
        """Hands nothing more on. Idempotent, and without effect on a finished segment."""
        ...


HandOn = Callable[[bytes], Awaitable[None]]


class Appends(Generic[B]):
    """Serves write and forward tickets. `encode` makes an encoder of rows with the given columns; its second argument
    names the columns of the table whose bounds are kept."""

    def __init__(
        self,
        requests: Requests,
        files: WritesFiles,
        encode: Callable[[Sequence[Field], Collection[FieldId], HandOn], Encoder[B]],
        peers: Peers,
        *,
        writes_max: int = FLIGHT_WRITES_MAX,
        forward_limits: ForwardLimits = FORWARD_LIMITS,
    ) -> None:
        self._requests = requests
        self._serving = requests.serving
        self._files = files
        self._encode = encode
        self._peers = peers
        self._forward_limits = forward_limits
        # Apart, or nodes that forward to each other could wait for each other.
        self._writing = Slots(requests.runtime, "writes", writes_max)
        self._accepting = Slots(requests.runtime, "forwarded writes", writes_max)

    async def write(self, ticket: WriteTicket, incoming: RowStream[B], *, by_itself: bool = False) -> StagedSegment:
        """Takes the rows of one segment, of a client or of a bucket that this node compacts `by_itself`.

        Raises `Fenced`, `NotFound` (TABLE_DROPPED) and `Refused`: ROWS_DO_NOT_FIT, ABORTED, NOT_ASSIGNED and others.
        """
        check_cluster(self._serving, ticket.cluster_id)
        # Before it takes a place: a client that may not write keeps nobody out.
        bucket = ticket.table, ticket.bucket
        await self._requests.until_shown(ticket.revision, bucket, login=ticket.login, by_itself=by_itself)
        admitted = self._admit(ticket, by_itself)
        with self._writing.one(admitted.user):
            return await self._write(ticket, admitted, incoming, by_itself)

    async def _write(
        self, ticket: WriteTicket, admitted: AdmittedWrite, incoming: RowStream[B], by_itself: bool
    ) -> StagedSegment:
        fields = incoming.fields(admitted.table)
        forwarding = Forwarding(
            admitted.peers,
            forward_ticket(ticket, admitted, self._serving),
            self._peers,
            min_in_sync=admitted.min_in_sync,
            limits=self._forward_limits,
        )
        with self._files.create(file_of(ticket)) as file:
            async with forwarding:

                async def hand_on(chunk: bytes) -> None:
                    await forwarding.send(chunk)
                    file.write(chunk)

                encoder = self._encode(fields, bounded_fields(admitted.table), hand_on)
                try:
                    await _take_rows(incoming, encoder)
                    encoded = await encoder.finish()
                finally:
                    encoder.abort()
                self._admit(ticket, by_itself)
                segment = _staged(ticket, admitted.table, encoded)
                end = BytesEnd(size_bytes=encoded.size_bytes, sha256=encoded.sha256, segment=segment)
                await forwarding.send(end)
                await file.finish()
                myself = sealed_here(self._serving, segment, admitted.order)
                holders = (myself, *await forwarding.holders(end))
        # I12: what took long may have outlived the lease. Without an answer the file goes when the transaction ends.
        self._admit(ticket, by_itself)
        return msgspec.structs.replace(segment, holders=holders)

    def _admit(self, ticket: WriteTicket, by_itself: bool) -> AdmittedWrite:
        passed = self._requests.guarded((ticket.table, ticket.bucket))
        return admit_write(ticket, passed.view, self._serving.node, by_itself=by_itself)

    async def accept(
        self, ticket: ForwardTicket, chunks: AsyncGenerator[Chunk | BytesEnd, None]
    ) -> AsyncGenerator[ForwardAdmitted | SegmentStored, None]:
        """Takes a segment's bytes from the sender's disk. Answers `ForwardAdmitted`, then `SegmentStored`."""
        check_cluster(self._serving, ticket.cluster_id)
        await self._requests.until_shown(ticket.revision, (ticket.table, ticket.bucket), by_itself=True)
        self._admit_forward(ticket)
        with self._accepting.one():
            yield ForwardAdmitted()
            yield await self._accept(ticket, chunks)

    async def _accept(self, ticket: ForwardTicket, chunks: AsyncGenerator[Chunk | BytesEnd, None]) -> SegmentStored:
        digest = hashlib.sha256()
        with self._files.create(file_of(ticket)) as file:
            end: BytesEnd | None = None
            async with aclosing(chunks):
                async for chunk in chunks:
                    if isinstance(chunk, BytesEnd):
                        end = chunk
                        break
                    if file.size_bytes + len(chunk) > SEGMENT_BYTES_MAX:
                        text = "the segment is larger than the limit"
                        raise Refused(text, code=ErrorCode.SEGMENT_TOO_LARGE, hint="upgrade the sender")
                    digest.update(chunk)
                    file.write(chunk)
            if end is None:
                raise _cut_off()
            if (file.size_bytes, digest.digest()) != (end.size_bytes, end.sha256):
                raise Refused(
                    "the received bytes differ from the sent bytes",
                    code=ErrorCode.BROKEN_STREAM,
                    hint="send them again",
                )
            segment = described(ticket, end)
            self._admit_forward(ticket)
            await file.finish()
        return stored(segment, self._serving, self._admit_forward(ticket))

    def _admit_forward(self, ticket: ForwardTicket) -> int:
        passed = self._requests.guarded((ticket.table, ticket.bucket))
        return admit_forward(ticket, passed.view, self._serving.node)


async def _take_rows(incoming: RowStream[B], encoder: Encoder[B]) -> None:
    """Encodes what a client sends; raises `Refused` with code BROKEN_STREAM if it was cut off."""
    rows = 0
    async with aclosing(incoming.pieces()) as pieces:
        async for piece in pieces:
            if isinstance(piece, RowsEnd):
                if piece.rows != rows:
                    break
                return
            rows += piece.num_rows
            await encoder.write(piece)
            del piece  # the encoder alone knows how long it needs the rows
    raise _cut_off()


def _staged(ticket: WriteTicket, table: TableRecord, encoded: EncodedSegment) -> StagedSegment:
    return StagedSegment(
        id=ticket.segment,
        table=ticket.table,
        bucket=ticket.bucket,
        schema_version=table.schema_version,
        rows=encoded.rows,
        size_bytes=encoded.size_bytes,
        sha256=encoded.sha256,
        statistics=encoded.statistics,
        holders=(),
        format=encoded.format,
    )


def _cut_off() -> Refused:
    return Refused("the stream broke off before its end", code=ErrorCode.BROKEN_STREAM, hint="write the segment again")
