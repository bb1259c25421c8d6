"""The bytes of a request to a coordinator: one frame, or its size in a frame of its own and then its frames.

The server takes in a whole message before a handler sees any of it, so it allows no message larger than a frame. A
larger request begins with its size. The server reads on only if there is room for that many bytes. So the memory that
requests take is bounded before they are read, whoever sends them.

| first frame | then | counted |
| --- | --- | --- |
| a message | nothing | not before it is decoded: at most REQUESTS_UNREAD_MAX arrive at a time |
| ANNOUNCED, size | frames of `size` bytes together | `size`, from before the next frame until it is decoded |

Once it is decoded, what any but a small request takes in memory counts too, until the answer.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, TypeAlias

import grpc

from leasehold.core.words.codec import decode_request
from leasehold.core.words.messages import Message
from leasehold.core.words.request_sizes import decoded_bytes
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Indefinite, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.requests import (
    REQUEST_BYTES_MAX,
    REQUEST_FRAME_BYTES_MAX,
    REQUEST_READ_NS,
    REQUEST_SMALL_BYTES,
    REQUESTS_BYTES_MAX,
    REQUESTS_DECODED_BYTES_MAX,
    REQUESTS_DECODED_OF_ONE_MAX,
    REQUESTS_UNREAD_MAX,
)
from leasehold.limits.sessions import SESSION_OPENING_NS, SESSIONS_UNOPENED_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.arriving import ArrivingRequests
from leasehold.wire.http2.calls import EOF
from leasehold.wire.message_room import MessageRoom
from leasehold.wire.peers import calling_peer
from leasehold.wire.ports import Threads
from leasehold.wire.tasks import BoundedWaits

ANNOUNCED: Final = b"\xc1"
"""No MessagePack begins with it."""
SIZE_BYTES: Final = 8

Reading: TypeAlias = AbstractAsyncContextManager[Message]
"""A request that is being read; it counts as held until the end of the `with`."""


def frames(blob: bytes) -> Iterator[bytes]:
    """The frames of a request, in order."""
    if len(blob) <= REQUEST_FRAME_BYTES_MAX:
        yield blob
        return
    yield ANNOUNCED + len(blob).to_bytes(SIZE_BYTES, "big")
    for start in range(0, len(blob), REQUEST_FRAME_BYTES_MAX):
        yield blob[start : start + REQUEST_FRAME_BYTES_MAX]


class RequestReader:
    """Reads the requests of one server."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._patience = BoundedWaits(REQUESTS_UNREAD_MAX, REQUEST_READ_NS)
        self._sessions = BoundedWaits(SESSIONS_UNOPENED_MAX, SESSION_OPENING_NS)
        self._decoding = asyncio.Lock()
        self._decoded_ones = MessageRoom(
            bytes_max=REQUESTS_DECODED_BYTES_MAX, of_one_max=REQUESTS_DECODED_OF_ONE_MAX, small_bytes=0
        )
        self.arriving = ArrivingRequests(REQUESTS_BYTES_MAX)

    async def first(self, context: Any) -> Any:
        """The first message of a session, or EOF. Until it has come a session is only a call, so one that says nothing
        costs little. Ends the call if the message does not come in time, or too many others wait."""
        try:
            async with self._sessions.wait():
                return await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the session has not begun with a message")

    @contextlib.asynccontextmanager
    async def reading(self, context: Any, *, commit: bool = False) -> AsyncGenerator[Message]:
        """Reads a request from a call. Raises `Refused` (BAD_MESSAGE, MESSAGE_TOO_LARGE), and `Indefinite`: BUSY
        without room, TOO_SLOW where it does not arrive in time."""
        try:
            try:
                async with self._patience.wait() as patience:
                    message, memory = await self._read(context, patience, commit=commit)
            except TimeoutError as error:
                text = f"the request did not arrive within {REQUEST_READ_NS // SECOND_NS} s, or too many others wait"
                raise Indefinite(text, code=ErrorCode.TOO_SLOW, hint="ask again") from error
            if memory and not self._decoded_ones.hold(context, calling_peer(context.peer()), memory):
                raise _busy("requests that wait take too much memory of the coordinator")
            yield message
        finally:
            self._decoded_ones.drop(context)

    async def _read(self, context: Any, patience: asyncio.Timeout, *, commit: bool) -> tuple[Message, int]:
        """The request, and how many bytes it counts in memory."""
        blob = await self._frame(context)
        if not blob.startswith(ANNOUNCED):
            return _decode(blob, commit=commit)
        size = _announced(blob, MESSAGE_BYTES_MAX if commit else REQUEST_BYTES_MAX)
        with self.arriving.room(calling_peer(context.peer()), size, patience) as has_room:
            if not has_room:
                raise _busy("the coordinator takes in too many large requests")
            rest = await self._rest(context, size)
            return await self._decoded(rest, commit=commit)

    async def _decoded(self, blob: bytes | bytearray, *, commit: bool) -> tuple[Message, int]:
        """A large request: not decoded on the loop that grants leases, and one at a time, since a word of two letters
        takes 50 bytes in memory. The next one has its turn once the asker of this one is refused or waits."""
        await self._decoding.acquire()
        try:
            work = self._threads.run(partial(_decode, blob, commit=commit))
            decoding = asyncio.get_running_loop().create_task(work)
            try:
                return await asyncio.shield(decoding)
            except asyncio.CancelledError:
                await asyncio.wait({decoding})  # until then it is held, and counts
                raise
        finally:
            asyncio.get_running_loop().call_soon(self._decoding.release)

    async def _frame(self, context: Any) -> bytes:
        blob = await context.read()
        if blob is EOF:
            raise BadMessage("the request ends before its last byte")
        return blob

    async def _rest(self, context: Any, size: int) -> bytearray:
        blob = bytearray()
        while len(blob) < size:
            frame = await self._frame(context)
            if not frame or len(blob) + len(frame) > size:
                raise BadMessage("a request of another size than it said")
            blob += frame
        return blob


def _decode(blob: bytes | bytearray, *, commit: bool) -> tuple[Message, int]:
    """The request, and how many bytes it counts in memory."""
    message = decode_request(blob, commit=commit)
    return message, decoded_bytes(message) if len(blob) > REQUEST_SMALL_BYTES else 0


def _busy(text: str) -> Indefinite:
    # Indefinite: an earlier copy of the same request may have been carried out.
    return Indefinite(text, code=ErrorCode.BUSY, hint="ask again in a moment")


def _announced(frame: bytes, bytes_max: int) -> int:
    size = int.from_bytes(frame[len(ANNOUNCED) :], "big")
    if len(frame) != len(ANNOUNCED) + SIZE_BYTES or size <= REQUEST_FRAME_BYTES_MAX:
        raise BadMessage("not the size of a request")
    if size > bytes_max:
        text = f"a request of {size} bytes is over the limit of {bytes_max}"
        raise Refused(text, code=ErrorCode.MESSAGE_TOO_LARGE, hint="send less at once")
    return size
