"""A call as its handler sees it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

import grpc
import grpc.aio

from leasehold.limits.http2 import CALL_NS, SEND_AHEAD_BYTES
from leasehold.limits.sessions import SESSION_END_GRACE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.http2.grpc_messages import RESPONSE, BadCallMessage, MessageAssembler, prefixed, status_block
from leasehold.wire.http2.streams import CallStream

if TYPE_CHECKING:
    from leasehold.wire.http2.door_connection import DoorConnection

EOF: Final = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue] exported without being declared
"""The peer has ended its side of the call, here and at clients."""


class CallEnded(Exception):
    """The handler has ended the call, or its client has; nobody hears more of it."""


class IncomingCall:
    """Of one event loop."""

    __slots__ = (
        "_assembler",
        "_at_end",
        "_connection",
        "_has_headers",
        "_is_ended",
        "_is_gone",
        "_is_over",
        "_messages",
        "_paid_ns",
        "_room",
        "_stream",
        "_waiting",
        "ends_in_order",
        "on_room",
        "said",
        "task",
    )

    def __init__(
        self, connection: "DoorConnection", stream: CallStream, message_bytes_max: int, said: bytes | None = None
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        """In which its handler runs."""
        self.said = said
        """The header that the server keeps, as it came."""
        self.on_room: Callable[[], None] = nobody_waits
        """Called when little is queued."""
        self.ends_in_order = False
        """Whether the handler first reads what the client has said before it went, and EOF; it has a while for that."""
        self._connection = connection
        self._stream = stream
        self._assembler = MessageAssembler(message_bytes_max)
        self._messages: deque[bytes | bytearray] = deque()
        self._waiting: asyncio.Future[None] | None = None
        """Of the handler, for a message."""
        self._room: asyncio.Future[None] | None = None
        """Of the handler, until less is queued."""
        self._at_end: list[Callable[[IncomingCall], None]] = []
        self._paid_ns = CALL_NS
        """How long its handler may work before that counts."""
        self._has_headers = False
        self._is_ended = False
        """Whether the server has said how it ends, or the client has taken it back."""
        self._is_gone = False
        self._is_over = False

    # For the connection: `Receives`.

    def came(self, piece: memoryview, *, ended: bool) -> None:
        if self._is_ended:
            return
        before = len(self._messages)
        try:
            self._messages.extend(self._assembler.feed(piece))
            self._connection.http.allowance.earn(len(self._messages) - before)
            if ended and not self._assembler.is_between:
                raise BadCallMessage(grpc.StatusCode.INTERNAL, "a message is broken off")
        except BadCallMessage as error:
            self.end(error.status, str(error))
            if self.task is not None:
                self.task.cancel()
            return
        if self._waiting is not None:
            if self._messages or ended:
                _wake(self._waiting)
            else:
                self._grant()

    def reset(self) -> None:
        self._is_ended = True
        if self.task is None or self.task.done():
            self._over()
            return
        task = self.task  # until its handler has ended it counts
        task.add_done_callback(lambda _: self._over())
        if not self.ends_in_order:
            task.cancel()
            return
        asyncio.get_running_loop().call_later(SESSION_END_GRACE_NS / SECOND_NS, task.cancel)
        for waiting in (self._waiting, self._room):
            if waiting is not None:
                _wake(waiting)

    def spend(self, spent_ns: int, *, is_of_turn: bool = True) -> None:
        """Its handler has worked for so long, on the loop or on a thread."""
        if spent_ns <= self._paid_ns:
            self._paid_ns -= spent_ns
        else:
            self._connection.spend(spent_ns - self._paid_ns, is_of_turn=is_of_turn)
            self._paid_ns = 0

    def has_room(self) -> None:
        self.on_room()
        if self._room is not None:
            _wake(self._room)

    def gone(self) -> None:
        self._is_gone = True
        self._over()

    def waits_for_peer(self) -> bool:
        return self._waiting is not None or self._stream.pending_bytes > 0

    def _over(self) -> None:
        self._is_over = True
        self._connection.give_back(self._paid_ns)
        self._paid_ns = 0
        self.task = self._stream.receiver = None  # so what has come of a message is freed at once
        at_end, self._at_end = self._at_end, []
        for act in at_end:
            act(self)

    def _grant(self) -> None:
        """Somebody waits for a message: all of it may come, and as much again as comes unasked."""
        window = self._connection.limits.stream_window
        wanted = self._assembler.missing + window
        if self._stream.receive_window < wanted - window // 2:
            self._connection.http.grant(self._stream, wanted - self._stream.receive_window)
            self._connection.flush_soon()

    # For the handler.

    def peer(self) -> str:
        """Its connection, as `ipv4:192.0.2.1:50051` or `ipv6:%5B2001:db8::1%5D:50051`."""
        return self._connection.peer

    @property
    def is_of_member(self) -> bool:
        """Whether its connection is that of a node or coordinator, whose certificate counts."""
        return self._connection.is_of_member

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """What TLS says of the peer, by gRPC's names."""
        return self._connection.auth_context

    async def read(self) -> object:
        """The next message, as bytes, or EOF."""
        while not self._messages:
            if self._stream.remote_ended or self._is_ended:
                return EOF
            self._grant()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._messages.popleft()

    async def write(self, message: bytes | bytearray, *, ahead_bytes: int = SEND_AHEAD_BYTES) -> None:
        """Queues a message, and waits until no more than this is queued. Raises `CallEnded`."""
        self.answer(message)
        while self._stream.pending_bytes > ahead_bytes:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None
            if self._is_ended:
                raise CallEnded

    def answer(self, message: bytes | bytearray) -> None:
        """Queues a message. Raises `CallEnded`."""
        if self._is_ended:
            raise CallEnded
        self.send_headers()
        self._connection.http.out.data(self._stream, *prefixed(message))
        self._connection.flush_soon()

    def send_headers(self) -> None:
        """Tells the client that its call has begun, before there is an answer."""
        if not self._has_headers and not self._is_ended:
            self._has_headers = True
            self._connection.http.out.headers(self._stream, RESPONSE)
            self._connection.flush_soon()

    @property
    def unsent_bytes(self) -> int:
        """What is queued, and not yet given to the connection."""
        return self._stream.pending_bytes

    def cut_off(self) -> None:
        """Takes the call back, and drops what is queued."""
        self._connection.http.reset(self._stream)
        self._connection.flush_soon()
        self.reset()

    def end(
        self, status: grpc.StatusCode = grpc.StatusCode.OK, why: str = "", trailing: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """The first time counts."""
        if not self._is_ended:
            self._is_ended = True
            self._messages.clear()
            self._assembler = MessageAssembler(0)
            block = status_block(status, why, has_headers=self._has_headers, trailing=trailing)
            self._connection.http.out.trailers(self._stream, block)
            self._connection.flush_soon()

    async def abort(self, status: grpc.StatusCode, why: str) -> NoReturn:
        """Ends the call. Raises `CallEnded`."""
        self.end(status, why)
        raise CallEnded

    def add_done_callback(self, act: Callable[["IncomingCall"], None]) -> None:
        """Calls it once nothing of the call is here any more."""
        if self._is_over:
            act(self)
        else:
            self._at_end.append(act)

    def done(self) -> bool:
        """Whether the client could take all of it."""
        return self._is_gone


def nobody_waits() -> None:
    """No thread waits for room."""


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
