"""What rows that wait to be encoded or sent take in memory."""

import io
import random

import pyarrow.parquet as pq

from leasehold.core.data.held import held_bytes
from leasehold.limits.segments import BATCH_COLUMN_BYTES, HELD_APART_BYTES, PAGE_BYTES
from leasehold.storage.held_rows import HeldRows
from leasehold.storage.row_room import RowRoom
from leasehold.storage.segment_encoder import SegmentEncoder
from tests.unit.storage.rows import batch_of, field


def test_a_batch_takes_its_values_or_something_for_each_column() -> None:
    wide = [field(number, f"c{number}", "BIGINT") for number in range(1, 11)]
    assert held_bytes(batch_of(wide, [[7]] * 10)) == 10 * BATCH_COLUMN_BYTES
    large = batch_of(wide, [[7] * 10_000] * 10)
    assert held_bytes(large) == large.nbytes


def test_tiny_batches_of_many_columns_count_as_what_they_take_and_are_joined() -> None:
    """Arrow takes about 620 bytes for each column of a batch, so batches of one row took a hundred times their size."""
    columns, batches, room = 400, 100, RowRoom(4_000_000)
    wide = [field(number, f"c{number}", "BIGINT") for number in range(1, 1 + columns)]
    one_row = batch_of(wide, [[7]] * columns)
    chunks: list[bytes] = []
    encoder = SegmentEncoder(wide, chunks.append, room=room)
    encoder.write(one_row)
    counted = [room._held]
    assert counted[0] >= 620 * columns
    for _ in range(batches - 1):
        encoder.write(one_row)
        counted.append(room._held)
    assert max(counted) <= 4_000_000 + counted[0]
    assert counted[-1] < counted[0] * batches // 4
    encoder.finish()
    assert room._held == 0
    file = pq.ParquetFile(io.BytesIO(b"".join(chunks)))
    assert (file.num_row_groups, file.metadata.num_rows) == (1, batches), "joined, and not written row by row"


def test_tiny_batches_are_joined_also_where_nobody_wants_their_room() -> None:
    wide = [field(number, f"c{number}", "BIGINT") for number in range(1, 401)]
    held, most_bytes = HeldRows(1_024), 0
    for _ in range(100):
        held.add(batch_of(wide, [[7]] * 400))
        most_bytes = max(most_bytes, held.size_bytes)
    assert held.rows == 100
    assert most_bytes <= 2 * HELD_APART_BYTES


def test_a_value_larger_than_a_page_is_encoded_at_once_while_no_other_encoder_encodes_one() -> None:
    """Parquet holds several copies of it."""
    text = [field(1, "t", "STRING")]
    room, alone = RowRoom(64 * 1024 * 1024), list[bool]()
    encoder = SegmentEncoder(text, lambda _: alone.append(room.large_values.locked()), room=room)
    large = random.Random(1).randbytes(PAGE_BYTES + 1).hex()  # a page is handed on as it is encoded
    encoder.write(batch_of(text, [["x" * PAGE_BYTES]]))
    assert room._held, "a page holds it"
    encoder.write(batch_of(text, [[large]]))
    assert not room._held
    assert set(alone) == {True}
    alone.clear()
    assert not room.large_values.locked()
    encoder.write(batch_of(text, [["x"] * 3]))
    assert encoder.finish().rows == 5
    assert set(alone) == {False}
