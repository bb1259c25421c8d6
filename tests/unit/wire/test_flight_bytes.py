"""A segment's bytes from another process: nothing in them is trusted."""

import struct

import pyarrow as pa
import pytest

from leasehold.wire.flight import BYTES_SCHEMA, bytes_of

END = 1_900_000_000


def received(values: list[bytes | None], schema: pa.Schema = BYTES_SCHEMA) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.binary())], schema)


def damaged(values: list[bytes], place: int) -> pa.RecordBatch:
    """With an offset that points far behind the bytes. Arrow reads such a batch without a word."""
    message = bytearray(received(values).serialize())
    offsets = struct.pack(f"<{len(values) + 1}i", *(sum(map(len, values[:end])) for end in range(len(values) + 1)))
    at = message.index(offsets) + 4 * place
    message[at : at + 4] = struct.pack("<i", END)
    return pa.ipc.read_record_batch(pa.py_buffer(bytes(message)), BYTES_SCHEMA)


def test_chunks_come_in_their_order() -> None:
    assert [bytes(one) for one in bytes_of(received([b"a", b"", b"bc"]))] == [b"a", b"", b"bc"]


@pytest.mark.parametrize("place", [1, 2], ids=["within", "at the end"])
def test_bytes_from_behind_those_that_came_are_read_by_nobody(place: int) -> None:
    with pytest.raises(pa.ArrowInvalid):
        list(bytes_of(damaged([b"x" * 40, b"y" * 24], place)))


@pytest.mark.parametrize(
    "batch",
    [None, received([None]), received([b"x" * 11]), received([b"x"], pa.schema([pa.field("other", pa.binary())]))],
    ids=["nothing", "null", "too many", "another schema"],
)
def test_what_is_no_chunk_is_refused(batch: pa.RecordBatch | None) -> None:
    with pytest.raises(pa.ArrowInvalid):
        list(bytes_of(batch, 10))
