"""What batches of rows take in memory. Arrow needs buffers and objects for each column, however few rows there are."""

from typing import Protocol

from leasehold.limits.segments import BATCH_COLUMN_BYTES


class Columns(Protocol):
    """A batch in memory."""

    @property
    def nbytes(self) -> int:
        """The bytes of its values."""
        ...

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        ...


def held_bytes(batch: Columns) -> int:
    """How much memory a batch takes: a batch of one row and many columns takes far more than its values."""
    return max(batch.nbytes, batch.num_columns * BATCH_COLUMN_BYTES)
