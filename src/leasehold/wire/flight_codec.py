"""The messages of the Flight protocol as bytes, for a server over plain gRPC (`wire/flight_server.py`).

A stream is a sequence of FlightData, a protobuf message of four fields: a descriptor (1), an Arrow IPC header (2),
application metadata (3) and the IPC body (1000). The body is copied once on its way out and once on its way in.
A stranger may have written what comes in, so each length is checked before anything is allocated for it.

On the way out the header is padded: in a client's memory, behind what gRPC puts before a message, the body begins at a
multiple of 64 bytes. Then pyarrow hands out aligned buffers without a copy.
"""

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, NamedTuple

import pyarrow as pa

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.flight import (
    FLIGHT_BATCH_SMALL_BYTES,
    FLIGHT_FIELDS_MAX,
    FLIGHT_HEADER_BYTES_MAX,
    FLIGHT_MESSAGE_BYTES_MAX,
    FLIGHT_PART_BYTES,
    FLIGHT_RECEIVED_BYTES_MAX,
)
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.ipc_header import check_schema, record_batch_bytes
from leasehold.wire.memory import give_back_memory

CONTINUATION: Final = b"\xff\xff\xff\xff"
"""Begins each message of Arrow's stream format, before the length of its header."""
ALIGNMENT: Final = 64
GRPC_PREFIX_BYTES: Final = 32
"""malloc's and gRPC's own words before the bytes of a large message, of which the first lies at a page."""
VARINT_BYTES_MAX: Final = 10
HEADER_LENGTH_BYTES: Final = 4

_DESCRIPTOR, _HEADER, _METADATA, _BODY = 1, 2, 3, 1000
_COMMAND_OF_DESCRIPTOR: Final = 2
_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED_BYTES: Final = {1: 8, 5: 4}


# ---------------------------------------------------------------- protobuf


def read_fields(message: bytes | bytearray | memoryview) -> dict[int, memoryview]:
    """The length-delimited fields of a protobuf message, the last of each number; others are skipped. Raises `Refused`
    with code BAD_MESSAGE."""
    view, at, found = memoryview(message), 0, dict[int, memoryview]()
    for _ in range(FLIGHT_FIELDS_MAX):
        if at == len(view):
            return found
        tag, at = _read_varint(view, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(view, at)
            continue
        if kind == _LENGTH_DELIMITED:
            size, at = _read_varint(view, at)
        else:
            size = _FIXED_BYTES.get(kind, len(view))
        if size > len(view) - at:
            raise malformed("a field is longer than its message")
        if kind == _LENGTH_DELIMITED:
            found[tag >> 3] = view[at : at + size]
        at += size
    raise malformed("a message has too many fields")


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(view[at : at + VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise malformed("a number has no end")


def _varint(value: int, least_bytes: int = 1) -> bytes:
    content = bytearray()
    while value >= 0x80 or len(content) + 1 < least_bytes:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def write_field(number: int, content: bytes) -> bytes:
    return _begin_field(number, len(content)) + content


def _begin_field(number: int, size: int) -> bytes:
    return _tag(number) + _varint(size)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED)


def malformed(why: str) -> Refused:
    """The error for bytes that are no message of Flight."""
    return Refused(
        f"{why}: that is not a message of Arrow Flight", code=ErrorCode.BAD_MESSAGE, hint="upgrade the client"
    )


# ---------------------------------------------------------------- coming in


class Data(NamedTuple):
    """One FlightData, its parts within the bytes that came."""

    command: memoryview | None
    header: memoryview
    metadata: bytes | None
    body: memoryview


def read_data(message: bytes | bytearray) -> Data:
    """The parts of a message; header and body are not decoded. Raises `Refused` with code BAD_MESSAGE."""
    fields = read_fields(message)
    nothing = memoryview(b"")
    header, metadata = fields.get(_HEADER, nothing), fields.get(_METADATA)
    if len(header) > FLIGHT_HEADER_BYTES_MAX:
        raise malformed(f"a header of {len(header)} bytes, over {FLIGHT_HEADER_BYTES_MAX}")
    descriptor = fields.get(_DESCRIPTOR)
    command = None if descriptor is None else read_fields(descriptor).get(_COMMAND_OF_DESCRIPTOR)
    return Data(command, header, None if metadata is None else bytes(metadata), fields.get(_BODY, nothing))


def read_schema(header: memoryview) -> pa.Schema:
    """The schema in an IPC header. Raises `Refused` as `check_schema`."""
    check_schema(header)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(_encapsulated(header, memoryview(b""))))
        for one in schema:
            # Text, or UnicodeDecodeError. `str(one)` puts a mark where there is none.
            _ = one.name, getattr(one.type, "tz", None)
        return schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise malformed("a schema that Arrow can't read") from error


LARGE_BATCHES: Final = threading.Lock()
"""Held while a large batch is in memory."""


@contextmanager
def reading_batch(data: Data, schema: pa.Schema, growth: int = 1) -> Generator[pa.RecordBatch]:
    """The batch, in memory of its own, its buffers aligned. Its sizes hold; its values are not validated.

    Batches over FLIGHT_BATCH_SMALL_BYTES are read one at a time: each may be few bytes until it is decompressed. So are
    smaller ones that will take more than that, `growth` times as much. Raises `Refused`: ROWS_DO_NOT_FIT for what would
    take more memory than a message may, BAD_MESSAGE.
    """
    is_large = growth * record_batch_bytes(data.header, data.body) > FLIGHT_BATCH_SMALL_BYTES
    with LARGE_BATCHES if is_large else nullcontext():
        yield _read_batch(data, schema)
        if is_large:
            give_back_memory()


def _read_batch(data: Data, schema: pa.Schema) -> pa.RecordBatch:
    try:
        with CODING_TURNS:
            message = pa.ipc.read_message(pa.py_buffer(_encapsulated(data.header, data.body)))
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise malformed("a batch that Arrow can't read") from error
    return batch


def _encapsulated(header: memoryview, body: memoryview) -> bytes:
    """A message as Arrow's stream format has it."""
    padding = -(2 * len(CONTINUATION) + len(header)) % ALIGNMENT
    size = (len(header) + padding).to_bytes(4, "little")
    return b"".join((CONTINUATION, size, header, bytes(padding), body))


# ---------------------------------------------------------------- going out


def write_schema(schema: pa.Schema) -> bytes:
    return write_field(_HEADER, memoryview(schema.serialize())[2 * len(CONTINUATION) :].tobytes())


class BatchWriter:
    """Batches of one schema as FlightData."""

    def __init__(self, schema: pa.Schema) -> None:
        self._pieces = _Pieces()
        self._stream = pa.ipc.new_stream(self._pieces, schema)
        # The schema goes with the first batch.
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema))
        self._pieces.pieces.clear()

    def write(self, batch: pa.RecordBatch, metadata: bytes | None) -> bytes:
        """The message; `batch` is copied once."""
        self._stream.write_batch(batch)
        header, body = self._pieces.take()
        between = b"" if metadata is None else write_field(_METADATA, metadata)
        between += _begin_field(_BODY, sum(map(len, body)))
        before = _tag(_HEADER) + bytes(HEADER_LENGTH_BYTES) + header + between
        padding = (-GRPC_PREFIX_BYTES - len(before)) % ALIGNMENT
        # As many bytes however short it is, so that the padding does not change how long this is.
        length = _varint(len(header) + padding, least_bytes=HEADER_LENGTH_BYTES)
        return b"".join((_tag(_HEADER), length, header, bytes(padding), between, *body))


class _Pieces:
    """A file that keeps what Arrow writes in pieces, as they are: a buffer of a batch is not copied."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []

    def write(self, piece: bytes | pa.Buffer) -> int:
        self.pieces.append(memoryview(piece))
        return len(piece)

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> tuple[bytes, Sequence[memoryview]]:
        """The header and the body of the one message that was written since the last call."""
        (continuation, size, *rest), self.pieces = self.pieces, []
        assert continuation == CONTINUATION
        left, count = int.from_bytes(size, "little"), 0
        while left > 0:
            left -= len(rest[count])
            count += 1
        assert left == 0, "Arrow writes header and body apart"
        return b"".join(rest[:count]), rest[count:]


# ---------------------------------------------------------------- rows larger than a message


_ANNOUNCED: Final = b"\xc1"
"""Before the size. Our metadata is MessagePack, which never begins with it."""
_SIZE_BYTES: Final = 8


def pieces(message: bytes) -> Iterator[bytes]:
    """The pieces of a FlightData that is too large for a node, in order; each travels as the metadata of a message."""
    yield _ANNOUNCED + len(message).to_bytes(_SIZE_BYTES, "big")
    for start in range(0, len(message), FLIGHT_PART_BYTES):
        yield message[start : start + FLIGHT_PART_BYTES]


def is_announced(metadata: bytes) -> bool:
    """Whether the pieces of one FlightData follow."""
    return metadata.startswith(_ANNOUNCED)


def announced_bytes(metadata: bytes) -> int:
    """The size of all pieces together. Raises `Refused`: ROWS_DO_NOT_FIT, BAD_MESSAGE."""
    size = int.from_bytes(metadata[len(_ANNOUNCED) :], "big")
    if len(metadata) != len(_ANNOUNCED) + _SIZE_BYTES or size == 0:
        raise malformed("not the size of a message in pieces")
    if size > FLIGHT_MESSAGE_BYTES_MAX + FLIGHT_RECEIVED_BYTES_MAX:
        raise Refused(
            f"a row of {size} bytes, over {FLIGHT_MESSAGE_BYTES_MAX}",
            code=ErrorCode.ROWS_DO_NOT_FIT,
            hint="keep large values in files of their own",
        )
    return size
