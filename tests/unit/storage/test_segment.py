import gc
import hashlib
import io
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.words.records import Field, SegmentFormat
from leasehold.errors import Corrupt, Definite, NotFound, Refused
from leasehold.limits.flight import FLIGHT_BATCH_BYTES
from leasehold.limits.replication import FORWARD_CHUNK_BYTES
from leasehold.limits.segments import ENCODER_BATCHES_MAX, PLAIN_BYTES_MAX, SCAN_FIRST_BYTES_MAX
from leasehold.limits.statements import LITERAL_CHARACTERS_MAX
from leasehold.storage import segment
from leasehold.storage.row_room import RowRoom
from leasehold.storage.schema import arrow_schema
from leasehold.storage.segment import Most, read_segment, verify_segment
from leasehold.storage.segment_encoder import SegmentEncoder

from .rows import VALUES, batch_of, batches, encode, field, same

MIXED = [
    field(1, "ts", "TIMESTAMP", nullable=False),
    field(2, "tag", "STRING"),
    field(3, "v", "DOUBLE"),
    field(4, "ok", "BOOLEAN"),
    field(5, "d", "DECIMAL(20,3)"),
]


def mixed(rows: int) -> pa.RecordBatch:
    numbers = range(rows)
    return batch_of(
        MIXED,
        [
            [n * 1_000_003 for n in numbers],
            [None if n % 5 == 0 else f"t{n % 3}" for n in numbers],
            [n / 3 for n in numbers],
            [None if n % 2 else n % 3 == 0 for n in numbers],
            [Decimal(n) / 8 for n in numbers],
        ],
    )


def read(path: Path, fields: list[Field], **options: int) -> pa.Table:
    return pa.Table.from_batches(list(read_segment(path, fields, **options)), arrow_schema(fields))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)), st.booleans(), st.sampled_from(SegmentFormat))
def test_every_value_of_every_type_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str, nulls: bool, in_format: SegmentFormat
) -> None:
    path = tmp_path_factory.mktemp("round") / "segment"
    fields = [field(1, "x", kind, nullable=nulls)]
    rows = data.draw(batches(kind, nulls=nulls))
    encoded = encode(path, fields, rows, in_format=in_format, row_group_rows=data.draw(st.integers(1, 40)))
    written = pa.Table.from_batches(rows, arrow_schema(fields))
    assert encoded.rows == written.num_rows
    verify_segment(path, size_bytes=encoded.size_bytes, sha256=encoded.sha256)
    found = list(read_segment(path, fields))
    assert all(one.schema.equals(arrow_schema(fields), check_metadata=True) for one in found)
    assert same(pa.Table.from_batches(found, arrow_schema(fields)), written)


def test_a_segment_without_rows_is_a_file(tmp_path: Path) -> None:
    encoded = encode(tmp_path / "s", MIXED, [mixed(0)])
    verify_segment(tmp_path / "s", size_bytes=encoded.size_bytes, sha256=encoded.sha256)
    assert encoded.rows == 0
    assert [(one.nulls, one.minimum, one.maximum) for one in encoded.statistics] == [(0, None, None)] * len(MIXED)
    assert list(read_segment(tmp_path / "s", MIXED)) == []


def test_the_chunks_are_the_file() -> None:
    fields = [field(1, "x", "BINARY")]
    noise = b"".join(hashlib.sha256(n.to_bytes(4, "big")).digest() for n in range(100_000))
    chunks: list[bytes] = []
    encoder = SegmentEncoder(fields, chunks.append, row_group_rows=16)
    early = 0
    for start in range(0, len(noise), 50_000):
        encoder.write(batch_of(fields, [[noise[start : start + 50_000]]]))
        early = early or len(chunks)
    encoded = encoder.finish()
    content = b"".join(chunks)
    assert 0 < early < len(chunks), "bytes are handed on before the end"
    assert max(map(len, chunks)) <= FORWARD_CHUNK_BYTES
    assert (len(content), hashlib.sha256(content).digest()) == (encoded.size_bytes, encoded.sha256)
    assert b"".join(pq.read_table(pa.BufferReader(content)).column("#1").to_pylist()) == noise


def test_the_same_rows_give_the_same_bytes_however_they_are_cut(tmp_path: Path) -> None:
    rows = mixed(2_000)
    whole = encode(tmp_path / "a", MIXED, [rows])
    singles = [rows.slice(n, 1) for n in range(2_000)]
    assert len(singles) > ENCODER_BATCHES_MAX
    assert encode(tmp_path / "b", MIXED, singles) == whole


@pytest.mark.parametrize(
    ("in_format", "names"),
    [
        (SegmentFormat.COLUMN_NAMES, ["ts", "tag", "v", "ok", "d", "uid"]),
        (SegmentFormat.FIELD_IDS, ["#1", "#2", "#3", "#4", "#5", "#6"]),
    ],
)
def test_the_file_has_the_names_of_its_format_and_the_settings_that_were_measured(
    tmp_path: Path, in_format: SegmentFormat, names: list[str]
) -> None:
    fields = [*MIXED, field(6, "uid", "STRING")]
    rows = mixed(2_000)
    whole = pa.RecordBatch.from_arrays([*rows.columns, [f"u{n}" for n in range(2_000)]], schema=arrow_schema(fields))
    assert encode(tmp_path / "s", fields, [whole], in_format=in_format).format is in_format
    metadata = pq.ParquetFile(tmp_path / "s").metadata
    assert metadata.schema.names == names
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [1_000, 1_000]
    described = {metadata.schema.column(n).name: metadata.row_group(0).column(n) for n in range(len(fields))}
    assert {one.compression for one in described.values()} == {"ZSTD"}
    assert all(one.has_column_index and one.has_offset_index for one in described.values())
    assert [name for name, one in described.items() if one.has_dictionary_page] == names[1:2], "where it pays"
    assert "DELTA_BINARY_PACKED" in described[names[0]].encodings


@pytest.mark.parametrize(("extra", "codec"), [(0, "UNCOMPRESSED"), (1, "ZSTD")])
def test_few_rows_are_written_as_they_are(tmp_path: Path, extra: int, codec: str) -> None:
    """Not compressed, and without the encodings of timestamps and of strings that repeat themselves."""
    count = PLAIN_BYTES_MAX // 21 + extra
    fields = [field(1, "n", "BIGINT"), field(2, "at", "TIMESTAMP"), field(3, "s", "STRING")]
    columns = [pa.array(range(count), kind) for kind in (pa.int64(), arrow_schema(fields).types[1])]
    rows = pa.RecordBatch.from_arrays([*columns, pa.array(["a"] * count)], schema=arrow_schema(fields))
    encode(tmp_path / "s", fields, [rows], row_group_rows=count)
    group = pq.ParquetFile(tmp_path / "s").metadata.row_group(0)
    described = [group.column(place) for place in range(3)]
    assert {one.compression for one in described} == {codec}
    special = {"DELTA_BINARY_PACKED", "RLE_DICTIONARY"} & {kind for one in described for kind in one.encodings}
    assert bool(special) == (codec == "ZSTD")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 130), st.integers(1, 60), st.integers(1, 130))
def test_an_offset_is_a_slice(
    tmp_path_factory: pytest.TempPathFactory, offset: int, batch_rows: int, row_group_rows: int
) -> None:
    path = tmp_path_factory.mktemp("offset") / "s"
    rows = mixed(120)
    encode(path, MIXED, [rows.slice(0, 70), rows.slice(70)], row_group_rows=row_group_rows)
    wanted = rows.slice(min(offset, 120))
    assert same(read(path, MIXED, row_offset=offset, most=Most(batch_rows)), pa.Table.from_batches([wanted]))
    found = list(read_segment(path, MIXED, row_offset=offset, most=Most(batch_rows)))
    assert all(0 < one.num_rows <= batch_rows for one in found)
    absent = [field(77, "later", "INT")]
    counted = [list(read_segment(path, fields, row_offset=offset, most=Most(batch_rows))) for fields in ([], absent)]
    assert [sum(one.num_rows for one in each) for each in counted] == [wanted.num_rows] * 2


@pytest.mark.parametrize("in_format", SegmentFormat)
def test_columns_are_found_by_field_id(tmp_path: Path, in_format: SegmentFormat) -> None:
    old = [field(1, "a", "INT", nullable=False), field(2, "b", "STRING"), field(3, "c", "FLOAT"), field(4, "d", "DATE")]
    encode(tmp_path / "s", old, [batch_of(old, [[1, -(2**31)], ["x", None], [0.5, None], [3, 4]])], in_format=in_format)
    now = [
        field(5, "d", "BIGINT"),  # dropped and added again under the same name
        field(3, "a", "DOUBLE"),  # renamed to another's old name, and widened
        field(1, "key", "BIGINT", nullable=False),  # renamed and widened
        field(6, "later", "DECIMAL(9,2)"),  # added later
    ]
    found = read(tmp_path / "s", now)
    assert found.schema.equals(arrow_schema(now), check_metadata=True)
    assert found.to_pydict() == {"d": [None, None], "a": [0.5, None], "key": [1, -(2**31)], "later": [None, None]}


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        ("TINYINT", "SMALLINT", [-128, 127, None]),
        ("SMALLINT", "INT", [-(2**15), None]),
        ("INT", "BIGINT", [-(2**31), 2**31 - 1]),
        ("FLOAT", "DOUBLE", [0.25, float("inf")]),
        ("DECIMAL(9,2)", "DECIMAL(20,2)", [Decimal("1234567.89"), None]),
    ],
)
def test_widening_keeps_every_value(tmp_path: Path, narrow: str, wide: str, values: list[object]) -> None:
    encode(tmp_path / "s", [field(1, "x", narrow)], [batch_of([field(1, "x", narrow)], [values])])
    assert read(tmp_path / "s", [field(1, "x", wide)]).column(0).to_pylist() == values


@pytest.mark.parametrize("asked", [field(50, "new", "INT", nullable=False), field(2, "tag", "INT")])
def test_what_was_never_written_so_is_no_damage(tmp_path: Path, asked: Field) -> None:
    """Who asks decides on the columns: a file must not be put aside for it."""
    encode(tmp_path / "s", MIXED, [mixed(3)])
    with pytest.raises(Refused) as refused:
        read(tmp_path / "s", [asked])
    assert refused.value.code == "SCHEMA_CHANGED"


@pytest.mark.parametrize(
    ("wide", "narrow", "fits", "not_fit"),
    [
        ("BIGINT", "INT", [5, None], [2**31]),
        ("DOUBLE", "FLOAT", [0.5, float("nan"), float("-inf"), None], [0.1]),
        ("DOUBLE", "FLOAT", [1.0, None], [1e300]),
        ("DECIMAL(9,2)", "DECIMAL(4,2)", [Decimal("12.34"), None], [Decimal("123.45")]),
    ],
)
def test_a_type_that_is_narrower_than_the_file_serves_what_it_holds_exactly(
    tmp_path: Path, wide: str, narrow: str, fits: list[object], not_fit: list[object]
) -> None:
    """A scan that was pinned before the column was widened."""
    encode(tmp_path / "fits", [field(1, "x", wide)], [batch_of([field(1, "x", wide)], [fits])])
    assert repr(read(tmp_path / "fits", [field(1, "x", narrow)]).column(0).to_pylist()) == repr(fits)
    encode(tmp_path / "not", [field(1, "x", wide)], [batch_of([field(1, "x", wide)], [[*fits, *not_fit]])])
    with pytest.raises(Refused) as refused:
        read(tmp_path / "not", [field(1, "x", narrow)])
    assert refused.value.code == "SCHEMA_CHANGED"


def test_a_column_that_came_later_reads_as_its_first_value_not_as_its_default(tmp_path: Path) -> None:
    encode(tmp_path / "s", MIXED, [mixed(3)])
    later = [
        msgspec.structs.replace(field(50, "n", "INT", nullable=False), initial="7", default="8"),
        msgspec.structs.replace(field(51, "s", "STRING"), initial="x"),
        msgspec.structs.replace(field(52, "d", "DECIMAL(5,2)"), default="1.00"),
    ]
    found = read(tmp_path / "s", later)
    assert found.to_pydict() == {"n": [7] * 3, "s": ["x"] * 3, "d": [None] * 3}
    assert read(tmp_path / "s", later, row_offset=2).num_rows == 1


def test_columns_that_came_later_make_batches_smaller_not_larger(tmp_path: Path) -> None:
    """A narrow file with many wide first values: a batch stays near what travels in one message."""
    old = [field(1, "x", "BIGINT")]
    encode(tmp_path / "s", old, [batch_of(old, [list(range(20_000))])], row_group_rows=20_000)
    first = "\N{GREEK SMALL LETTER ALPHA}" * LITERAL_CHARACTERS_MAX
    wide = [msgspec.structs.replace(field(9 + n, f"c{n}", "STRING"), initial=first) for n in range(20)]
    plain = [field(99 + n, f"n{n}", "DECIMAL(38,0)") for n in range(100)]
    for later in (wide, plain):
        found = list(read_segment(tmp_path / "s", [*old, *later]))
        assert sum(one.num_rows for one in found) == 20_000
        assert max(one.nbytes for one in found) < 1.1 * FLIGHT_BATCH_BYTES
    huge = [msgspec.structs.replace(field(9, "c", "STRING"), initial="x" * (FLIGHT_BATCH_BYTES + 1))]
    assert next(read_segment(tmp_path / "s", huge)).num_rows == 1
    assert len(list(read_segment(tmp_path / "s", old))) == 1, "what the file has itself is read as before"


def test_a_lack_of_memory_says_nothing_against_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode(tmp_path / "s", MIXED, [mixed(3)])

    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 9 failed")

    monkeypatch.setattr(segment.hashlib, "file_digest", fail)
    with pytest.raises(Definite) as caught:
        verify_segment(tmp_path / "s", size_bytes=encoded.size_bytes, sha256=encoded.sha256)
    assert caught.value.code == "BUSY"
    monkeypatch.setattr(segment.pq, "ParquetFile", fail)
    with pytest.raises(Definite) as caught:
        read_segment(tmp_path / "s", MIXED)
    assert caught.value.code == "BUSY"


def test_one_column_twice_is_read_once_in_each_type(tmp_path: Path) -> None:
    encode(tmp_path / "s", [field(1, "x", "INT")], [batch_of([field(1, "x", "INT")], [[1, None]])])
    (found,) = read_segment(tmp_path / "s", [field(1, "x", "INT"), field(1, "y", "BIGINT")])
    assert [one.to_pylist() for one in found.columns] == [[1, None], [1, None]]
    assert found.schema.types == [pa.int32(), pa.int64()]


def test_a_file_without_field_ids_is_damaged(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign")
    with pytest.raises(Corrupt, match="field id"):
        read(tmp_path / "foreign", [field(1, "x", "BIGINT")])


def test_no_file_is_not_damage(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="missing-one"):
        read_segment(tmp_path / "missing-one", MIXED)
    with pytest.raises(NotFound, match="missing-one"):
        verify_segment(tmp_path / "missing-one", size_bytes=1, sha256=bytes(32))


def test_a_flipped_bit_anywhere_is_found_by_the_hash_and_in_the_pages_by_every_read(tmp_path: Path) -> None:
    rows = mixed(50)
    encoded = encode(tmp_path / "good", MIXED, [rows])
    good = (tmp_path / "good").read_bytes()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    written, refused = pa.Table.from_batches([rows]), 0
    bad = tmp_path / "bad"
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << (place % 8)
        bad.write_bytes(damaged)
        with pytest.raises(Corrupt, match="bad"):
            verify_segment(bad, size_bytes=encoded.size_bytes, sha256=encoded.sha256)
        if place < footer:
            try:
                assert same(read(bad, MIXED), written), f"byte {place} reads as other rows"
            except Corrupt:
                refused += 1
    assert refused > footer / 3


def test_a_torn_file_is_damaged_at_any_length(tmp_path: Path) -> None:
    encoded = encode(tmp_path / "good", MIXED, [mixed(50)])
    good = (tmp_path / "good").read_bytes()
    for size in range(0, len(good), 7):
        (tmp_path / "torn").write_bytes(good[:size])
        with pytest.raises(Corrupt):
            verify_segment(tmp_path / "torn", size_bytes=encoded.size_bytes, sha256=encoded.sha256)
        with pytest.raises(Corrupt):
            read(tmp_path / "torn", MIXED)


def test_an_error_of_the_sink_comes_out_and_nothing_follows() -> None:
    handed: list[int] = []

    def full(chunk: bytes) -> None:
        handed.append(len(chunk))
        raise Refused("no space", code="DISK_FULL")

    encoder = SegmentEncoder(MIXED, full)
    encoder.write(mixed(100))
    with pytest.raises(Refused, match="no space") as refused:
        encoder.finish()
    assert refused.value.code == "DISK_FULL"
    encoder.abort()
    encoder.abort()
    del encoder, refused
    gc.collect()
    assert len(handed) == 1


def test_an_aborted_segment_hands_on_nothing_more() -> None:
    handed: list[bytes] = []
    encoder = SegmentEncoder(MIXED, handed.append, row_group_rows=10)
    encoder.write(mixed(100))
    encoder.abort()
    del encoder
    gc.collect()
    assert handed == []


def test_a_segment_has_a_largest_size() -> None:
    encoder = SegmentEncoder(MIXED, len, bytes_max=1_000)
    encoder.write(mixed(500))
    with pytest.raises(Refused) as refused:
        encoder.finish()
    assert refused.value.code == "SEGMENT_TOO_LARGE"


def test_a_batch_of_another_schema_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="conform"):
        SegmentEncoder(MIXED, len).write(pa.RecordBatch.from_pydict({"ts": [1]}))


def test_a_wide_table_is_read_in_batches_of_fewer_rows(tmp_path: Path) -> None:
    """So that no number of columns makes a batch large."""
    path = tmp_path / "segment"
    encode(path, MIXED, [mixed(100)])
    assert [one.num_rows for one in read_segment(path, MIXED, most=Most(values=50))] == [10] * 10
    assert [one.num_rows for one in read_segment(path, MIXED[:1], most=Most(values=50))] == [50] * 2
    assert {one.num_rows for one in read_segment(path, MIXED, most=Most(values=1))} == {1}


def test_encoders_that_together_hold_much_write_smaller_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.storage.segment_encoder.ROW_GROUP_BYTES_MIN", 1)
    room, groups = RowRoom(1_000_000), []
    for held in (0, 1_000_000):
        room.add(held)
        chunks: list[bytes] = []
        encoder = SegmentEncoder(MIXED, chunks.append, room=room)
        for _ in range(3):
            encoder.write(mixed(100))
        encoder.finish()
        groups.append(pq.ParquetFile(io.BytesIO(b"".join(chunks))).num_row_groups)
    assert groups == [1, 3]


def test_a_row_group_of_strings_that_repeat_is_no_larger_than_a_reader_expects(tmp_path: Path) -> None:
    """A dictionary hides how long they are."""
    text = [field(1, "t", "STRING")]
    rows = batch_of(text, [["x" * 100_000] * 40])
    encode(tmp_path / "s", text, [rows] * 12)
    assert pq.ParquetFile(tmp_path / "s").num_row_groups > 1
    assert max(one.nbytes for one in read_segment(tmp_path / "s", text)) <= SCAN_FIRST_BYTES_MAX + rows.nbytes


def test_rows_leave_the_room_once_they_are_written_or_dropped() -> None:
    room = RowRoom(1)
    for end in ("finish", "abort"):
        encoder = SegmentEncoder(MIXED, len, room=room)
        encoder.write(mixed(100))
        assert room.is_full
        getattr(encoder, end)()
        assert not room.is_full
