"""What Parquet's writer keeps of finished row groups is bounded, for a file and for all files of a node."""

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leasehold.errors import Definite, NotFound, Refused
from leasehold.ids import FieldId
from leasehold.limits.segments import (
    CHUNK_BOUND_BYTES_MAX,
    CHUNK_BYTES,
    CHUNK_INDEXED_BYTES,
    FOOTER_GROWTH,
    FOOTER_LARGE_BYTES,
    FOOTERS_OF_ONE_BYTES,
    PAGE_BYTES,
    PAGE_INDEX_COLUMNS_MAX,
)
from leasehold.storage.row_room import RowRoom
from leasehold.storage.segment import footer_bytes
from leasehold.storage.segment_encoder import SegmentEncoder
from tests.unit.storage.rows import batch_of, encode, field

COLUMNS = 600
WIDE = [field(1, "t", "STRING"), *(field(number, f"c{number}", "BIGINT") for number in range(2, 1 + COLUMNS))]
LARGE_ROW = batch_of(WIDE, [["x" * (PAGE_BYTES + 1)], *[[7]] * (COLUMNS - 1)])
ROW_GROUP_FOOTER = COLUMNS * CHUNK_BYTES


def test_a_segment_with_too_many_small_row_groups_is_refused() -> None:
    """Each row with a large value is a row group of its own, so 60 rows of 2,000 columns took 200 MiB."""
    room = RowRoom(64 * 1024 * 1024)
    encoder = SegmentEncoder(WIDE, len, room=room, footer_bytes_max=3 * ROW_GROUP_FOOTER)
    for _ in range(3):
        encoder.write(LARGE_ROW)
    with pytest.raises(Refused) as refused:
        encoder.write(LARGE_ROW)
    assert refused.value.code == "SEGMENT_TOO_LARGE"
    encoder.abort()
    assert room._footers == 0


def test_a_segment_may_have_one_row_group_however_much_the_others_keep() -> None:
    room = RowRoom(64 * 1024 * 1024, footers_bytes_max=0)
    encoder = SegmentEncoder(WIDE, len, room=room, footer_bytes_max=0)
    encoder.write(batch_of(WIDE, [["x"], *[[7]] * (COLUMNS - 1)]))
    assert encoder.finish().rows == 1
    assert room._footers == 0


def test_encoders_that_keep_much_are_refused_while_all_keep_too_much() -> None:
    room = RowRoom(64 * 1024 * 1024, footers_bytes_max=3 * ROW_GROUP_FOOTER)
    first, second = (SegmentEncoder(WIDE, len, room=room) for _ in range(2))
    assert ROW_GROUP_FOOTER > FOOTERS_OF_ONE_BYTES
    for _ in range(2):
        first.write(LARGE_ROW)
    second.write(LARGE_ROW)
    with pytest.raises(Definite) as busy:
        second.write(LARGE_ROW)
    assert busy.value.code == "BUSY"
    narrow = [field(1, "t", "STRING")]
    honest = SegmentEncoder(narrow, len, room=room)
    for _ in range(3):
        honest.write(batch_of(narrow, [["x" * (PAGE_BYTES + 1)]]))
    assert honest.finish().rows == 3
    second.abort()
    first.write(LARGE_ROW)
    assert first.finish().rows == 3
    assert room._footers == 0


def test_long_bounds_count_as_what_parquet_keeps_of_them() -> None:
    room = RowRoom(64 * 1024 * 1024)
    text = [field(number, f"c{number}", "STRING") for number in range(1, 101)]
    encoder = SegmentEncoder(text, len, room=room, row_group_rows=1)
    encoder.write(batch_of(text, [["x" * 2_000]] * 100))
    assert room._footers == 100 * (CHUNK_BYTES + 4 * 2_000)


@pytest.mark.parametrize(("others", "counted_bytes"), [([], 0), ([100], 2 * 100 * 4), ([CHUNK_BOUND_BYTES_MAX + 1], 0)])
def test_values_that_parquet_keeps_no_bounds_of_are_not_counted(others: list[int], counted_bytes: int) -> None:
    """Tables of few columns with large values have many row groups."""
    room = RowRoom(64 * 1024 * 1024)
    text = [field(1, "t", "STRING")]
    encoder = SegmentEncoder(text, len, room=room)
    encoder.write(batch_of(text, [["x" * size for size in (*others, PAGE_BYTES + 1)]]))
    assert room._footers == CHUNK_INDEXED_BYTES + counted_bytes


def test_large_footers_are_made_one_after_the_other() -> None:
    """Parquet makes copies of what it kept, also where a file is given up."""
    room, alone = RowRoom(64 * 1024 * 1024), list[bool]()
    encoder = SegmentEncoder(WIDE, lambda _: alone.append(room.large_footers.locked()), room=room)
    encoder.write(LARGE_ROW)
    while room._footers <= FOOTER_LARGE_BYTES:
        encoder.write(LARGE_ROW)
    alone.clear()
    encoder.finish()
    assert set(alone) == {True}
    assert not room.large_footers.locked()
    encoder.abort()
    narrow = SegmentEncoder([field(1, "t", "STRING")], lambda _: alone.append(room.large_footers.locked()), room=room)
    alone.clear()
    narrow.finish()
    assert set(alone) == {False}


def test_a_file_keeps_bounds_of_strings_only_where_the_manifest_does() -> None:
    text = [field(1, "a", "STRING"), field(2, "b", "STRING"), field(3, "c", "BINARY"), field(4, "d", "BIGINT")]
    chunks: list[bytes] = []
    encoder = SegmentEncoder(text, chunks.append, bounded=frozenset((FieldId(2),)))
    encoder.write(batch_of(text, [["x"], ["y"], [b"z"], [7]]))
    statistics = encoder.finish().statistics
    assert [(one.field, one.minimum) for one in statistics] == [(2, "y"), (4, 7)]
    group = pq.ParquetFile(io.BytesIO(b"".join(chunks))).metadata.row_group(0)
    assert [group.column(place).statistics is not None for place in range(4)] == [False, True, False, True]


@pytest.mark.parametrize("columns", [PAGE_INDEX_COLUMNS_MAX, PAGE_INDEX_COLUMNS_MAX + 1])
def test_a_wide_file_has_no_page_index(columns: int) -> None:
    fields = [field(number, f"c{number}", "BIGINT") for number in range(1, 1 + columns)]
    chunks: list[bytes] = []
    room = RowRoom(64 * 1024 * 1024)
    encoder = SegmentEncoder(fields, chunks.append, room=room, row_group_rows=3_000)
    encoder.write(batch_of(fields, [list(range(3_000))] * columns))
    has_index = columns <= PAGE_INDEX_COLUMNS_MAX
    assert room._footers == columns * (CHUNK_INDEXED_BYTES if has_index else CHUNK_BYTES)
    encoder.finish()
    chunk = pq.ParquetFile(io.BytesIO(b"".join(chunks))).metadata.row_group(0).column(0)
    assert chunk.has_offset_index is has_index


@pytest.mark.parametrize(("columns", "groups"), [(1, 1), (200, 1), (200, 5)])
def test_a_reader_knows_what_a_footer_takes_before_it_opens_the_file(tmp_path: Path, columns: int, groups: int) -> None:
    """Measured: Arrow takes 0.85 to 0.95 KiB for each chunk, and what bounds of strings have."""
    fields = [field(number, f"c{number}", "BIGINT") for number in range(1, 1 + columns)]
    encode(tmp_path / "s", fields, [batch_of(fields, [[7]] * columns)] * groups, row_group_rows=1)
    assert pq.ParquetFile(tmp_path / "s").num_row_groups == groups
    chunks_bytes = columns * groups * CHUNK_BYTES
    assert chunks_bytes <= footer_bytes(tmp_path / "s") <= 4 * chunks_bytes + 64 * 1024


def test_a_file_with_a_damaged_end_takes_no_more_than_its_size_allows(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"\xff" * 100)
    assert footer_bytes(tmp_path / "s") == 100 * FOOTER_GROWTH
    with pytest.raises(NotFound):
        footer_bytes(tmp_path / "missing")
