"""Calls of scans and appends to replicas over the simulated network: the ports `Replicas` of `core/data/attempts.py`
and `StagesRows` of `core/data/row_sender.py`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec

from leasehold.core.words.messages import AnyReadTicket, BatchMark, Place, RowsEnd, StagedSegment, WriteTicket
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused, Unreachable
from leasehold.limits.clients import SCAN_AHEAD_BYTES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.testing.rows import RowId, batch_in, closing, rows_message
from leasehold.wire.ports import Transport

AHEAD_ROWS: Final = 32
"""So many rows wait for the reader of a segment."""


class ReplicaBatch(msgspec.Struct, frozen=True):
    """A batch; an inbox holds only a few."""

    rows: tuple[RowId, ...]

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return len(self.rows)

    @property
    def num_columns(self) -> int:
        """None: its size is that of its rows."""
        return 0

    @property
    def nbytes(self) -> int:
        """A size such that AHEAD_ROWS fill an inbox."""
        return len(self.rows) * (SCAN_AHEAD_BYTES_MAX // AHEAD_ROWS)


class SimulatedReplicas:
    """Calls replicas over the simulated network; rows that are sent have these `columns`."""

    def __init__(self, transport: Transport, columns: tuple[str, ...] = ()) -> None:
        self._transport = transport
        self._columns = columns

    def open(self, place: Place, ticket: AnyReadTicket, timeout_ns: int) -> "SimulatedBatches":
        """A call to a replica; nothing is sent yet."""
        return SimulatedBatches(self._transport, place.address, ticket, timeout_ns)

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[ReplicaBatch],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        """Sends rows to a replica, and waits for its answer."""
        connection = self._transport.connect(place.address)
        try:
            async with asyncio.timeout(timeout_ns / SECOND_NS):
                duplex = await connection.session()
                try:
                    await duplex.send(ticket)
                    for batch in share:
                        await duplex.send(rows_message(batch.rows, self._columns))
                        on_progress()
                    await duplex.send(RowsEnd(rows=sum(batch.num_rows for batch in share)))
                except Unreachable:
                    pass  # the node may have said why before it ended the stream
                answer = await duplex.receive()
        except TimeoutError as error:
            raise Unreachable(f"{place.address}: no answer in time", code=ErrorCode.TIMED_OUT) from error
        finally:
            await connection.close()
        if answer is None:
            raise Unreachable(f"{place.address}: the stream ended without an answer")
        if not isinstance(answer, StagedSegment):
            raise Refused(f"unexpected answer: {type(answer).__name__}", code=ErrorCode.BAD_MESSAGE)
        return answer


class SimulatedBatches:
    """One call; the task that reads it is cancelled with it."""

    def __init__(self, transport: Transport, address: str, ticket: AnyReadTicket, timeout_ns: int) -> None:
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
