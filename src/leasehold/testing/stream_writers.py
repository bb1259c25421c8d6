"""A streaming query that writes to a table, as Spark runs it: one batch after the other, and a batch again unless it is
known to be committed."""

import uuid
from collections.abc import Sequence
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, NoReturn

import msgspec

from leasehold.core.words.messages import StreamBatch
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError
from leasehold.testing.rows import RowId
from leasehold.testing.writers import SimulatedWriter, WriteFate, Written

FORGETS: Final = 0.2
"""The probability that the driver dies when a batch is committed, before it notes that."""
ROWS_MAX: Final = 8


class _Checkpoint(msgspec.Struct):
    """What Spark keeps of a query. A batch that has rows is under way."""

    query: str
    number: int = 0
    rows: tuple[RowId, ...] | None = None


class SimulatedStream:
    """One streaming query for each table, which `writer` writes for."""

    def __init__(self, writer: SimulatedWriter, random: Random) -> None:
        self._writer = writer
        self._random = random
        self._checkpoints: dict[str, _Checkpoint] = {}

    async def run(self, tables: Sequence[str]) -> NoReturn:
        """Writes batches to random `tables`, until cancelled."""
        while True:
            await self._writer.pause()
            try:
                await self.batch(self._random.choice(tables))
            except LeaseholdError:
                continue  # not even opened

    async def batch(self, name: str) -> Written:
        """Runs the next batch of a table, or the last one again. Raises what prevents its opening."""
        one = self._checkpoints.get(name)
        if one is None:
            query = str(uuid.UUID(int=self._random.getrandbits(128)))
            one = self._checkpoints[name] = _Checkpoint(query)
        if one.rows is None:
            one.rows = self._writer.new_rows(self._random.randint(0, ROWS_MAX))
        written = await self._writer.write_rows(name, one.rows, StreamBatch(query=one.query, number=one.number))
        if written.error == ErrorCode.OTHER_CHECKPOINT:  # another table has the name now
            del self._checkpoints[name]
        elif written.error == ErrorCode.BATCH_COMMITTED or (
            written.fate is WriteFate.COMMITTED and self._random.random() >= FORGETS
        ):
            one.number, one.rows = one.number + 1, None
        return written
