"""The input of an append from a Flight stream: rows of a client, or a segment's bytes from a peer."""

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from leasehold.core.data.appends import EncodedSegment, HandOn
from leasehold.core.words.messages import BytesEnd, RowsEnd
from leasehold.core.words.records import Field, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.replication import FORWARD_CHUNK_BYTES
from leasehold.limits.segments import SEGMENT_ROWS_MAX
from leasehold.storage.conformance import CAST_VALUE_BYTES, check_valid, realign, rows_at_once, written_fields
from leasehold.storage.row_room import RowRoom
from leasehold.storage.segment_encoder import SegmentEncoder
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.flight import bytes_of, expect, parts
from leasehold.wire.flight_calls import Incoming
from leasehold.wire.steps import run


class IncomingRows:
    """Implements `core.data.appends.RowStream`."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._rows_at_once = SEGMENT_ROWS_MAX

    def fields(self, table: TableRecord) -> tuple[Field, ...]:
        """The columns of the rows. Raises `Refused` with code ROWS_DO_NOT_FIT."""
        fields = written_fields(self._incoming.schema, table)
        self._rows_at_once = rows_at_once(self._incoming.schema, fields)
        if self._rows_at_once < SEGMENT_ROWS_MAX:
            self._incoming.growth = CAST_VALUE_BYTES
        return fields

    async def pieces(self) -> AsyncGenerator[pa.RecordBatch | RowsEnd]:
        """The rows, then the client's message that these were all."""
        with closing(iter(self._incoming)) as incoming:
            for sent in incoming:
                if sent.batch is not None:
                    check_valid(sent.batch)
                    for part in self._parts(sent.batch):
                        # A slice would keep the whole batch in memory until the encoder has written it.
                        yield part if part is sent.batch else pa.concat_batches([part])
                        del part
                metadata = sent.metadata
                del sent  # frees the batch while the next one is waited for
                if metadata is not None:
                    yield expect(RowsEnd, metadata)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts that are small also once they are cast."""
        for part in parts(batch, FLIGHT_BATCH_BYTES):
            if part.num_rows <= self._rows_at_once:
                yield part
                continue
            for start in range(0, part.num_rows, self._rows_at_once):
                yield part.slice(start, self._rows_at_once)


class ParquetEncoder:
    """Implements `core.data.appends.Encoder`. Bytes are passed to `hand_on` while Arrow encodes more."""

    def __init__(
        self, fields: Sequence[Field], bounded: Collection[FieldId], hand_on: HandOn, *, room: RowRoom
    ) -> None:
        self._fields = fields
        self._encoder: Final = SegmentEncoder(fields, lambda chunk: run(hand_on(chunk)), bounded=bounded, room=room)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Encodes rows of a client, adapted to the columns."""
        with CODING_TURNS:
            aligned = realign(batch, self._fields)
        del batch
        self._encoder.write(aligned)

    async def finish(self) -> EncodedSegment:
        """Passes on the rest of the file, and returns what the file holds."""
        return self._encoder.finish()

    def abort(self) -> None:
        self._encoder.abort()


async def incoming_bytes(incoming: Incoming) -> AsyncGenerator[memoryview | BytesEnd]:
    """A segment's bytes, then the sender's message with their size and hash."""
    for sent in incoming:
        if sent.batch is not None:
            for chunk in _bytes_of(sent.batch):
                yield chunk
        if sent.metadata is not None:
            yield expect(BytesEnd, sent.metadata)


def _bytes_of(batch: pa.RecordBatch) -> Iterator[memoryview]:
    try:
        yield from bytes_of(batch, 2 * FORWARD_CHUNK_BYTES)
    except pa.ArrowInvalid as error:
        raise _malformed() from error


def _malformed() -> Refused:
    return Refused("the stream does not carry a segment's bytes", code=ErrorCode.BAD_MESSAGE, hint="upgrade the sender")
