"""The real transport: gRPC with generic handlers over the bytes of `core.words.codec`.

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

from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import ChallengeCoordinator, CommitTransaction, Failure, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError
from leasehold.limits.bans import FAULTS_OF_REFUSED
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.requests import (
    CALL_HEADERS_MAX,
    CALLS_PENDING_HARD_MAX,
    CALLS_PENDING_MAX,
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
from leasehold.wire.connections import CLIENT_CONNECTION_OPTIONS, server_connection_options
from leasehold.wire.counted_calls import CountedCall
from leasehold.wire.duplex import QueuedDuplex, encode_bounded, unreachable
from leasehold.wire.failures import from_failure, plainly, to_failure
from leasehold.wire.peer_calls import CallsPerPeer, calling_peer
from leasehold.wire.peer_connections import PeerConnections
from leasehold.wire.ports import CALLER, PEER, Service
from leasehold.wire.requests import EOF, Reading, RequestReader
from leasehold.wire.threads import OneThread
from leasehold.wire.tls import NOBODY_NAMED, CallerNames, TlsSource, doors_of, open_doors, watched_doors
from leasehold.wire.untaken_answers import UntakenAnswers

SERVICE: Final = "leasehold.v1"
CALL: Final = f"/{SERVICE}/Call"
COMMIT: Final = f"/{SERVICE}/Commit"
STREAM: Final = f"/{SERVICE}/Stream"
SESSION: Final = f"/{SERVICE}/Session"

COMMON_OPTIONS: Final = (
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
)
CHANNEL_OPTIONS: Final = (
    *COMMON_OPTIONS,
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    *CLIENT_CONNECTION_OPTIONS,
)
SERVER_OPTIONS: Final = (
    *COMMON_OPTIONS,
    ("grpc.max_receive_message_length", REQUEST_FRAME_BYTES_MAX),
    ("grpc.http2.lookahead_bytes", REQUEST_WINDOW_BYTES),
    ("grpc.max_concurrent_streams", CALLS_PER_CONNECTION_MAX),
    # This bound holds for calls that have ended too, until they are tidied up.
    ("grpc.http.overload_protection", 1),
    # By default gRPC cancels calls at random once 1,000 wait for the event loop, and all above 3,000.
    ("grpc.server.max_pending_requests", CALLS_PENDING_MAX),
    ("grpc.server.max_pending_requests_hard_limit", CALLS_PENDING_HARD_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_INTERVAL_NS // MILLISECOND_NS // 2),
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


class _Methods(grpc.GenericRpcHandler):
    """The handlers by path. Each call has one: what gRPC refuses by itself is in no bound."""

    def __init__(self, served: dict[str, Any], unserved: Any, with_many_headers: Any) -> None:
        self._served = served
        self._unserved = unserved
        self._with_many_headers = with_many_headers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if len(handler_call_details.invocation_metadata) > CALL_HEADERS_MAX:
            return self._with_many_headers
        return self._served.get(handler_call_details.method, self._unserved)


class Handlers:
    """The methods of the service. The simulator calls these, and gRPC those of `methods`."""

    def __init__(
        self, service: Service, on_fault: Callable[[BaseException], None], callers: CallerNames = NOBODY_NAMED
    ) -> None:
        self._service = service
        self._on_fault = on_fault
        self._callers = callers

    def methods(
        self, requests: RequestReader, peers: CallsPerPeer, answers: UntakenAnswers, doors: PeerConnections
    ) -> grpc.GenericRpcHandler:
        """For gRPC: bytes in, bytes out, without serialisers. All take a stream, since gRPC calls a handler of one
        message only once it has taken in the whole of it."""

        def comes(context: Any) -> None:
            caller = self._callers.caller(context)
            CALLER.set(caller)
            connection = context.peer()
            if not doors.has_call(connection, of_member=caller is not None and caller.is_member):
                raise asyncio.CancelledError  # the connection is closed: gRPC has nobody to tell
            context.add_done_callback(lambda _: doors.end_call(connection))

        async def begun(context: Any) -> CountedCall:
            comes(context)
            return await CountedCall.begin(context, peers, answers, doors)

        async def call(_frames: Any, context: Any) -> bytes:
            PEER.set(calling_peer(context.peer()))
            counted = await begun(context)
            return await counted.holding(await self.call(requests.reading(context)))

        async def commit(_frames: Any, context: Any) -> bytes:
            counted = await begun(context)
            return await counted.holding(await self.call(requests.reading(context, commit=True)))

        async def stream(_frames: Any, context: Any) -> None:
            await self.stream(requests.reading(context), await begun(context))

        async def session(_frames: Any, context: Any) -> None:
            await begun(context)
            await self.session(requests, context)

        async def unserved(_frames: Any, context: Any) -> None:
            comes(context)
            doors.has_fault(context.peer(), FAULTS_OF_REFUSED)
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "a coordinator does not serve this call")

        async def with_many_headers(_frames: Any, context: Any) -> None:
            doors.has_flood(context.peer())
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "a call has fewer headers")

        return _Methods(
            {
                CALL: grpc.stream_unary_rpc_method_handler(call),
                COMMIT: grpc.stream_unary_rpc_method_handler(commit),
                STREAM: grpc.stream_stream_rpc_method_handler(stream),
                SESSION: grpc.stream_stream_rpc_method_handler(session),
            },
            grpc.stream_stream_rpc_method_handler(unserved),
            grpc.stream_stream_rpc_method_handler(with_many_headers),
        )

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
        await context.send_initial_metadata(())
        unread = [] if requests is None else [await requests.first(context)]
        following = context.read if requests is None else partial(requests.message, context)
        duplex = ServerDuplex(context.peer())

        async def read() -> bytes | None:
            blob = unread.pop() if unread else await following()
            return None if blob is EOF else blob

        async def write(blob: bytes) -> None:
            try:
                await context.write(blob)
            except grpc.aio.BaseError as error:
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
    """A gRPC server that listens at one address; made by `serve`."""

    def __init__(self, server: grpc.aio.Server, address: str, doors: PeerConnections) -> None:
        self._server = server
        self._doors = doors
        self.address = address

    async def close(self) -> None:
        """Stops listening and ends open calls; a session's service has `SESSION_END_GRACE_NS` to end by itself."""
        self._doors.close()
        await self._server.stop(None)


async def serve(
    address: str,
    service: Service,
    *,
    on_fault: Callable[[BaseException], None],
    tls: TlsSource | None = None,
    idle_ns: int = CONNECTION_IDLE_NS,
) -> GrpcServer:
    """Serves `service` at the doors of `address` (`wire.tls.open_doors`).

    Raises as `open_doors`. `on_fault` gets every error of a handler that is not ours. A connection without a call is
    closed after `idle_ns`.
    """
    server = grpc.aio.server(options=(*SERVER_OPTIONS, *server_connection_options(idle_ns, doors=doors_of(tls))))
    bound = open_doors(server, address, tls)
    doors = watched_doors(bound, tls)
    handlers = Handlers(service, on_fault, CallerNames(tls, address, doors.end))
    is_shared = tls is not None
    answers = UntakenAnswers(are_counted=is_shared, end=doors.end)
    requests = RequestReader(OneThread(), doors.has_read, doors.expecting)
    methods = handlers.methods(requests, CallsPerPeer(are_counted=is_shared), answers, doors)
    server.add_generic_rpc_handlers((methods,))
    await server.start()
    return GrpcServer(server, bound, doors)
