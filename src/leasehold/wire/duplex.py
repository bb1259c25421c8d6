"""One end of a session over an ordered byte stream: bounded queues, and an explicit end.

A stream that breaks looks to a gRPC server like one that was half-closed. So an orderly end is a frame of its own:
empty, which no encoded message is. A stream that ends without it has broken.

| state  | receive                              | send               | left by                          |
| ------ | ------------------------------------ | ------------------ | -------------------------------- |
| open   | waits for a message                  | queues             | `close`, the end frame, a break  |
| closed | None                                 | raises Unreachable | (final) queued messages still go |
| ended  | what is left, then None              | raises Unreachable | `close`                          |
| broken | what is left, then raises Unreachable | raises Unreachable | `close`                          |
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final

from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import Failure, Message, Watched
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused, Unreachable
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.sessions import (
    ENCODED_REVISIONS_KEPT,
    SESSION_END_GRACE_NS,
    SESSION_RECEIVE_BYTES_MAX,
    SESSION_RECEIVE_MESSAGES_MAX,
    SESSION_SEND_BYTES_MAX,
    SESSION_SEND_MESSAGES_MAX,
    SESSION_SEND_WAIT_NS,
)
from leasehold.limits.units import SECOND_NS
from leasehold.wire.failures import from_failure

END_FRAME: Final = b""


def unreachable(peer: str, why: str, *, was_sent: bool = True) -> Unreachable:
    """The error for a peer that gave no answer; `why` completes the sentence."""
    hint = f"check that the process at {peer} runs and can be reached from here"
    return Unreachable(f"{peer}: {why}", hint=hint, was_sent=was_sent)


@lru_cache(ENCODED_REVISIONS_KEPT)
def _encode_revision(message: Watched) -> bytes:
    """A revision goes to every node: it is encoded once, and all of them wait for the same bytes."""
    return encode(message)


def encode_bounded(message: Message, bytes_max: int = MESSAGE_BYTES_MAX) -> bytes:
    """The message's bytes. Raises `Refused`: MESSAGE_TOO_LARGE over `bytes_max`, BAD_TEXT for what is not Unicode."""
    try:
        blob = _encode_revision(message) if isinstance(message, Watched) else encode(message)
    except UnicodeEncodeError as error:  # Python decodes arguments that are not UTF-8 to such text
        raise Refused(f"the request is not text: {error}", code=ErrorCode.BAD_TEXT, hint="write it in UTF-8") from error
    if len(blob) > bytes_max:
        raise Refused(
            f"a {type(message).__name__} of {len(blob)} bytes is over the limit of {bytes_max}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
            hint="send less at once",
        )
    return blob


class Bell:
    """Wakes the one task that waits for it. A ring is lost if no task waits. Cheaper than an `Event`, for what happens
    with every message."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    def wait(self) -> "asyncio.Future[None]":
        """To be awaited at once; done at the next ring."""
        assert self._waiter is None or self._waiter.done(), "one task waits"
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def ring(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class QueuedDuplex:
    """Implements `wire.ports.Duplex`; two tasks of its owner run `read_all` and `write_all`. A sent message may have
    `send_bytes_max` bytes. Up to `receive_bytes_max` bytes of messages are read ahead, or a single larger one."""

    def __init__(
        self,
        peer: str,
        *,
        send_bytes_max: int = MESSAGE_BYTES_MAX,
        receive_bytes_max: int = SESSION_RECEIVE_BYTES_MAX,
    ) -> None:
        self._peer = peer
        self._send_bytes_max = send_bytes_max
        self._receive_bytes_max = receive_bytes_max
        self._outgoing: deque[bytes] = deque()
        self._outgoing_bytes = 0
        self._incoming: deque[tuple[Message, int]] = deque()
        self._incoming_bytes = 0
        self._closed = False
        self._ended = False
        self._broken_why: str | None = None
        self._unwritable_why: str | None = None
        """Why nothing can be sent any more; what has come can still be read."""
        self._garbled: LeaseholdError | None = None
        self._readable = Bell()
        self._room = Bell()
        self._writable = Bell()
        self._space = asyncio.Event()
        self._flushed = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Queues one message. With a full queue it waits for at most `SESSION_SEND_WAIT_NS`, then breaks the session
        and raises `Unreachable`. An oversized message is `Refused`, and the session goes on."""
        blob = encode_bounded(message, self._send_bytes_max)
        self._raise_unless_open()
        if self._is_full():
            await self._wait_for_space()
        self._outgoing.append(blob)
        self._outgoing_bytes += len(blob)
        self._writable.ring()

    async def receive(self) -> Message | None:
        """The next message, None after an orderly end; safe to cancel, no message is lost by it."""
        while True:
            if self._closed:
                return None
            if self._incoming:
                message, size = self._incoming.popleft()
                self._incoming_bytes -= size
                self._room.ring()
                if isinstance(message, Failure):
                    raise from_failure(message)
                return message
            if self._garbled is not None:
                raise self._garbled
            if self._broken_why is not None:
                raise unreachable(self._peer, self._broken_why)
            if self._ended:
                return None
            await self._readable.wait()

    def read_ahead(self, bytes_max: int) -> None:
        self._receive_bytes_max = bytes_max
        self._room.ring()

    async def close(self) -> None:
        """Ends the stream: what was sent still goes out, within `SESSION_END_GRACE_NS`."""
        self._closed = True
        self._wake()
        if self._broken_why is None and not self._ended:
            try:
                async with asyncio.timeout(SESSION_END_GRACE_NS / SECOND_NS):
                    await self._flushed.wait()
            except TimeoutError:
                self.break_off("the stream did not end in time")

    def break_off(self, why: str) -> None:
        """Ends the stream out of order; the first reason stays."""
        if self._broken_why is None and not self._ended:
            self._broken_why = self._unwritable_why or why
        self._wake()

    def garbled(self, error: LeaseholdError) -> None:
        """What came is no message. Nothing after it is read, and `receive` raises `error`."""
        self._garbled = error
        self._wake()

    async def read_all(self, read: Callable[[], Awaitable[bytes | None]]) -> None:
        """Queues messages until the stream ends. `read` returns None, or raises, where the stream broke."""
        while True:
            try:
                blob = await read()
            except LeaseholdError as error:
                self.break_off(error.text.removeprefix(f"{self._peer}: "))
                return
            if blob is None:
                self.break_off("the stream broke")
                return
            if blob == END_FRAME:
                self._ended = True
                self._wake()
                return
            try:
                message = decode_message(blob)
            except LeaseholdError as error:
                self.garbled(error)
                return
            while self._has_much_to_read() and self.is_open:
                await self._room.wait()
            if not self._closed:
                self._incoming.append((message, len(blob)))
                self._incoming_bytes += len(blob)
                self._readable.ring()

    async def write_all(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Writes what is queued until the stream ends, then the end frame."""
        try:
            while not self._ended and self._broken_why is None:
                if self._outgoing:
                    blob = self._outgoing.popleft()
                    self._outgoing_bytes -= len(blob)
                    self._space.set()
                    await write(blob)
                elif self._closed:
                    await write(END_FRAME)
                    return
                else:
                    await self._writable.wait()
        except Unreachable as error:
            # The peer has ended it, and may have said why: reading finds that, and then the end.
            self._unwritable_why = error.text.removeprefix(f"{self._peer}: ")
            self._space.set()
        finally:
            self._flushed.set()

    @property
    def is_open(self) -> bool:
        """Whether neither end has ended it and it has not broken."""
        broken = self._broken_why is not None or self._unwritable_why is not None
        return not self._closed and not self._ended and not broken

    def _is_full(self) -> bool:
        return len(self._outgoing) >= SESSION_SEND_MESSAGES_MAX or self._outgoing_bytes >= SESSION_SEND_BYTES_MAX

    def _has_much_to_read(self) -> bool:
        many = len(self._incoming) >= SESSION_RECEIVE_MESSAGES_MAX
        return many or (bool(self._incoming) and self._incoming_bytes >= self._receive_bytes_max)

    def _raise_unless_open(self) -> None:
        if not self.is_open:
            why = self._broken_why or self._unwritable_why
            raise unreachable(self._peer, why or "the session has ended")

    async def _wait_for_space(self) -> None:
        try:
            async with asyncio.timeout(SESSION_SEND_WAIT_NS / SECOND_NS):
                while self._is_full():
                    self._space.clear()
                    await self._space.wait()
                    self._raise_unless_open()
        except TimeoutError:
            # A message that can't be queued would be lost silently if the session went on.
            self.break_off("the send queue is full: the peer does not read")
            self._raise_unless_open()

    def _wake(self) -> None:
        for bell in (self._readable, self._room, self._writable):
            bell.ring()
        self._space.set()
