"""Rows in the simulator: a row is its id, and rows travel as the message `Rows`.

A file is eight bytes for each id, and a footer, which says by one bit of each field which columns it has. Its bytes
travel as `Rows` too, eight of them in each row.
"""

import hashlib
import operator
from array import array
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, NewType

import msgspec

from leasehold.core.words.messages import BatchMark, FieldFilter, Message, Rows
from leasehold.core.words.records import DeleteRecord, Field
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId, Revision, Term
from leasehold.ids import Sequence as SequenceNumber

RowId = NewType("RowId", int)
"""Stands for a whole row; unique in a simulated world."""

FOOTER: Final = bytes(64)
"""Of a file without columns; each footer is so long."""
MARK_NUMBERS: Final = 4
INTEGERS: Final = frozenset({"SMALLINT", "INT", "BIGINT"})


class Content(msgspec.Struct, frozen=True):
    """The rows of a file and its columns, and its bytes' number and hash."""

    rows: tuple[RowId, ...]
    columns: frozenset[FieldId]
    size_bytes: int
    sha256: bytes


def row_bytes(rows: Iterable[RowId]) -> bytes:
    """The bytes of rows in a file."""
    return array("q", rows).tobytes()


def footer(columns: Iterable[FieldId]) -> bytes:
    """The end of a file with these columns."""
    return sum(1 << one for one in columns).to_bytes(len(FOOTER), "little")


def content_in(blob: bytes) -> Content:
    """The content of a file with these bytes."""
    assert len(blob) >= len(FOOTER), "a whole file has a footer"
    ids = array("q")
    ids.frombytes(blob[: -len(FOOTER)])
    bits = int.from_bytes(blob[-len(FOOTER) :], "little")
    columns = frozenset(FieldId(one) for one in range(bits.bit_length()) if bits >> one & 1)
    return Content(tuple(map(RowId, ids)), columns, len(blob), hashlib.sha256(blob).digest())


class Part(NamedTuple):
    """Rows as steps of the data plane take and release them, and the columns of their file, where they are read."""

    rows: tuple[RowId, ...]
    columns: frozenset[FieldId] = frozenset()

    @property
    def num_rows(self) -> int:
        """How many."""
        return len(self.rows)


_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fulfils(row: RowId, delete: DeleteRecord, written: Collection[FieldId], fields: Iterable[Field]) -> bool:
    """Whether a DELETE names a row of a segment; each written integer column has the row's id as its value."""
    known = {field.id: field for field in fields}
    for one in delete.where:
        field = known.get(one.field)
        if field is None or (one.field not in written and field.initial is None):
            return False
        value = row if one.field in written else int(field.initial or 0)
        if not _HOLDS[one.operator](value, int(one.value)):
            return False
    return True


def named_rows(rows: Iterable[RowId]) -> Counter[str]:
    """Rows as an observer counts them."""
    return Counter(str(row) for row in rows)


def is_within(row: RowId, where: Iterable[FieldFilter]) -> bool:
    """Whether a row fulfils conditions on integer columns that its segment was written with."""
    return all(_HOLDS[one.operator](row, int(one.values[0])) for one in where)


def rows_message(rows: Sequence[RowId], columns: tuple[str, ...] = ()) -> Rows:
    """Rows as they travel: each is its id alone, whatever the columns."""
    return Rows(columns=columns, rows=tuple((row,) for row in rows), revision=Revision(0))


def rows_in(message: Message) -> tuple[RowId, ...]:
    """The rows of a message; raises `Refused` with code BAD_MESSAGE."""
    if not isinstance(message, Rows):
        raise Refused(f"a {type(message).__name__} where rows should be", code=ErrorCode.BAD_MESSAGE)
    found: list[RowId] = []
    for row in message.rows:
        if len(row) != 1 or not isinstance(row[0], int):
            raise Refused("not a row of the simulator", code=ErrorCode.BAD_MESSAGE)
        found.append(RowId(row[0]))
    return tuple(found)


def bytes_message(chunk: bytes | memoryview) -> Rows:
    """Bytes of a file as they travel."""
    return rows_message(tuple(map(RowId, memoryview(chunk).cast("B").cast("q"))))


def bytes_in(message: Message) -> bytes:
    """The bytes in a message; raises `Refused` with code BAD_MESSAGE."""
    return row_bytes(rows_in(message))


def batch_message(rows: Sequence[RowId], columns: tuple[str, ...], mark: BatchMark) -> Rows:
    """A batch of a scan with its mark, in one message as over Flight: the mark goes first, as a row of its numbers."""
    row = (mark.next_row, mark.view_revision, mark.term, mark.sequence)
    return Rows(columns=columns, rows=(row, *((one,) for one in rows)), revision=mark.view_revision)


def batch_in(message: Message) -> tuple[tuple[RowId, ...], BatchMark]:
    """The batch in a message; raises `Refused` with code BAD_MESSAGE."""
    if not isinstance(message, Rows) or not message.rows:
        raise Refused(f"a {type(message).__name__} where a batch should be", code=ErrorCode.BAD_MESSAGE)
    numbers = [number for number in message.rows[0] if isinstance(number, int)]
    if len(numbers) != MARK_NUMBERS:
        raise Refused("a batch without its mark", code=ErrorCode.BAD_MESSAGE)
    next_row, revision, term, sequence = numbers
    mark = BatchMark(
        next_row=next_row, view_revision=Revision(revision), term=Term(term), sequence=SequenceNumber(sequence)
    )
    return rows_in(msgspec.structs.replace(message, rows=message.rows[1:])), mark


@asynccontextmanager
async def closing(answers: AsyncIterator[Message]) -> AsyncGenerator[AsyncIterator[Message], None]:
    """The answers of `Connection.stream`; the end of the block ends the stream."""
    try:
        yield answers
    finally:
        if isinstance(answers, AsyncGenerator):
            await answers.aclose()
