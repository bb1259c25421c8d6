"""Streams of rows and bytes over the simulated network, as steps of the data plane take them and pass them on."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

import pyarrow as pa

from leasehold.core.catalog.catalog import live_fields
from leasehold.core.data.appends import EncodedSegment, HandOn
from leasehold.core.data.peers import Chunk, Probed
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import (
    BytesEnd,
    FetchTicket,
    ForwardAdmitted,
    ForwardTicket,
    NodeStatus,
    Rows,
    RowsEnd,
    SegmentStored,
    WhoAreYou,
)
from leasehold.core.words.records import ColumnStatistics, Field, SegmentFormat, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import FieldId
from leasehold.limits.replication import FORWARD_CALL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.storage.conformance import conform
from leasehold.testing.rows import INTEGERS, Part, RowId, bytes_in, bytes_message, closing, footer, row_bytes, rows_in
from leasehold.wire.ports import Clock, Duplex, Transport

# ---------------------------------------------------------------- what comes


class RowsOfDuplex:
    """Implements `core.data.appends.RowStream`."""

    def __init__(self, duplex: Duplex, clock: Clock) -> None:
        self._duplex = duplex
        self._clock = clock
        self._fields: tuple[Field, ...] = ()

    def fields(self, table: TableRecord) -> tuple[Field, ...]:
        """Every column of the table: what was not sent is filled in."""
        self._fields = live_fields(table)
        return self._fields

    async def pieces(self) -> AsyncGenerator[Part | RowsEnd]:
        while (message := await self._duplex.receive()) is not None:
            await _awake(self._clock)
            if isinstance(message, RowsEnd):
                yield message
            else:
                rows = rows_in(message)
                assert isinstance(message, Rows)
                _fit(message.columns, self._fields)
                yield Part(rows)


async def bytes_of_duplex(duplex: Duplex, clock: Clock) -> AsyncGenerator[bytes | BytesEnd]:
    """A segment's bytes, and the sender's word what they must be together."""
    while (message := await duplex.receive()) is not None:
        await _awake(clock)
        yield message if isinstance(message, BytesEnd) else bytes_in(message)


async def _awake(clock: Clock) -> None:
    """Returns at once, unless this process is paused."""
    await clock.sleep_until(clock.now_ns())


@lru_cache(maxsize=1_024)
def _fit(columns: tuple[str, ...], fields: tuple[Field, ...]) -> None:
    """Whether rows of these columns can be written; raises `Refused` with code ROWS_DO_NOT_FIT."""
    if columns:
        nothing = pa.record_batch([pa.nulls(0) for _ in columns], names=list(columns))
        conform(nothing, fields)


class RowEncoder:
    """Implements `core.data.appends.Encoder`: the ids, and a footer. Integer columns have bounds."""

    def __init__(self, fields: Sequence[Field], bounded: Collection[FieldId], hand_on: HandOn) -> None:
        del bounded  # all
        self._fields = fields
        self._hand_on = hand_on
        self._digest = hashlib.sha256()
        self._rows = self._size_bytes = 0
        self._bounds: tuple[RowId, RowId] | None = None

    async def write(self, batch: Part) -> None:
        self._rows += batch.num_rows
        if batch.rows:
            known = (*batch.rows, *(self._bounds or ()))
            self._bounds = min(known), max(known)
        await self._pass_on(row_bytes(batch.rows))

    async def finish(self) -> EncodedSegment:
        await self._pass_on(footer(one.id for one in self._fields))
        return EncodedSegment(
            rows=self._rows,
            size_bytes=self._size_bytes,
            sha256=self._digest.digest(),
            statistics=tuple(map(self._statistics, self._fields)),
            format=SegmentFormat.FIELD_IDS,
        )

    def abort(self) -> None:
        """Nothing is handed on by itself."""

    def _statistics(self, field: Field) -> ColumnStatistics:
        low, high = (self._bounds or (None, None)) if field.type in INTEGERS else (None, None)
        return ColumnStatistics(field=field.id, nulls=0, minimum=low, maximum=high)

    async def _pass_on(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._size_bytes += len(chunk)
        await self._hand_on(chunk)


# ---------------------------------------------------------------- what is passed on


class SimulatedPeers:
    """Implements `core.data.peers.PeerCalls`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @asynccontextmanager
    async def open(self, peer: Peer, ticket: ForwardTicket) -> AsyncGenerator["_Stream"]:
        connection = self._transport.connect(peer.address)
        try:
            async with asyncio.timeout(FORWARD_CALL_NS / SECOND_NS):
                duplex = await connection.session()
                await duplex.send(ticket)
                try:
                    yield _Stream(duplex)
                except Unreachable:
                    await duplex.receive()  # raises what the peer may have said before it ended the stream
                    raise
        except TimeoutError as error:
            raise Unreachable(f"{peer.address}: no answer in time", code=ErrorCode.TIMED_OUT) from error
        finally:
            await connection.close()

    async def is_answering(self, peer: Peer, timeout_ns: int) -> bool:
        return (await self._ask(peer, timeout_ns)).is_answering

    async def probe(self, peer: Peer, timeout_ns: int, ticket: ForwardTicket) -> Probed:
        del ticket  # here nobody is let in before others
        return await self._ask(peer, timeout_ns)

    async def _ask(self, peer: Peer, timeout_ns: int) -> Probed:
        connection = self._transport.connect(peer.address)
        try:
            answer = await connection.call(WhoAreYou(), timeout_ns=timeout_ns)
        except Unreachable:
            return Probed(is_answering=False)
        except LeaseholdError:
            return Probed(is_answering=True)
        finally:
            await connection.close()
        return Probed(is_answering=True, status=answer if isinstance(answer, NodeStatus) else None)


class _Stream:
    """Implements `core.data.peers.PeerStream`."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex

    async def is_admitted(self) -> bool:
        return isinstance(await self._duplex.receive(), ForwardAdmitted)

    async def send(self, chunk: Chunk) -> None:
        await self._duplex.send(bytes_message(chunk))

    async def finish(self, end: BytesEnd) -> SegmentStored | None:
        await self._duplex.send(end)
        answer = await self._duplex.receive()
        return answer if isinstance(answer, SegmentStored) else None


class SimulatedCopies:
    """Implements `core.data.fetches.GetsCopies`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def chunks(self, peer: Peer, request: FetchTicket, timeout_ns: int) -> AsyncGenerator[bytes]:
        connection = self._transport.connect(peer.address)
        try:
            async with closing(connection.stream(request, timeout_ns=timeout_ns)) as messages:
                async for message in messages:
                    yield bytes_in(message)
        finally:
            await connection.close()
