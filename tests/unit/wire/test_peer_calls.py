"""How many calls of one peer a server has under way."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.certificate_words import issued, of_process
from tests.unit.wire.served_flight import KINDS, KNOWN, Service

from leasehold.certificates.files import CA
from leasehold.certificates.names import CertificateRole
from leasehold.core.access.callers import Caller
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, Message
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Unreachable
from leasehold.limits.requests import CALLS_PER_CONNECTION_MAX, CALLS_PER_PEER_MAX
from leasehold.wire import rpc
from leasehold.wire.addresses import next_port
from leasehold.wire.counted_calls import CountedCalls
from leasehold.wire.flight import CALLER_HEADER
from leasehold.wire.flight_calls import Incoming
from leasehold.wire.flight_codec import write_field
from leasehold.wire.flight_server import SERVICE as FLIGHT
from leasehold.wire.flight_server import FlightServer
from leasehold.wire.http2.frames import ACK, END_HEADERS, HEADERS, PING, PREFACE, PREFIX, RST_STREAM, SETTINGS, frame
from leasehold.wire.http2.headers import header_block
from leasehold.wire.peer_calls import CallsPerPeer
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import CALL, SESSION, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import read_tls

FEW = 3
LOCAL = [("grpc.use_local_subchannel_pool", 1)]


def test_each_peer_has_room_of_its_own_and_gets_it_back() -> None:
    calls = CallsPerPeer(are_counted=True, per_peer_max=2)
    with calls.counted("a") as first:
        with calls.counted("a") as second, calls.counted("a") as third, calls.counted("b") as other:
            assert [first, second, third, other] == [True, True, False, True]
        with calls.counted("a") as again:
            assert again


def test_nothing_is_counted_where_all_peers_are_on_one_machine() -> None:
    calls = CallsPerPeer(are_counted=False, per_peer_max=0)
    with calls.counted("a") as has_room:
        assert has_room


class Slow:
    """Counts the calls and sessions that it has begun, and ends none. A status it answers at once."""

    def __init__(self) -> None:
        self.begun = 0
        self.all_begun = asyncio.Event()

    async def call(self, request: Message) -> Message:
        await self._never()
        return request

    async def stream(self, request: Message) -> Any:
        yield request

    async def session(self, duplex: Duplex) -> None:
        await self._never()

    async def _never(self) -> None:
        self.begun += 1
        if self.begun == CALLS_PER_PEER_MAX:
            self.all_begun.set()
        await asyncio.get_running_loop().create_future()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@asynccontextmanager
async def full_coordinator(pki: Path, *, with_tls: bool) -> AsyncIterator[grpc.aio.Channel]:
    """A coordinator that has CALLS_PER_PEER_MAX calls and sessions of this machine under way; a further connection."""
    service = Slow()
    tls = read_tls(pki / "ann" / CA)
    server = await serve(
        "127.0.0.1:0",
        service,
        on_fault=lambda fault: pytest.fail(repr(fault)),
        tls=of_process(pki / "coordinator") if with_tls else None,
    )

    def channel() -> grpc.aio.Channel:
        if not with_tls:
            return grpc.aio.insecure_channel(server.address, options=LOCAL)
        name = ("grpc.ssl_target_name_override", tls.server_name(CertificateRole.COORDINATOR))
        return grpc.aio.secure_channel(tls.door(server.address), tls.channel(), options=[*LOCAL, name])

    channels = [channel() for _ in range(CALLS_PER_PEER_MAX // CALLS_PER_CONNECTION_MAX + 1)]
    held: list[Any] = []
    try:
        for number in range(CALLS_PER_PEER_MAX):
            one = channels[number // CALLS_PER_CONNECTION_MAX]
            if number % 2:
                held.append(one.unary_unary(CALL)(encode(AskStatus())))
            else:
                held.append(session := one.stream_stream(SESSION)())
                await session.write(encode(AskStatus()))
        async with asyncio.timeout(60):
            await service.all_begun.wait()
        yield channels[-1]
    finally:
        for one in held:
            one.cancel()
        for one in channels:
            await one.close()
        await server.close()


async def test_a_coordinator_has_so_many_calls_of_one_peer(pki: Path) -> None:
    async with full_coordinator(pki, with_tls=True) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as further:
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
        assert further.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, "an answer could stay, a status does not"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.stream_stream(SESSION)(timeout=10).read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_without_tls_a_coordinator_has_more(pki: Path) -> None:
    async with full_coordinator(pki, with_tls=False) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as slow:
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=0.5)
        assert slow.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@asynccontextmanager
async def speaking_to(address: str, host: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the clients' door from this address."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    at, _, port = next_port(address).rpartition(":")
    reader, writer = await asyncio.open_connection(at, int(port), ssl=context, local_addr=(host, 0))
    with closing(writer):
        writer.write(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        yield reader, writer


async def test_the_peer_with_most_calls_gives_way_to_others(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "CountedCalls", partial(CountedCalls, calls_max=FEW))
    tls = of_process(pki / "coordinator")
    server = await serve("127.0.0.1:0", Slow(), on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls)
    block = header_block([(b":method", b"POST"), (b":path", CALL.encode()), (b"content-type", b"application/grpc")])
    member = GrpcTransport(read_tls(pki / "node-1")).connect(server.address)
    try:
        async with speaking_to(server.address, "127.0.0.2") as (crowded, crowd), asyncio.timeout(60):
            for number in range(FEW + 1):
                crowd.write(frame(HEADERS, END_HEADERS, 2 * number + 1, block))
            while b"too many calls" not in (await frame_of(crowded, HEADERS, 2 * FEW + 1)):
                pass
            for _ in range(FEW + 1):
                await member.session()
            crowd.write(frame(PING, 0, 0, bytes(8)))
            assert (RST_STREAM, 1) not in await frames_until(crowded, PING), "members' calls take no place of others"
            async with speaking_to(server.address, "127.0.0.3") as (_, further):
                further.write(frame(HEADERS, END_HEADERS, 1, block))
                await frame_of(crowded, RST_STREAM, 1)
    finally:
        await member.close()
        await server.close()


async def test_calls_with_a_revoked_certificate_are_no_members_calls(
    pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_counts(caller: Caller | None) -> None:
        if caller is not None and caller.serial:
            raise Forbidden("it was revoked", code=ErrorCode.CERTIFICATE_REVOKED)

    monkeypatch.setattr(rpc, "CountedCalls", partial(CountedCalls, calls_max=FEW))
    tls = of_process(pki / "coordinator")
    server = await serve(
        "127.0.0.1:0", Slow(), on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls, check_counts=check_counts
    )
    former = GrpcTransport(read_tls(pki / "node-1")).connect(server.address)
    try:
        async with asyncio.timeout(60):
            for _ in range(FEW):
                await former.session()
            with pytest.raises(Unreachable, match="too many others wait"):
                await (await former.session()).receive()
    finally:
        await former.close()
        await server.close()


async def frames_until(reader: asyncio.StreamReader, last: int) -> set[tuple[int, int]]:
    """Kinds and streams of the frames that come up to one of this kind on no stream."""
    found: set[tuple[int, int]] = set()
    while (last, 0) not in found:
        high, low, kind, _, stream = PREFIX.unpack(await reader.readexactly(PREFIX.size))
        await reader.readexactly(high << 8 | low)
        found.add((kind, stream))
    return found


async def frame_of(reader: asyncio.StreamReader, kind: int, stream: int) -> bytes:
    """What the next one of this kind for this stream holds."""
    while True:
        high, low, found, _, number = PREFIX.unpack(await reader.readexactly(PREFIX.size))
        content = await reader.readexactly(high << 8 | low)
        if (found, number) == (kind, stream):
            return content


class SlowWrites(Service):
    """A node whose writes last until `released`; `loop` hears of each one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.released = threading.Event()
        self._entered = asyncio.Semaphore(0)
        self._loop = loop

    async def entered(self) -> None:
        """Returns once a further write has begun."""
        async with asyncio.timeout(60):
            await self._entered.acquire()

    def put(self, command: bytes, incoming: Incoming, caller: Caller | None) -> Iterator[bytes]:
        assert incoming.schema  # leaves the gate for first messages
        self._loop.call_soon_threadsafe(self._entered.release)
        self.released.wait()
        yield b""


async def test_a_node_has_so_many_calls_of_one_peer(pki: Path) -> None:
    service = SlowWrites(asyncio.get_running_loop())
    server = FlightServer(
        service,
        listen="127.0.0.1:0",
        on_fault=lambda fault: pytest.fail(repr(fault)),
        tls=of_process(pki / "node-1"),
        calls_per_peer_max=FEW,
    )
    begin = write_field(1, write_field(2, b"c")) + write_field(2, KINDS.serialize().to_pybytes()[8:])
    tls = read_tls(pki / "ann" / CA)
    name = ("grpc.ssl_target_name_override", tls.server_name(CertificateRole.NODE))
    async with grpc.aio.secure_channel(tls.door(server.address), tls.channel(), options=[*LOCAL, name]) as channel:

        def put(*messages: bytes) -> Any:
            sent = iter(messages) if messages else None
            return channel.stream_stream(FLIGHT + "DoPut")(sent, metadata=[(CALLER_HEADER, KNOWN)], timeout=10)

        held: list[Any] = []
        try:
            for _ in range(FEW):
                held.append(put(begin))
                await service.entered()
            with pytest.raises(grpc.aio.AioRpcError) as busy:
                await put().read()  # it sends nothing: a refusal that comes while gRPC sends is an error of its own
            assert busy.value.details() == "BUSY"
        finally:
            service.released.set()
            for one in held:
                one.cancel()
            server.close()
