"""Rows sorted by one column, a bounded number of bytes at a time."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.limits.segments import ENCODER_BATCHES_MAX, ROW_GROUP_ROWS, SORTED_BYTES
from leasehold.storage.held_rows import HeldRows


class SortedRows:
    """Implements `core.data.compactions.SortsRows`: holds batches of about `bytes_max`, for a moment twice as much.
    Equal values keep the order in which they came, and NULLs come last."""

    def __init__(self, column: int, bytes_max: int = SORTED_BYTES) -> None:
        self._column = column
        self._bytes_max = bytes_max
        self._held = HeldRows(ENCODER_BATCHES_MAX)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._held.add(batch)
        if self._held.size_bytes >= self._bytes_max:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """In batches of a row group each: a slice of a large batch would keep all of it in memory."""
        held, self._held = self._held, HeldRows(ENCODER_BATCHES_MAX)
        if not held.batches:
            return
        rows = pa.concat_batches(held.batches)
        del held
        order = pc.call_function("sort_indices", [rows.column(self._column)])
        for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
            yield rows.take(order.slice(start, ROW_GROUP_ROWS))
