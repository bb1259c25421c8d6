"""A server with a few handlers at real doors, and connections to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.http2.calls import EOF, IncomingCall
from leasehold.wire.http2.door_server import DoorServer
from leasehold.wire.http2.frames import ACK, PREFACE, SETTINGS, frame
from leasehold.wire.http2.headers import header_block
from leasehold.wire.http2.listening import listen_at_doors
from leasehold.wire.http2.streams import Http2Limits

SOON_NS = 100 * MILLISECOND_NS
BLOCK = header_block([(b":method", b"POST"), (b":path", b"/echo"), (b"content-type", b"application/grpc")])
OPEN = PREFACE + frame(SETTINGS, 0, 0)
YES = frame(SETTINGS, ACK, 0)
MESSAGE_BYTES_MAX = 100_000


class Handlers:
    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        self.over: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        """How each call has ended."""
        self.begun = asyncio.Event()

    async def echo(self, call: IncomingCall) -> None:
        call.add_done_callback(lambda one: self.over.put_nowait(("echo", one.done())))
        self.begun.set()
        while (message := await call.read()) is not EOF:
            assert isinstance(message, bytes | bytearray)
            await call.write(message)

    async def fail(self, _call: IncomingCall) -> None:
        raise ValueError("a secret")

    async def unserved(self, call: IncomingCall) -> None:
        await call.abort(grpc.StatusCode.UNIMPLEMENTED, "no")


@asynccontextmanager
async def serving(handlers: Handlers, *, context: object = None, **how: int) -> AsyncIterator[tuple[DoorServer, str]]:
    whole = {"idle_ns": 60 * SECOND_NS, "connections_max": 10, "message_bytes_max": MESSAGE_BYTES_MAX, **how}
    server = DoorServer(
        limits=Http2Limits(streams_max=8, stream_window=4_096),
        on_fault=handlers.faults.append,
        **whole,
    )
    address, sockets = listen_at_doors("127.0.0.1:0", with_tls=context is not None)
    contexts = (None,) if context is None else (lambda: context,) * 2
    paths = {"/echo": handlers.echo, "/fail": handlers.fail}
    await server.serve(zip(sockets, contexts, strict=True), paths, handlers.unserved)
    try:
        yield server, address
    finally:
        await server.close()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with contextlib.closing(writer):
        yield reader, writer


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes the connection, in order or not."""
    came = b""
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionResetError):
            while some := await reader.read(65_536):
                came += some
    return came
