"""Where the transport suites run: gRPC on real sockets, with both event loops, and the simulated network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Protocol

import uvloop

from leasehold.core.words.messages import AskReceipts, Execute, JoinWait, Message
from leasehold.errors import Fenced, LeaseholdError, NotLeader, Refused, Unreachable
from leasehold.ids import StatementId
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Network
from leasehold.wire.ports import Connection, Duplex, Service, Transport
from leasehold.wire.rpc import serve
from leasehold.wire.rpc_client import GrpcTransport

SOON_NS = 10 * SECOND_NS


class Server(Protocol):
    """Listens at one address until closed."""

    @property
    def address(self) -> str:
        """The `host:port` it really listens on."""
        ...

    async def close(self) -> None:
        """Stops listening and ends open calls; idempotent."""
        ...


class Ground(Protocol):
    """Where a test runs."""

    transport: Transport
    listen_at: str
    nowhere: str

    async def serve(self, address: str, service: Service) -> Server: ...
    @property
    def faults(self) -> list[BaseException]: ...


class RealGround:
    def __init__(self) -> None:
        self.transport = GrpcTransport()
        self.listen_at = "127.0.0.1:0"
        self.nowhere = "127.0.0.1:1"
        self.faults: list[BaseException] = []

    async def serve(self, address: str, service: Service) -> Server:
        return await serve(address, service, on_fault=self.faults.append)


class SimulatedGround:
    def __init__(self, random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.network = Network(loop, random)
        self.transport = self.network.host("client")
        self.listen_at = "server:0"
        self.nowhere = "server:1"
        self.faults: list[BaseException] = []

    async def serve(self, address: str, service: Service) -> Server:
        return await self.network.host("server").serve(address, service, on_fault=self.faults.append)


Check = Callable[[Ground], Coroutine[Any, Any, None]]
Run = Callable[[Check], None]


def on_grpc(check: Check) -> None:
    async def main() -> None:
        await check(RealGround())

    asyncio.run(main())


def on_grpc_with_uvloop(check: Check) -> None:
    async def main() -> None:
        await check(RealGround())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def on_simulation(check: Check) -> None:
    async def main(random: Random) -> None:
        await check(SimulatedGround(random))

    for seed in range(3):
        run_virtual(main, seed, shuffle=bool(seed))


RUNS = {"grpc": on_grpc, "uvloop": on_grpc_with_uvloop, "sim": on_simulation}


def text(what: str) -> Execute:
    return Execute(cluster_id=None, statement=StatementId("0" * 32), text=what)


class Echo:
    """Answers with what it is asked for; `Execute` asks for trouble by name."""

    def __init__(self) -> None:
        self.sessions_over: asyncio.Queue[str] = asyncio.Queue()
        self.last_words = False
        self.cancelled = asyncio.Event()
        self.entered = asyncio.Event()

    async def call(self, request: Message) -> Message:
        match request:
            case Execute(text="fenced"):
                raise Fenced("node n1 is fenced", hint="ask another replica")
            case Execute(text="special"):
                raise Refused("it is Tuesday", code="TUESDAY")
            case Execute(text="bug"):
                raise ZeroDivisionError("secret of the server")
            case Execute(text="group"):
                raise ExceptionGroup("tasks", [NotLeader("n2 leads")])
            case Execute(text="hang"):
                self.entered.set()
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            case Execute(text="big"):
                return text("x" * MESSAGE_BYTES_MAX)
            case _:
                return request
        raise AssertionError("unreachable")

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        assert isinstance(request, AskReceipts)
        for number in range(request.limit):
            yield JoinWait(wait_ns=number)
        if request.after == 1:
            raise Fenced("fenced half-way")
        if request.after == 2:
            await asyncio.get_running_loop().create_future()
        if request.after == 3:
            raise ZeroDivisionError("secret of the server")

    async def session(self, duplex: Duplex) -> None:
        try:
            while (message := await duplex.receive()) is not None:
                match message:
                    case Execute(text="end"):
                        await duplex.send(text("last"))
                        return
                    case Execute(text="fenced"):
                        raise Fenced("fenced in the session")
                    case Execute(text="bug"):
                        raise ZeroDivisionError("secret of the server")
                    case Execute(text="last words"):
                        self.last_words = True  # unanswered: by now the client may have ended the session
                    case _:
                        await duplex.send(message)
            self.sessions_over.put_nowait("ended")
        except Unreachable:
            self.sessions_over.put_nowait("broken")
            raise


def checked(run: Run, body: Callable[[Ground, Echo, Server, Connection], Awaitable[None]]) -> None:
    async def check(ground: Ground) -> None:
        service = Echo()
        server = await ground.serve(ground.listen_at, service)
        connection = ground.transport.connect(server.address)
        try:
            await body(ground, service, server, connection)
        finally:
            await connection.close()
            await server.close()

    run(check)


async def refusal(work: Awaitable[object]) -> LeaseholdError:
    try:
        await work
    except LeaseholdError as error:
        return error
    raise AssertionError("nothing was raised")
