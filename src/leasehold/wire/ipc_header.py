"""The sizes that the header of an Arrow record batch or schema claims, checked before Arrow allocates them.

A compressed buffer says in its first eight bytes how long it will be, and Arrow believes it. The header is a flatbuffer
(format/Message.fbs and Schema.fbs of Arrow). Only the fields that matter are read; Arrow verifies the rest afterwards.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.flight import FLIGHT_MESSAGE_BYTES_MAX
from leasehold.limits.statements import COLUMNS_MAX

SCHEMA: Final = 1
RECORD_BATCH: Final = 3
"""The type of such a message; a dictionary is 2."""
_TYPE, _HEADER = 1, 2
_ROWS, _BUFFERS, _COMPRESSION, _VARIADIC = 0, 2, 3, 4
_FIELDS: Final = 1
"""Of a schema."""
_CHILDREN: Final = 5
"""Of a field."""
_PREFIX: Final = struct.Struct("<q")
_NOT_COMPRESSED: Final = -1
"""In the place of the length: this buffer is not compressed, although the batch is."""


class _Table(NamedTuple):
    """The table of a flatbuffer at the place `at`."""

    buffer: memoryview
    at: int

    def field(self, number: int) -> int | None:
        """The place of a field, None if it is missing."""
        vtable = self.at - self._read("<i", self.at)
        entry = 4 + 2 * number
        if entry >= self._read("<H", vtable):
            return None
        offset = self._read("<H", vtable + entry)
        return self.at + offset if offset else None

    def table(self, number: int) -> "_Table | None":
        place = self.field(number)
        return None if place is None else _Table(self.buffer, place + self._read("<I", place))

    def number(self, number: int, kind: str) -> int:
        """A scalar, 0 if it is missing."""
        place = self.field(number)
        return 0 if place is None else self._read(kind, place)

    def vector(self, number: int, item_bytes: int) -> memoryview:
        """The items of a vector, in one piece."""
        place = self.field(number)
        if place is None:
            return self.buffer[:0]
        start = place + self._read("<I", place)
        end = start + 4 + self._read("<I", start) * item_bytes
        if end > len(self.buffer):
            raise struct.error("a vector beyond the end")
        return self.buffer[start + 4 : end]

    def tables(self, number: int) -> "Iterator[_Table]":
        """Those in a vector of tables."""
        place = self.field(number)
        if place is not None:
            start = place + self._read("<I", place) + 4
            for at in range(start, start + len(self.vector(number, 4)), 4):
                yield _Table(self.buffer, at + self._read("<I", at))

    def _read(self, kind: str, place: int) -> int:
        if place < 0:
            raise struct.error("a place before the beginning")
        return struct.unpack_from(kind, self.buffer, place)[0]


def check_schema(header: memoryview) -> None:
    """Raises `Refused` for a schema that is of no table, before Arrow makes its fields: one header can name a field
    millions of times. ROWS_DO_NOT_FIT for too many columns and for nested ones, BAD_MESSAGE for what is no schema."""
    try:
        schema = _Table(header, struct.unpack_from("<I", header)[0])
        fields = schema.table(_HEADER)
        if schema.number(_TYPE, "<B") != SCHEMA or fields is None:
            raise _unreadable("it begins with no schema")
        count = len(fields.vector(_FIELDS, 4)) // 4
        if count > COLUMNS_MAX:
            raise _no_table(f"{count} columns, over {COLUMNS_MAX}")
        if any(len(one.vector(_CHILDREN, 4)) for one in fields.tables(_FIELDS)):
            raise _no_table("a column that holds others")
    except struct.error as error:
        raise _unreadable("the header of a schema can't be read") from error


def _no_table(what: str) -> Refused:
    return Refused(what, code=ErrorCode.ROWS_DO_NOT_FIT, hint="no table has such columns: send the rows of a table")


def record_batch_bytes(header: memoryview, body: memoryview) -> int:
    """What the batch takes in memory once it is read. Raises `Refused`: ROWS_DO_NOT_FIT over FLIGHT_MESSAGE_BYTES_MAX,
    BAD_MESSAGE for what is no record batch."""
    try:
        claimed = _claimed_bytes(header, body)
    except struct.error as error:
        raise _unreadable("the header of a batch can't be read") from error
    if claimed > FLIGHT_MESSAGE_BYTES_MAX:
        raise Refused(
            f"a batch of {claimed} bytes, a message holds {FLIGHT_MESSAGE_BYTES_MAX}",
            code=ErrorCode.ROWS_DO_NOT_FIT,
            hint="send the rows in smaller batches, and keep large values in files of their own",
        )
    return claimed


def _claimed_bytes(header: memoryview, body: memoryview) -> int:
    message = _Table(header, struct.unpack_from("<I", header)[0])
    batch = message.table(_HEADER)
    if batch is None or message.number(_TYPE, "<B") != RECORD_BATCH:
        raise _unreadable("the message is not a record batch")
    if batch.field(_VARIADIC) is not None and len(batch.vector(_VARIADIC, 8)):
        raise _unreadable("a column is of a view type, which no table has")
    compressed, claimed = batch.field(_COMPRESSION) is not None, 0
    for offset, length in struct.iter_unpack("<qq", batch.vector(_BUFFERS, 16)):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise _unreadable("a buffer lies outside of its message")
        if not compressed or length == 0:
            claimed += length
            continue
        if length < _PREFIX.size:
            raise _unreadable("a compressed buffer without its length")
        (size,) = _PREFIX.unpack_from(body, offset)
        if size < _NOT_COMPRESSED:
            raise _unreadable("a compressed buffer of a negative length")
        claimed += length - _PREFIX.size if size == _NOT_COMPRESSED else size
    rows = batch.number(_ROWS, "<q")
    if rows < 0 or rows > 8 * max(claimed, 1):
        raise _unreadable(f"{rows} rows in {claimed} bytes")
    return claimed


def _unreadable(why: str) -> Refused:
    return Refused(
        why, code=ErrorCode.BAD_MESSAGE, hint="encode the rows again, each column in one of the table's types"
    )
