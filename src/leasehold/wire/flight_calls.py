"""The messages of a call to a Flight server, one at a time: the first one, and those with rows."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import Final, NamedTuple

import pyarrow as pa

from leasehold.core.access.callers import Caller
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.wire.call_gate import CallGate
from leasehold.wire.call_watch import WatchedCall
from leasehold.wire.flight_codec import (
    Data,
    announced_bytes,
    is_announced,
    malformed,
    read_data,
    read_schema,
    reading_batch,
)
from leasehold.wire.http2.calls import CallEnded
from leasehold.wire.http2.thread_calls import ThreadCall
from leasehold.wire.message_room import MessageRoom
from leasehold.wire.scan_room import ScanRoom

FRAMING_BYTES: Final = 1024
"""What surrounds a ticket in its message."""


class Sent(NamedTuple):
    """What a client sends within a stream: rows, or a message beside them, or both."""

    batch: pa.RecordBatch | None
    metadata: bytes | None


class FlightCall:
    """The messages of a client, one at a time. `check` is called after each one but the first."""

    def __init__(
        self,
        call: ThreadCall,
        watched: WatchedCall,
        gate: CallGate,
        *,
        peer: str,
        user: str | None,
        caller: Caller | None,
        check: Callable[[Caller | None], None],
        held: MessageRoom,
    ) -> None:
        self.caller = caller
        self.check: Final = partial(check, caller)
        self.watched = watched
        self.peer = peer
        self.user = user
        """Who calls, as far as the service knows; None for a stranger."""
        self._call = call
        self._gate = gate
        self._held = held

    async def turn(self) -> None:
        """Waits on the loop until it may begin. Raises `Refused` with code BUSY if too many others do."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()

        def comes(is_ours: bool) -> None:
            if not turn.done():
                turn.set_result(is_ours)

        def told(is_ours: bool) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(comes, is_ours)

        self._gate.enter(self.watched, self.user or self.peer, told)
        if not await turn:
            raise too_many("calls begin at this node at once")

    def first(self, most_bytes: int, *, is_decided_inside: bool = False) -> bytes:
        """The message that a call begins with, once it is its turn; a stranger's call, or one that `is_decided_inside`,
        then has to be `taken`. Raises `Refused`: BAD_TICKET if it is too large, BUSY if too much is held."""
        self._gate.reads(self.watched)
        with self.watched.opening():
            message = self._next()
        if self.user is not None and not is_decided_inside:
            self._gate.leave(self.watched)
        else:
            self._gate.has_read(self.watched)
        if message is None:
            raise cut_off()
        if len(message) > most_bytes + FRAMING_BYTES:
            raise Refused(
                f"a first message of {len(message)} bytes, over {most_bytes}",
                code=ErrorCode.BAD_TICKET,
                hint="name fewer columns",
            )
        if not self._held.hold(self.watched, self.user or self.peer, len(message)):
            raise too_many("bytes of tickets are held for calls under way")
        return message

    def taken(self) -> None:
        self._gate.leave(self.watched)

    def forgotten(self) -> None:
        """Its first message is not needed any more; the client may take its time with the answer."""
        self._held.drop(self.watched)
        self.taken()

    def rest(self) -> Iterator[bytes]:
        while True:
            with self.watched.idle():
                message = self._next()
            if message is None:
                return
            self.check()
            yield message

    def answer(self, message: bytes) -> None:
        """Sends a message, and waits until it has gone unless little is under way. Raises `CallEnded`."""
        with self.watched.idle():
            self._call.write(message)

    def answered(self) -> None:
        """Waits until all messages have gone. Raises `CallEnded`."""
        with self.watched.idle():
            self._call.flush()

    def _next(self) -> bytes | None:
        try:
            return next(self._call, None)
        except CallEnded as error:
            raise cut_off() from error


class Incoming:
    """What a DoPut brings. Iterating raises `Refused`: BROKEN_STREAM for a client that went away, and what is wrong
    with a batch."""

    def __init__(self, begin: Data, call: FlightCall, pieces: ScanRoom) -> None:
        self._begin = begin
        self._call = call
        self._pieces = pieces
        self.growth = 1
        """How many times as much memory as its bytes say a batch takes, once it is in a table's types."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all batches. Raises `Refused`."""
        self._call.taken()
        return read_schema(self._begin.header)

    def __iter__(self) -> Generator[Sent]:
        for message in self._call.rest():
            data = read_data(message)
            if data.metadata is not None and is_announced(data.metadata):
                with self._room(announced_bytes(data.metadata)) as size:
                    yield from self._read(read_data(self._joined(size)))
            else:
                yield from self._read(data)

    def _read(self, data: Data) -> Iterator[Sent]:
        if not data.header and data.metadata is None:
            raise malformed("a message without rows and without metadata")
        with reading_batch(data, self.schema, self.growth) if data.header else nullcontext() as batch:
            yield Sent(batch, data.metadata)
            del batch  # it may be large, and the next message may be long in coming

    @contextmanager
    def _room(self, size: int) -> Generator[int]:
        """Holds room for a message in pieces. One that comes slowly gives way to others."""
        call = self._call
        try:
            if not self._pieces.enter(call.watched, call.user or call.peer, size):
                raise too_many("large rows come at once")
            yield size
        finally:
            self._pieces.leave(call.watched)

    def _joined(self, size: int) -> bytearray:
        """A message of so many bytes from its pieces."""
        whole = bytearray()
        for message in self._call.rest():
            piece = read_data(message).metadata
            if not piece or len(whole) + len(piece) > size:
                raise malformed("pieces of another size than was said")
            whole += piece
            if len(whole) == size:
                return whole
        raise cut_off()


def too_many(calls: str) -> Refused:
    return Refused(f"too many {calls}", code=ErrorCode.BUSY, hint="ask again in a moment")


def cut_off() -> Refused:
    return Refused("the stream broke off before its end", code=ErrorCode.BROKEN_STREAM, hint="write the segment again")
