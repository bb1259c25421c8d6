"""Simulated machines: servers as `wire.rpc` has them and connections of `wire.ports`, over `testing.network`.

The handlers of `wire.rpc` and both ends of `wire.duplex` run here as they do over gRPC.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leasehold.core.words.codec import decode_message
from leasehold.core.words.messages import Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Unreachable
from leasehold.limits.clients import CONNECT_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.streams import End, Stream
from leasehold.wire.duplex import QueuedDuplex, encode_bounded, unreachable
from leasehold.wire.http2.calls import EOF
from leasehold.wire.ports import Service
from leasehold.wire.rpc import SESSION, STREAM, Handlers, read_answer
from leasehold.wire.rpc_client import ClientDuplex, close_all

if TYPE_CHECKING:
    from leasehold.testing.network import Network

FIRST_FREE_PORT: Final = 40_000

Result: TypeAlias = bytes | Unreachable
HostAnswer: TypeAlias = asyncio.Future[Result]


class Host:
    """A machine with one process on it: implements `wire.ports.Transport`, and `serve` as in `wire.rpc`."""

    checks_peers = False
    certificate_ends_s = None

    def __init__(self, network: "Network", name: str) -> None:
        self.network = network
        self.name = name
        self.alive = True
        self.paused = False
        self.dark = False
        """Whether the machine is gone silently, so that it refuses no connection."""
        self.epoch = 1
        self._servers: dict[str, SimulatedServer] = {}
        self._next_port = FIRST_FREE_PORT
        self._calls: dict[HostAnswer, None] = {}

    def connect(self, address: str) -> "SimulatedConnection":
        """A connection of the process that runs now; nothing is sent yet."""
        return SimulatedConnection(self, address)

    async def serve(
        self, address: str, service: Service, *, on_fault: Callable[[BaseException], None]
    ) -> "SimulatedServer":
        """Serves at `address`, `name:port`; port 0 picks one. Raises `BadSettings` like the real one."""
        assert self.alive, f"{self.name} was killed: restart it first"
        name, _colon, port = address.rpartition(":")
        if name != self.name:
            raise BadSettings(f"can't listen on {address}: this host is {self.name}")
        if port == "0":
            self._next_port += 1
            address = f"{name}:{self._next_port}"
        if address in self._servers:
            raise BadSettings(f"can't listen on {address}: another process listens there", code=ErrorCode.PORT_IN_USE)
        server = SimulatedServer(self, address, Handlers(service, on_fault))
        self._servers[address] = server
        return server

    def listener(self, address: str) -> "SimulatedServer | None":
        """The server at `address`, if there is one now."""
        return self._servers.get(address)

    def stop_listening(self, server: "SimulatedServer") -> None:
        """Forgets a server."""
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    def expect(self, answer: HostAnswer) -> None:
        """A call of this process waits for `answer`, until `forget`."""
        self._calls[answer] = None

    def forget(self, answer: HostAnswer) -> None:
        """The call does not wait any more."""
        self._calls.pop(answer, None)

    def end_process(self, *, silent: bool) -> None:
        """See `Network.kill`."""
        self.alive, self.dark = False, silent
        self.epoch += 1
        for stream in tuple(self.network.streams):
            for end in stream.ends():
                if end.host is self:
                    end.cut("the process was killed", tell=not silent)
                    if silent:
                        stream.is_orphan = True
                        self.network.watch_silence(stream, dead=True)
        for answer in tuple(self._calls):
            settle(answer, unreachable(self.name, "the process was killed"))
        for server in tuple(self._servers.values()):
            server.abandon(silent=silent)


@contextlib.asynccontextmanager
async def _arrived(request: bytes) -> AsyncGenerator[Message]:
    """Reads a request of which all bytes are there."""
    yield decode_message(request)


class SimulatedServer:
    """Stands for `wire.rpc.GrpcServer`; owns the tasks of its handlers, until `close` or `Network.kill`."""

    def __init__(self, host: Host, address: str, handlers: Handlers) -> None:
        self._host = host
        self._address = address
        self._handlers = handlers
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._replies: dict[asyncio.Task[Any], Callable[[Result], None]] = {}

    @property
    def address(self) -> str:
        """The `name:port` it listens on."""
        return self._address

    async def close(self) -> None:
        """Stops listening, cuts its streams and calls, and waits for their handlers to end."""
        self._host.stop_listening(self)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def abandon(self, *, silent: bool) -> None:
        """The process is gone: callers see a broken connection, or nothing if it is `silent`."""
        self._host.stop_listening(self)
        for task in tuple(self._tasks):
            reply = self._replies.pop(task, None)
            if reply is not None and not silent:
                reply(unreachable(self._address, "connection reset"))
            task.cancel()

    def own(self, work: Coroutine[Any, Any, Any], on_done: Callable[[asyncio.Task[Any]], None]) -> asyncio.Task[Any]:
        """Runs a handler; `on_done` gets the task when it has ended."""

        def ended(done: asyncio.Task[Any]) -> None:
            del self._tasks[done]
            on_done(done)

        task = self._host.network.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(ended)
        return task

    def handler(self, method: str, request: bytes, end: End) -> Coroutine[Any, Any, None]:
        """The handler of a stream."""
        return self._handlers.session(None, end) if method == SESSION else self._handlers.stream(_arrived(request), end)

    def answer(self, request: bytes, reply: Callable[[Result], None]) -> asyncio.Task[Any]:
        """Handles a call; `reply` gets the answer, or an error."""

        def on_done(done: asyncio.Task[bytes]) -> None:
            answer_to = self._replies.pop(done, None)
            if answer_to is not None:
                answer_to(unreachable(self._address, "connection reset") if done.cancelled() else done.result())

        task = self.own(self._handlers.call(_arrived(request)), on_done)
        self._replies[task] = reply
        return task


class SimulatedConnection:
    """Implements `wire.ports.Connection` for one process of a host; dead for good once that is killed."""

    def __init__(self, host: Host, address: str) -> None:
        self._host = host
        self._address = address
        self._epoch = host.epoch
        self._closed = False
        self._calls: dict[HostAnswer, None] = {}
        self._streams: dict[End, None] = {}
        self._sessions: dict[ClientDuplex, None] = {}

    async def call(self, request: Message, *, timeout_ns: int) -> Message:
        """One question, one answer; a caller that gives up cancels the handler, if that message gets through."""
        peer = self._peer()
        blob = encode_bounded(request)
        network = self._host.network
        answer: HostAnswer = network.loop.create_future()
        task: list[asyncio.Task[Any]] = []

        def withdraw() -> None:
            network.post(self._host, peer, None, lambda: _cancel(task))

        def give_up() -> None:
            if not answer.done():
                answer.set_result(unreachable(self._address, _late(timeout_ns)))
                withdraw()

        self._calls[answer] = None
        self._host.expect(answer)
        network.post(self._host, peer, blob, lambda: task.extend(self._ask(peer, blob, answer)))
        timer = network.loop.call_at_ns(network.loop.now_ns() + timeout_ns, give_up)
        try:
            result = await answer
        except asyncio.CancelledError:
            withdraw()
            raise
        finally:
            timer.cancel()
            del self._calls[answer]
            self._host.forget(answer)
        if isinstance(result, Unreachable):
            # A new error: the traceback of a raised error holds this frame, which holds the answer.
            raise Unreachable(result.text, code=result.code, hint=result.hint)
        return read_answer(result)

    async def stream(self, request: Message, *, timeout_ns: int) -> AsyncGenerator[Message, None]:
        """One question, several answers; `timeout_ns` bounds all of them together.

        Raises `Unreachable` with code TIMED_OUT after that time, as Flight does.
        """
        loop = self._host.network.loop
        end = self._open(STREAM, encode_bounded(request))
        late = _late(timeout_ns)
        timer = loop.call_at_ns(loop.now_ns() + timeout_ns, lambda: end.expire(late))
        try:
            while (blob := await end.read()) is not EOF:
                yield read_answer(blob)
        finally:
            timer.cancel()
            end.cancel()
            self._streams.pop(end, None)

    async def session(self) -> QueuedDuplex:
        """Opens a stream in both directions, accepted by the server within `CONNECT_TIMEOUT_NS`."""
        end = self._open(SESSION, b"")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_NS / SECOND_NS):
                await end.wait_accepted()
        except TimeoutError as error:
            raise unreachable(self._address, f"no session within {CONNECT_TIMEOUT_NS / SECOND_NS:g} s") from error
        finally:
            self._streams.pop(end, None)
            if not end.accepted:
                end.cancel()
        duplex = ClientDuplex(self._address, end, lambda done: self._sessions.pop(done, None))
        self._sessions[duplex] = None
        return duplex

    async def close(self) -> None:
        """Ends its sessions in order and everything else at once; idempotent."""
        self._closed = True
        await close_all(tuple(self._sessions))
        for end in tuple(self._streams):
            end.cancel()
        for answer in tuple(self._calls):
            settle(answer, unreachable(self._address, "the connection was closed"))

    def _peer(self) -> Host:
        if self._closed or self._epoch != self._host.epoch or not self._host.alive:
            raise unreachable(self._address, "the connection was closed")
        return self._host.network.host(self._address.rpartition(":")[0])

    def _open(self, method: str, request: bytes) -> End:
        peer = self._peer()
        stream = Stream(self._host.network, self._host, peer, self._address)
        end = stream.start(method, request)
        self._host.network.watch_silence(stream)
        self._streams[end] = None
        return end

    def _ask(self, peer: Host, blob: bytes, answer: HostAnswer) -> tuple[asyncio.Task[Any], ...]:
        """The request has arrived."""

        def reply(result: Result) -> None:
            seen = result if isinstance(result, bytes) else None
            peer.network.post(peer, self._host, seen, lambda: settle(answer, result))

        server = peer.listener(self._address)
        if server is None:
            # A dead machine refuses nothing; one without its process does.
            if not peer.dark:
                reply(unreachable(self._address, "connection refused"))
            return ()
        return (server.answer(blob, reply),)


def settle(answer: HostAnswer, result: Result) -> None:
    """Ends a caller's wait, unless the caller has given up."""
    if not answer.done():
        answer.set_result(result)


def _late(timeout_ns: int) -> str:
    return f"no answer within {timeout_ns / SECOND_NS:g} s"


def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
