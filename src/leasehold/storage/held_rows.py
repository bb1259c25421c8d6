"""Rows that wait in memory in batches; small batches are joined before they cost much."""

from collections.abc import Iterator

import pyarrow as pa

from leasehold.core.data.held import held_bytes
from leasehold.limits.segments import BATCH_COLUMN_BYTES, HELD_APART_BYTES


class HeldRows:
    """Batches of one schema: at most `batches_max`, and about twice the memory that their rows need in one batch."""

    def __init__(self, batches_max: int) -> None:
        self._batches_max = batches_max
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.value_bytes = 0
        """Of the values alone: what is sent and encoded."""
        self.size_bytes = 0
        """What they take in memory."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Holds these rows too."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.value_bytes += batch.nbytes
        self.size_bytes += held_bytes(batch)
        if len(self.batches) > self._batches_max:
            self._join()
        else:
            self.shrink(HELD_APART_BYTES)

    def taken(self) -> Iterator[pa.RecordBatch]:
        """All batches; each is let go as it is given out."""
        batches, self.batches = self.batches[::-1], []
        self.rows = self.value_bytes = self.size_bytes = 0
        while batches:
            yield batches.pop()

    def shrink(self, kept_bytes: int = 0) -> None:
        """Joins the batches if they take over twice as much as one batch with their rows, and as `kept_bytes`. So each
        byte is copied about once for each byte that is freed."""
        if len(self.batches) > 1:
            floor_bytes = self.batches[0].num_columns * BATCH_COLUMN_BYTES
            if self.size_bytes > 2 * max(self.value_bytes, floor_bytes, kept_bytes):
                self._join()

    def _join(self) -> None:
        joined = pa.concat_batches(self.batches)
        self.batches = [joined]
        self.value_bytes = joined.nbytes
        self.size_bytes = held_bytes(joined)
