"""Calls whose handlers run on threads, while their bytes come and go on an event loop.

| the thread | the loop |
| --- | --- |
| asks for a message, and waits | reads it, and hands it over |
| hands an answer over, and waits until all have gone if it is the first, or they are FLIGHT_ANSWERS_AHEAD_BYTES or more | sends them as the client's windows allow |
| hands its status over | sends it |
| waits for anything | the call has ended: the thread goes on at once, with `CallEnded` |

So of a call there is at most one message that comes, or one answer besides few bytes of others. Small answers don't wait
for each other: a loop with much to do takes milliseconds for each time that a thread waits for it.
"""  # noqa: E501 a row of a table is one line

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Final

import grpc

from leasehold.limits.flight import FLIGHT_ANSWERS_AHEAD_BYTES
from leasehold.wire.clock import worked_ns
from leasehold.wire.http2.calls import EOF, CallEnded, IncomingCall, nobody_waits

_ENDED: Final = object()
"""In the place of a message that does not come."""


class ThreadCall(Iterator[bytes]):
    """Iterating gives the messages of the client. All methods but `serve` are for other threads than the loop's."""

    def __init__(self, call: IncomingCall) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_over = False
        self._at_end: list[Callable[[], None]] = []
        self._asked: asyncio.Future[bool] = self._loop.create_future()
        """Of the loop: whether the thread waits for a message, or has ended."""
        self._came: SimpleQueue[object] = SimpleQueue()
        self._gone: SimpleQueue[bool] = SimpleQueue()
        """Whether the answers that were handed over have gone."""
        self._is_sending = False
        """Whether the thread waits for that."""
        self._ahead_bytes = FLIGHT_ANSWERS_AHEAD_BYTES
        """Of answers for which the thread did not wait. It waits for the first one: a client that reads nothing costs
        no more than that."""
        self._worked_ns = 0
        """The work of its thread that the loop has heard of, from before this call on."""
        self._end: tuple[grpc.StatusCode, str, Iterable[tuple[bytes, bytes]]] = (grpc.StatusCode.OK, "", ())

    # On the loop.

    async def serve(self) -> None:
        """Moves messages until the handler has ended; if it is cancelled, the thread hears of that."""
        self._call.on_room = self._has_room
        try:
            while await self._asked:
                self._asked = self._loop.create_future()
                self._came.put(await self._call.read())
            self._call.end(*self._end)
        except asyncio.CancelledError:
            if self._call.unsent_bytes:  # nobody would watch whether the client takes it
                self._call.cut_off()
            raise
        finally:
            self._over()

    def refuse(self) -> None:
        """It ends as `ends_with` says, before a thread has it."""
        self._call.end(*self._end)
        self._over()

    def _over(self) -> None:
        self._call.on_room = nobody_waits
        with self._lock:
            self._is_over = True
            at_end, self._at_end = self._at_end, []
        self._came.put(_ENDED)
        self._gone.put(False)
        for act in at_end:
            act()

    def _ask(self, *, is_for_message: bool) -> None:
        if not self._asked.done():
            self._asked.set_result(is_for_message)

    def _send(self, answer: bytes, *, tells: bool) -> None:
        with suppress(CallEnded):  # the thread hears of it
            self._call.answer(answer)
            if tells:
                self._tell_when_gone()

    def _tell_when_gone(self) -> None:
        self._is_sending = True
        self._has_room()

    def _has_room(self) -> None:
        if self._is_sending and not self._call.unsent_bytes:
            self._is_sending = False
            self._gone.put(True)

    # On the thread of the handler.

    def begin(self) -> None:
        """The handler begins, on this thread."""
        self._worked_ns = worked_ns()

    def __next__(self) -> bytes:
        """Waits for a message. Raises `CallEnded`."""
        self._say(partial(self._ask, is_for_message=True))
        message = self._came.get()
        if message is EOF:
            raise StopIteration
        if message is _ENDED:
            raise CallEnded
        assert isinstance(message, bytes | bytearray)
        return message  # pyright: ignore[reportReturnType] nobody changes it

    def write(self, answer: bytes) -> None:
        """Hands an answer over, and waits until all have gone if they are many. Raises `CallEnded`."""
        self._ahead_bytes += len(answer)
        are_many = self._ahead_bytes >= FLIGHT_ANSWERS_AHEAD_BYTES
        self._say(partial(self._send, answer, tells=are_many))
        if are_many:
            self._wait_until_gone()

    def flush(self) -> None:
        """Waits until all answers have gone. Raises `CallEnded`."""
        if self._ahead_bytes:
            self._say(self._tell_when_gone)
            self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        self._ahead_bytes = 0
        if not self._gone.get():
            raise CallEnded

    def ends_with(self, status: grpc.StatusCode, why: str, trailing: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """What `finish` tells the client, unless it is that all is well."""
        self._end = status, why, trailing

    def finish(self) -> None:
        """The handler has ended."""
        with suppress(CallEnded):
            self._say(partial(self._ask, is_for_message=False))

    def _say(self, act: Callable[[], None]) -> None:
        """Tells the loop to do this, and for how long this thread has worked: that is of the peer's share of the
        server's time. Raises `CallEnded`."""
        before_ns, self._worked_ns = self._worked_ns, worked_ns()
        spend = partial(self._call.spend, self._worked_ns - before_ns, is_of_turn=False)

        def do() -> None:
            spend()
            act()

        try:
            self._post(do)
        except CallEnded:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(spend)
            raise

    def _post(self, act: Callable[[], None]) -> None:
        """Raises `CallEnded`."""
        with self._lock:
            if self._is_over:
                raise CallEnded
            self._loop.call_soon_threadsafe(act)

    # On any thread.

    def peer(self) -> str:
        """As `IncomingCall.peer`."""
        return self._call.peer()

    @property
    def said(self) -> bytes | None:
        """As `IncomingCall.said`."""
        return self._call.said

    def cancel(self) -> None:
        """Ends the call for both sides."""
        with suppress(CallEnded):
            self._post(self._call.cut_off)

    def add_callback(self, act: Callable[[], None], /) -> bool:
        """Calls `act` once the call has ended; False, and it is not called, if it has."""
        with self._lock:
            if not self._is_over:
                self._at_end.append(act)
            return not self._is_over
