"""The real transport: the wire of gRPC (`wire/http2`) over the bytes of `core.words.codec`.

One service, `leasehold.v1`:

| method | takes | answers |
| --- | --- | --- |
| Call | a question | one message |
| Commit | a `CommitTransaction`, which may be larger than other questions | one message |
| Stream | a question | several messages |
| Session | messages | messages |

A question travels in one frame or in several (`wire.requests`). A `Failure` message carries an error. A status of gRPC
means that no answer came, so it becomes `Unreachable`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio

from leasehold.core.access.callers import Caller
from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import ChallengeCoordinator, CommitTransaction, Failure, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.requests import (
    CALLS_PER_CONNECTION_MAX,
    CONNECTION_IDLE_NS,
    REQUEST_FRAME_BYTES_MAX,
    REQUEST_WINDOW_BYTES,
)
from leasehold.limits.sessions import (
    KEEPALIVE_INTERVAL_NS,
    KEEPALIVE_TIMEOUT_NS,
    SESSION_AHEAD_BYTES_MAX,
    SESSION_END_GRACE_NS,
)
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.connections import CLIENT_CONNECTION_OPTIONS
from leasehold.wire.counted_calls import CountedCall, CountedCalls
from leasehold.wire.doors import open_doors
from leasehold.wire.duplex import QueuedDuplex, encode_bounded, unreachable
from leasehold.wire.failures import from_failure, plainly, to_failure
from leasehold.wire.http2.calls import EOF, CallEnded, IncomingCall
from leasehold.wire.http2.door_server import CallHandler, DoorServer
from leasehold.wire.http2.streams import Http2Limits
from leasehold.wire.known_peers import KnownPeers
from leasehold.wire.peers import calling_peer
from leasehold.wire.ports import CALLER, PEER, WHO_ASKS, Service
from leasehold.wire.requests import Reading, RequestReader
from leasehold.wire.threads import OneThread
from leasehold.wire.tls import NOBODY_NAMED, CallerNames, TlsSource
from leasehold.wire.untaken_answers import UntakenAnswers

SERVICE: Final = "leasehold.v1"
CALL: Final = f"/{SERVICE}/Call"
COMMIT: Final = f"/{SERVICE}/Commit"
STREAM: Final = f"/{SERVICE}/Stream"
SESSION: Final = f"/{SERVICE}/Session"

CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_NS // MILLISECOND_NS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    # This really bounds the wait for a ping's answer, by default 60 s: the keepalive's own timer is never started, and
    # the kernel's timer runs only while bytes wait to be sent.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_NS // MILLISECOND_NS),
    ("grpc.http2.max_pings_without_data", 0),
    # These pings measure the best size of a window. With a thousand sessions of small messages they cost a coordinator
    # about a fifth of its time. A large message gets the window that it needs without them.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    *CLIENT_CONNECTION_OPTIONS,
)

BEHIND_OTHERS: Final = "other calls of this process to it took all of the time"


def describe(error: grpc.RpcError, timeout_ns: int | None = None) -> str:
    """Why a call had no answer, from what gRPC raised."""
    code = error.code()  # pyright: ignore[reportAttributeAccessIssue] every raised RpcError is a grpc.Call too
    details = error.details()  # pyright: ignore[reportAttributeAccessIssue] as above
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and timeout_ns is not None:
        return f"no answer within {timeout_ns / SECOND_NS:g} s"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return "the process that listens there is not a coordinator"
    if code is grpc.StatusCode.CANCELLED:
        return "it rejected the call, because too many others wait"
    return plainly(f"{details}") or f"no answer ({code.name})"


def was_sent(error: grpc.RpcError) -> bool:
    """Whether the peer may have got any part of the call. gRPC says so if there was no connection to send it over."""
    return not f"{error.details()}".startswith("failed to connect to all addresses")  # pyright: ignore[reportAttributeAccessIssue] as above


def call_path(request: Message) -> str:
    """The method that a question with one answer goes to."""
    return COMMIT if isinstance(request, CommitTransaction) else CALL


def read_answer(blob: bytes) -> Message:
    """The message in an answer; raises the error that a `Failure` describes."""
    message = decode_message(blob)
    if isinstance(message, Failure):
        raise from_failure(message)
    return message


def failure_of(fault: BaseException, on_fault: Callable[[BaseException], None]) -> Failure:
    """What the peer learns of `fault`: all of a `LeaseholdError`, of anything else only that it happened. A group, as a
    `TaskGroup` raises it, counts as its first error if all in it are ours."""
    leaves = _leaves(fault)
    ours = [leaf for leaf in leaves if isinstance(leaf, LeaseholdError)]
    if len(ours) == len(leaves):
        return to_failure(ours[0])
    on_fault(fault)
    return to_failure(
        Indefinite(
            "the server failed on this request", code=ErrorCode.INTERNAL, hint="its log on that machine says why"
        )
    )


def _leaves(fault: BaseException) -> list[BaseException]:
    if isinstance(fault, BaseExceptionGroup):
        return [leaf for child in fault.exceptions for leaf in _leaves(child)]
    return [fault]


class ServerDuplex(QueuedDuplex):
    """The server's end. It reads one message ahead until the service asks for a message after the session's opening,
    which is the first message that is no challenge."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer, receive_bytes_max=0)
        self._has_opening = False

    async def receive(self) -> Message | None:
        if self._has_opening:
            self.read_ahead(SESSION_AHEAD_BYTES_MAX)
        message = await super().receive()
        self._has_opening = not isinstance(message, ChallengeCoordinator)
        return message


class Handlers:
    """The methods of the service. The simulator calls these, and the server those of `methods`."""

    def __init__(
        self,
        service: Service,
        on_fault: Callable[[BaseException], None],
        callers: CallerNames = NOBODY_NAMED,
        known: KnownPeers | None = None,
    ) -> None:
        self._known = KnownPeers() if known is None else known
        self._service = service
        self._on_fault = on_fault
        self._callers = callers

    def methods(self, requests: RequestReader, counted: CountedCalls) -> "tuple[dict[str, CallHandler], CallHandler]":
        """For a server: by path, and for all other paths."""

        def comes(call: IncomingCall) -> None:
            CALLER.set(self._callers.caller(call.auth_context()))
            peer = calling_peer(call.peer())
            PEER.set(peer)
            WHO_ASKS.set(partial(self._known.add, peer))

        async def begun(call: IncomingCall) -> CountedCall:
            comes(call)
            return await counted.begin(call, PEER.get())

        async def one_answer(call: IncomingCall) -> bytes:
            one = await begun(call)
            return await one.holding(await self.call(requests.reading(call)))

        async def commit(call: IncomingCall) -> bytes:
            one = await begun(call)
            return await one.holding(await self.call(requests.reading(call, commit=True)))

        async def stream(call: IncomingCall) -> None:
            await self.stream(requests.reading(call), await begun(call))

        async def session(call: IncomingCall) -> None:
            await begun(call)
            call.ends_in_order = True
            await self.session(requests, call)

        async def unserved(call: IncomingCall) -> None:
            comes(call)
            await call.abort(grpc.StatusCode.UNIMPLEMENTED, "a coordinator does not serve this call")

        return {CALL: one_answer, COMMIT: commit, STREAM: stream, SESSION: session}, unserved

    async def call(self, request: Reading) -> bytes:
        try:
            async with request as message:
                return encode_bounded(await self._service.call(message))
        except Exception as fault:  # noqa: BLE001 the border: what was not foreseen goes to on_fault, not to the peer
            return encode_bounded(failure_of(fault, self._on_fault))

    async def stream(self, request: Reading, context: Any) -> None:
        """A question, several answers, written to `context`."""
        # Written to the context, not yielded: so a cancelled call interrupts this frame and closes the iterator.
        async with aclosing(self._answers(request)) as answers:
            async for answer in answers:
                await context.write(answer)

    async def _answers(self, request: Reading) -> AsyncGenerator[bytes, None]:
        try:
            async with request as message:
                answers = self._service.stream(message)
                try:
                    async for answer in answers:
                        yield encode_bounded(answer)
                finally:
                    if isinstance(answers, AsyncGenerator):
                        await answers.aclose()
        except Exception as fault:  # noqa: BLE001 as in `call`
            yield encode_bounded(failure_of(fault, self._on_fault))

    async def session(self, requests: RequestReader | None, context: Any) -> None:
        """A stream in both directions, read from and written to `context`; `requests` reads its messages."""
        context.send_headers()
        unread = [] if requests is None else [await requests.first(context)]
        duplex = ServerDuplex(context.peer())

        async def read() -> bytes | None:
            blob = unread.pop() if unread else await context.read()
            return None if blob is EOF else blob

        async def write(blob: bytes) -> None:
            try:
                await context.write(blob)
            except CallEnded as error:
                raise unreachable(context.peer(), "the stream broke") from error

        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._serve_session(duplex))
            moving = group.create_task(duplex.read_all(read)), group.create_task(duplex.write_all(write))
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                # The stream broke, or the server closes. The service gets `Unreachable` and may end by itself; what
                # takes longer is cancelled.
                duplex.break_off("the stream broke")
                await asyncio.wait({work}, timeout=SESSION_END_GRACE_NS / SECOND_NS)
                raise
            for task in moving:
                task.cancel()

    async def _serve_session(self, duplex: QueuedDuplex) -> None:
        try:
            await self._service.session(duplex)
        except Exception as fault:  # noqa: BLE001 as in `call`
            failure = failure_of(fault, self._on_fault)
            if duplex.is_open:
                await duplex.send(failure)
        await duplex.close()


class GrpcServer:
    """A server that listens at one address; made by `serve`."""

    def __init__(self, server: DoorServer, address: str) -> None:
        self._server = server
        self.address = address
        self.known = server.known

    async def close(self) -> None:
        """Stops listening and ends open calls; a session's service has `SESSION_END_GRACE_NS` to end by itself."""
        await self._server.close()


async def serve(
    address: str,
    service: Service,
    *,
    on_fault: Callable[[BaseException], None],
    tls: TlsSource | None = None,
    idle_ns: int = CONNECTION_IDLE_NS,
    check_counts: Callable[[Caller | None], None] = lambda _: None,
) -> GrpcServer:
    """Serves `service` at the doors of `address`.

    Raises as `listen_at_doors`. `on_fault` gets every error of a handler that is not ours. A connection without a call
    is closed after `idle_ns`. `check_counts` raises `Forbidden` for a certificate that counts no more: connections on
    which it was shown are ended.
    """
    doors = open_doors(address, tls)
    server = DoorServer(
        limits=Http2Limits(streams_max=CALLS_PER_CONNECTION_MAX, stream_window=REQUEST_WINDOW_BYTES),
        message_bytes_max=REQUEST_FRAME_BYTES_MAX,
        idle_ns=idle_ns,
        connections_max=doors.connections_max,
        connections_per_peer_max=doors.per_peer_max,
        on_fault=on_fault,
        standing=doors.names.standings(check_counts),
    )
    handlers = Handlers(service, on_fault, doors.names, server.known)
    is_shared = tls is not None
    answers = UntakenAnswers(are_counted=is_shared, end=server.end)
    counted = CountedCalls(answers, server.known, are_counted=is_shared)
    methods, unserved = handlers.methods(RequestReader(OneThread()), counted)
    await server.serve(doors.sockets, methods, unserved)
    return GrpcServer(server, doors.address)
