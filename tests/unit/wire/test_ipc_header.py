"""What a batch's header claims is read before Arrow allocates for it."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.flight import FLIGHT_MESSAGE_BYTES_MAX
from leasehold.limits.statements import COLUMNS_MAX
from leasehold.wire import flight_codec
from leasehold.wire.flight_codec import Data, read_schema, reading_batch
from leasehold.wire.ipc_header import record_batch_bytes

MIB = 1024 * 1024
KINDS_OF_TABLES = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.decimal128(9, 2))])


def read_batch(data, schema):
    with reading_batch(data, schema) as batch:
        return batch


def parts_of(message: pa.Buffer) -> tuple[memoryview, memoryview]:
    """Header and body of a message as Arrow's stream format has it."""
    whole = memoryview(message)
    size = int.from_bytes(whole[4:8], "little")
    return whole[8 : 8 + size], whole[8 + size :]


def parts(batch: pa.RecordBatch, **options: Any) -> tuple[memoryview, memoryview]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        begin = sink.tell()
        stream.write_batch(batch)
        if begin == 0:
            begin = len(batch.schema.serialize())
    messages = memoryview(sink.getvalue())[begin:-8]
    return parts_of(pa.py_buffer(messages))


def refusal(header: memoryview | bytes, body: memoryview | bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        record_batch_bytes(memoryview(header), memoryview(body))
    return caught.value


def data(header: memoryview, body: memoryview) -> Data:
    return Data(None, header, None, body)


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_an_honest_batch_passes_and_is_read(codec: str | None) -> None:
    batch = pa.record_batch(
        {"k": range(1_000), "s": ["x" * 50] * 1_000, "n": [None] * 999 + [1.5], "b": [True, None] * 500}
    )
    header, body = parts(batch, compression=codec)
    record_batch_bytes(header, body)
    assert read_batch(data(header, body), batch.schema).equals(batch)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_batch_that_would_decompress_to_too_much_is_refused_before_arrow_sees_it(codec: str) -> None:
    batch = pa.record_batch({"s": ["x" * (40 * MIB)] * 2})
    header, body = parts(batch, compression=codec)
    assert len(body) < MIB
    before = pa.total_allocated_bytes()
    refused = refusal(header, body)
    assert refused.code == "ROWS_DO_NOT_FIT"
    assert str(80 * MIB) in refused.text or str(80 * MIB + 12) in refused.text
    with pytest.raises(LeaseholdError):
        read_batch(data(header, body), batch.schema)
    assert pa.total_allocated_bytes() - before < MIB


def test_many_buffers_that_share_one_place_count_each() -> None:
    """A compressed buffer is decompressed as often as the header names it."""
    columns = {f"c{number}": ["x" * MIB] for number in range(100)}
    header, body = parts(pa.record_batch(columns), compression="zstd")
    assert refusal(header, body).code == "ROWS_DO_NOT_FIT"


def test_a_length_that_is_a_lie_is_refused() -> None:
    batch = pa.record_batch({"k": range(1_000)})
    header, body = parts(batch, compression="zstd")
    for length in (FLIGHT_MESSAGE_BYTES_MAX + 1, 2**62, -2, -(2**63)):
        lie = struct.pack("<q", length) + bytes(body[8:])
        assert refusal(header, lie).code in {"ROWS_DO_NOT_FIT", "BAD_MESSAGE"}


def test_a_buffer_outside_of_its_message_is_refused() -> None:
    header, body = parts(pa.record_batch({"k": range(1_000)}))
    assert refusal(header, body[:-8]).code == "BAD_MESSAGE"


def test_a_dictionary_is_no_record_batch() -> None:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"d": pa.array(["a", "b", "a"]).dictionary_encode()})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    whole = sink.getvalue()[len(batch.schema.serialize()) :]
    assert refusal(*parts_of(whole)).text == "the message is not a record batch"
    assert refusal(*parts_of(batch.schema.serialize())).text == "the message is not a record batch"


def test_columns_of_views_are_refused() -> None:
    batch = pa.record_batch({"v": pa.array(["a long enough value to lie apart"] * 3, pa.string_view())})
    assert refusal(*parts(batch)).code == "BAD_MESSAGE"


def test_rows_without_bytes_are_refused() -> None:
    """Nulls of no type cost nothing here, and their width for each row once they are cast."""
    batch = pa.RecordBatch.from_arrays([pa.nulls(2**30)], names=["n"])
    assert refusal(*parts(batch)).code == "BAD_MESSAGE"


def test_every_cut_and_every_changed_byte_of_a_header_is_refused_or_read() -> None:
    """Nothing but `Refused` comes out, and no memory is taken."""
    batch = pa.record_batch({"k": range(100), "s": ["abc"] * 100})
    for compression in (None, "zstd"):
        header, body = parts(batch, compression=compression)
        whole = bytes(header)
        before = pa.total_allocated_bytes()
        garbled = [whole[:cut] for cut in range(0, len(whole), 3)]
        garbled += [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(len(whole)) for byte in (0x7F, 0xFF)]
        for one in garbled:
            try:
                read_batch(data(memoryview(one), body), batch.schema)
            except Refused as refused:
                assert refused.code in {"BAD_MESSAGE", "ROWS_DO_NOT_FIT"}
        assert pa.total_allocated_bytes() - before < MIB


def test_the_repository_has_no_second_reader_of_headers() -> None:
    source = Path(__file__).parents[3] / "src" / "leasehold"
    users = [path.name for path in source.rglob("*.py") if "read_record_batch" in path.read_text()]
    assert users == ["flight_codec.py"]


def test_large_batches_are_read_one_at_a_time(monkeypatch):
    batch = pa.record_batch({"a": ["x" * 100]})
    message = pa.ipc.read_message(batch.serialize())
    sent = Data(None, memoryview(message.metadata), None, memoryview(message.body))
    for small_bytes, is_alone in ((1_000, False), (10, True)):
        monkeypatch.setattr(flight_codec, "FLIGHT_BATCH_SMALL_BYTES", small_bytes)
        with reading_batch(sent, batch.schema) as read:
            assert read.equals(batch)
            assert flight_codec.LARGE_BATCHES.locked() == is_alone
        assert not flight_codec.LARGE_BATCHES.locked()


def schema_header(schema: pa.Schema) -> memoryview:
    return parts_of(schema.serialize())[0]


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([]),
        pa.schema([("a", pa.int64()), ("b", pa.dictionary(pa.int8(), pa.string()))], metadata={"k": "v"}),
        pa.schema([(f"c{number}", pa.int8()) for number in range(COLUMNS_MAX)]),
    ],
    ids=["none", "two", "many"],
)
def test_the_schema_of_a_table_passes_and_is_read(schema: pa.Schema) -> None:
    assert read_schema(schema_header(schema)).equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("a", pa.int8()), ("b", pa.list_(pa.int8()))]), "holds others"),
        (pa.schema([("a", pa.struct([("b", pa.struct([("c", pa.int8())]))]))]), "holds others"),
        (pa.schema([(f"c{number}", pa.int8()) for number in range(COLUMNS_MAX + 1)]), "2001 columns"),
    ],
    ids=["a list", "structs", "too many"],
)
def test_a_schema_that_no_table_has_is_refused_before_arrow_sees_it(schema: pa.Schema, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        read_schema(schema_header(schema))
    assert caught.value.code == "ROWS_DO_NOT_FIT"


def test_a_garbled_schema_is_refused() -> None:
    header = bytes(schema_header(KINDS_OF_TABLES))
    for place in range(len(header)):
        garbled = bytearray(header)
        garbled[place] ^= 0xFF
        try:
            read_schema(memoryview(garbled))
        except Refused as error:
            assert error.code in {"BAD_MESSAGE", "ROWS_DO_NOT_FIT"}
    for length in range(len(header) - 8):  # it ends with padding
        with pytest.raises(Refused):
            read_schema(memoryview(header[:length]))


@pytest.mark.parametrize("text", [b"name", b"Asia/Tokyo"])
def test_names_and_time_zones_that_are_no_text_are_refused(text: bytes) -> None:
    """Else every later use of the batch is an error that nobody expects."""
    header = bytes(schema_header(pa.schema([("name", pa.timestamp("us", "Asia/Tokyo"))])))
    assert header.count(text) == 1
    with pytest.raises(Refused) as caught:
        read_schema(memoryview(header.replace(text, b"\xff" + text[1:])))
    assert caught.value.code == "BAD_MESSAGE"
