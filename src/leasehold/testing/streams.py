"""Simulated streams: what gRPC does on a TCP connection, as two pipes that keep order over a faulty network.

An item is late, or waits behind a partition, a pause or a hold, and all behind it wait too; it is never lost while
the stream is open. The two ends are driven by the production code of `wire.rpc` and `wire.duplex`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import Unreachable
from leasehold.testing.loop import VirtualLoop
from leasehold.wire.duplex import Bell, unreachable
from leasehold.wire.http2.calls import EOF

if TYPE_CHECKING:
    from leasehold.testing.hosts import Host, SimulatedServer
    from leasehold.testing.network import Network

PIPE_ITEMS_MAX: Final = 64
"""Items under way or unread before the writer waits, like the window of HTTP/2."""


class Kind(Enum):
    """The kinds of items in a pipe."""

    OPEN = "open"
    ACCEPTED = "accepted"
    DATA = "data"
    FINISHED = "finished"
    BROKEN = "broken"


_MESSAGES: Final = (Kind.OPEN, Kind.DATA)
"""The kinds that may carry a message of ours."""


class Pipe:
    """One direction of a stream; `arrive` is called at the far end, in order."""

    def __init__(self, network: "Network", src: "Host", dst: "Host", arrive: Callable[[Kind, bytes], None]) -> None:
        self._network = network
        self.src = src
        self.dst = dst
        self._arrive = arrive
        self._items: deque[tuple[int, Kind, bytes]] = deque()
        self._last_ns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unread = 0
        self._changed = Bell()

    def push(self, kind: Kind, blob: bytes = b"") -> None:
        """Sends an item; it arrives after all before it."""
        due_ns = self._network.loop.virtual_ns + self._network.stream_delay_ns(self.src, self.dst)
        self._last_ns = max(self._last_ns + 1, due_ns)
        self._items.append((self._last_ns, kind, blob))
        if self._timer is None and len(self._items) == 1:  # else it waits for the one before it
            self._timer = self._network.loop.call_at_ns(self._last_ns, self._on_timer)

    @property
    def is_full(self) -> bool:
        """Whether a writer has to wait."""
        return len(self._items) + self._unread >= PIPE_ITEMS_MAX

    async def wait_for_change(self) -> None:
        """Returns once something was read, or the stream broke."""
        await self._changed.wait()

    def wake(self) -> None:
        """Lets a waiting writer look again."""
        self._changed.ring()

    def note_read(self) -> None:
        """The far end has read a blob."""
        self._unread -= 1
        self._changed.ring()

    def pump(self) -> None:
        """Delivers what is due and not stuck; called again when either may have changed."""
        while self._items and self._timer is None:
            due_ns, kind, blob = self._items[0]
            if due_ns > self._network.loop.virtual_ns:
                self._timer = self._network.loop.call_at_ns(due_ns, self._on_timer)
                return
            if self._network.is_stuck(self.src, self.dst, blob if kind in _MESSAGES else b""):
                return
            self._items.popleft()
            self._unread += kind is Kind.DATA
            self._arrive(kind, blob)

    def close(self) -> None:
        """Both ends are over: drops what is under way, and the references to the stream."""
        self._items.clear()
        self._arrive = _nowhere
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()


def _nowhere(_kind: Kind, _blob: bytes) -> None:
    """Receives nothing: the stream is over at both ends."""


def _forgotten(_end: "End") -> None:
    """Forgets nothing: the stream is over at both ends."""


class End:
    """One end of a stream, as gRPC shows it: `read`, `write`, `cancel` and, on a server, the context's rest."""

    def __init__(self, stream: "Stream", host: "Host", peer: str) -> None:
        self._forget: Callable[[End], None] = stream.forget
        self.host = host
        self._peer = peer
        self._arrived: deque[bytes] = deque()
        self._changed = Bell()
        self.accepted = False
        self.finished = False
        self.broken_why: str | None = None
        self._is_late = False
        self._out: Pipe | None = None
        self._into: Pipe | None = None
        self.on_break: Callable[[], object] = lambda: None
        self._keepalive: asyncio.TimerHandle | None = None

    def bind(self, *, out: Pipe, into: Pipe) -> None:
        """Gives the end its pipes, once."""
        self._out, self._into = out, into

    def unbind(self) -> None:
        """The other end is over too. What has arrived can still be read."""
        self._out = self._into = None
        self._forget = _forgotten

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen here."""
        return self.finished or self.broken_why is not None

    def peer(self) -> str:
        """The name of the other side."""
        return self._peer

    def send_headers(self) -> None:
        """Tells the client that the stream is served."""
        self._push(Kind.ACCEPTED)

    async def wait_accepted(self) -> None:
        """Returns once the server serves the stream; raises `Unreachable` where it does not."""
        while not self.accepted and self.broken_why is None:
            await self._changed.wait()
        if not self.accepted:
            raise self._broken()

    async def read(self) -> Any:
        """The next blob; `EOF` at the end of the stream; raises `Unreachable` where it broke."""
        while True:
            if self._arrived:
                if self._into is not None:
                    self._into.note_read()
                return self._arrived.popleft()
            if self.broken_why is not None:
                raise self._broken()
            if self.finished:
                return EOF
            await self._changed.wait()

    async def write(self, blob: bytes) -> None:
        """Sends a blob; raises `Unreachable` where the stream is over."""
        while not self.is_over and self._out is not None and self._out.is_full:
            await self._out.wait_for_change()
        if self.is_over:
            raise self._broken()
        self._push(Kind.DATA, blob)

    def cancel(self) -> None:
        """Cuts the stream from this end; does nothing once it is over."""
        self.cut("the stream was cut here")

    def expire(self, why: str) -> None:
        """The deadline of the call has passed: cuts the stream. What is read then raises TIMED_OUT."""
        if not self.is_over:
            self._is_late = True
            self.cut(why)

    def cut(self, why: str, *, tell: bool = True) -> None:
        """Breaks this end, and the other one, unless the machine can't send any more."""
        if not self.is_over:
            if tell:
                self._push(Kind.BROKEN, why.encode())
            self._break(why)

    def take(self, kind: Kind, blob: bytes) -> None:
        """An item has arrived."""
        if self.is_over:
            return
        match kind:
            case Kind.DATA:
                self._arrived.append(blob)
                self._changed.ring()
                return
            case Kind.ACCEPTED:
                self.accepted = True
            case Kind.FINISHED:
                self.finished = True
                self._wake()
                self._forget(self)
                return
            case Kind.BROKEN:
                self._break(blob.decode())
                return
            case Kind.OPEN:
                raise AssertionError("a stream is opened once")
        self._wake()

    def start_keepalive(self, loop: VirtualLoop, wait_ns: int) -> None:
        """The other end is silent: breaks this one after `wait_ns`, unless `stop_keepalive` is called."""
        if self._keepalive is None and not self.is_over:
            due_ns = loop.now_ns() + wait_ns
            self._keepalive = loop.call_at_ns(due_ns, lambda: self.cut("the keepalive had no answer"))

    def stop_keepalive(self) -> None:
        """The other end is heard again, or this one is over."""
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None

    def finish(self) -> None:
        """Ends the stream in order, from the server."""
        if not self.is_over:
            self._push(Kind.FINISHED)
            self.finished = True
            self._forget(self)

    def _break(self, why: str) -> None:
        self.broken_why = why
        self._wake()
        self._forget(self)
        self.on_break()

    def _push(self, kind: Kind, blob: bytes = b"") -> None:
        assert self._out is not None, "an end is bound before it is used"
        self._out.push(kind, blob)

    def _wake(self) -> None:
        self._changed.ring()
        if self._out is not None:
            self._out.wake()

    def _broken(self) -> Unreachable:
        error = unreachable(self._peer, self.broken_why or "the stream has ended")
        return Unreachable(error.text, code=ErrorCode.TIMED_OUT, hint=error.hint) if self._is_late else error


class Stream:
    """A stream between two hosts; the first item opens it at the server."""

    def __init__(self, network: "Network", src: "Host", dst: "Host", address: str) -> None:
        self._network = network
        self._address = address
        self.client = End(self, src, address)
        self.server = End(self, dst, src.name)
        self.up = Pipe(network, src, dst, self._arrive_up)
        self.down = Pipe(network, dst, src, self.client.take)
        self.client.bind(out=self.up, into=self.down)
        self.server.bind(out=self.down, into=self.up)
        self._method = ""
        self.is_orphan = False
        """Whether the machine of one end is gone silently."""

    def start(self, method: str, request: bytes) -> End:
        """Sends the first item, the method and its request if it has one; answers the client's end."""
        self._method = method
        self._network.streams[self] = None
        self.up.push(Kind.OPEN, request)
        return self.client

    def serve(self, server: "SimulatedServer", work: Coroutine[Any, Any, None]) -> None:
        """Runs the handler at the server; a broken stream cancels it, its end ends the stream."""
        end = self.server

        def on_done(done: asyncio.Task[Any]) -> None:
            if done.cancelled() or done.exception() is not None:
                end.cut("the server ended the stream")
            else:
                end.finish()

        end.on_break = server.own(work, on_done).cancel

    def forget(self, end: End) -> None:
        """An end is over; with both, so is the stream."""
        end.stop_keepalive()
        client, server = self.client, self.server
        if client.is_over and server.is_over:
            self._network.streams.pop(self, None)
            # No reference cycle is left, which would need the garbage collector.
            self.up.close()
            self.down.close()
            client.unbind()
            server.unbind()

    def ends(self) -> tuple[End, End]:
        """Client's and server's."""
        return self.client, self.server

    def pump(self) -> None:
        """Looks again at what was stuck."""
        self.up.pump()
        self.down.pump()

    def _arrive_up(self, kind: Kind, blob: bytes) -> None:
        if kind is not Kind.OPEN:
            self.server.take(kind, blob)
            return
        server = self.server.host.listener(self._address)
        if server is None:
            # A dead machine refuses nothing; one without its process does.
            self.server.cut("connection refused", tell=not self.server.host.dark)
        else:
            self.serve(server, server.handler(self._method, blob, self.server))
