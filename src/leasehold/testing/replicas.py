"""A scan's calls to replicas over the simulated network: the port `Replicas` of `core/data/attempts.py`."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from leasehold.core.words.messages import BatchMark, ReadTicket
from leasehold.limits.clients import SCAN_AHEAD_BYTES_MAX
from leasehold.testing.rows import RowId, batch_in, closing
from leasehold.wire.ports import Transport

AHEAD_ROWS: Final = 32
"""So many rows wait for the reader of a segment."""


class ReplicaBatch(msgspec.Struct, frozen=True):
    """A batch; few of them fit into an inbox."""

    rows: tuple[RowId, ...]

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """As much as if AHEAD_ROWS filled an inbox."""
        return len(self.rows) * (SCAN_AHEAD_BYTES_MAX // AHEAD_ROWS)


class SimulatedReplicas:
    """The port `core.data.attempts.Replicas`, over the simulated network."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def open(self, address: str, ticket: ReadTicket, timeout_ns: int) -> "SimulatedBatches":
        """A call to the replica at `address`; nothing is sent yet."""
        return SimulatedBatches(self._transport, address, ticket, timeout_ns)


class SimulatedBatches:
    """One call; the task that reads it is cancelled with it."""

    def __init__(self, transport: Transport, address: str, ticket: ReadTicket, timeout_ns: int) -> None:
        self._transport = transport
        self._address = address
        self._ticket = ticket
        self._timeout_ns = timeout_ns
        self._reader: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Ends the call."""
        self._is_cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    async def batches(self) -> AsyncGenerator[tuple[ReplicaBatch, BatchMark], None]:
        """What the replica sends."""
        if self._is_cancelled:
            return
        self._reader = asyncio.current_task()
        connection = self._transport.connect(self._address)
        try:
            async with closing(connection.stream(self._ticket, timeout_ns=self._timeout_ns)) as answers:
                async for message in answers:
                    rows, mark = batch_in(message)
                    yield ReplicaBatch(rows), mark
        finally:
            await connection.close()
