"""A server at its doors, over real sockets: deadlines, bounds, and how calls end."""

import asyncio
import contextlib
import errno
import socket
import struct

import grpc
import grpc.aio
import pytest
import uvloop
from tests.certificate_words import issued, of_process
from tests.unit.wire.http2.frames_read import frames_in
from tests.unit.wire.http2.served_calls import (
    BLOCK,
    MESSAGE_BYTES_MAX,
    OPEN,
    SOON_NS,
    YES,
    Handlers,
    connected,
    serving,
    until_closed,
)

from leasehold.limits.http2 import HANDSHAKE_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.http2 import door_connection, door_server, patience
from leasehold.wire.http2.calls import EOF, IncomingCall
from leasehold.wire.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    WINDOW_UPDATE,
    WORD,
    frame,
)
from leasehold.wire.http2.grpc_messages import prefixed
from leasehold.wire.http2.headers import header_block
from leasehold.wire.http2.server_end import ServerEnd
from leasehold.wire.http2.tls_end import server_context


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_server, "SWEEP_NS", 10 * MILLISECOND_NS)


@pytest.mark.parametrize("sent", [b"", b"PRI * ", OPEN])
async def test_a_peer_that_does_not_begin_is_cut_off(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(patience, "HANDSHAKE_NS", SOON_NS)
    async with serving(Handlers()) as (_, address), connected(address) as (reader, writer):
        writer.write(sent)
        came = await until_closed(reader)
        assert [kind for kind, *_ in frames_in(came)][-1] == GOAWAY


async def test_a_peer_that_does_not_begin_tls_is_cut_off(monkeypatch: pytest.MonkeyPatch, shown: object) -> None:
    monkeypatch.setattr(patience, "HANDSHAKE_NS", SOON_NS)
    async with serving(Handlers(), context=shown) as (server, address), connected(address) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02")
        assert await until_closed(reader) == b""
        assert not server._connections


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> object:
    tls = of_process(issued(tmp_path_factory.mktemp("pki") / "ours") / "coordinator")
    return server_context(tls.chain, tls.key, tls.roots)


async def test_a_handshake_over_its_bound_is_cut_off(monkeypatch: pytest.MonkeyPatch, shown: object) -> None:
    monkeypatch.setattr(patience, "HANDSHAKE_NS", 600 * SECOND_NS)
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + bytes(16_380)
    async with serving(Handlers(), context=shown) as (_, address), connected(address) as (reader, writer):
        writer.write(record * (1 + HANDSHAKE_BYTES_MAX // len(record)))
        assert await until_closed(reader) == b""


async def test_a_peer_that_hears_no_ping_is_cut_off_while_a_call_is_open() -> None:
    handlers = Handlers()
    async with (
        serving(handlers, quiet_ns=SOON_NS, answer_ns=SOON_NS) as (_, address),
        connected(address) as (reader, writer),
    ):
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK))
        came = await until_closed(reader)
        assert PING in [kind for kind, *_ in frames_in(came)]
        assert await handlers.over.get() == ("echo", False)


async def test_a_peer_that_answers_pings_stays() -> None:
    handlers = Handlers()
    async with serving(handlers, quiet_ns=0) as (_, address), connected(address) as (reader, writer):
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK))
        heard = b""
        while heard.count(frame(PING, 0, 0, bytes(8))) < 3:
            heard += await reader.read(65_536)
            writer.write(frame(PING, ACK, 0, bytes(8)))
        assert handlers.over.empty()


async def test_who_breaks_the_rules_is_told_why_and_cut_off() -> None:
    async with serving(Handlers()) as (_, address), connected(address) as (reader, writer):
        writer.write(OPEN + frame(DATA, 0, 1, b"x"))
        [*_, (kind, _, _, payload)] = frames_in(await until_closed(reader))
        assert (kind, payload[8:]) == (GOAWAY, b"DATA where none belongs")


async def test_what_was_not_foreseen_ends_the_connection_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = Handlers()
    async with serving(handlers) as (_, address), connected(address) as (reader, writer):
        with monkeypatch.context() as broken:
            broken.setattr(ServerEnd, "receive", lambda _, _chunk: 1 // 0)
            writer.write(OPEN)
            await until_closed(reader)
        assert [type(one) for one in handlers.faults] == [ZeroDivisionError]
        async with connected(address) as (again, further):
            further.write(OPEN)
            assert await again.read(1)


async def test_a_peer_that_has_gone_before_it_is_accepted_harms_nobody() -> None:
    async with serving(Handlers(), connections_max=100) as (_, address):
        host, _, port = address.rpartition(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with connected(address) as (reader, writer):
            writer.write(OPEN)
            assert await reader.read(1)


async def test_a_server_without_a_free_file_accepts_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Handlers()) as (server, address), connected(address) as (reader, writer):
        writer.write(OPEN)
        assert await reader.read(1)
        door, *_ = server._doors
        tried = asyncio.Event()

        class Full:
            def accept(self) -> None:
                tried.set()
                raise OSError(errno.EMFILE, "no file is left")

            def fileno(self) -> int:
                return door.listening.fileno()

        server._doors[0] = door._replace(listening=Full())
        server._listen()
        async with connected(address) as (further, another):
            await tried.wait()
            server._doors[0] = door
            another.write(OPEN)
            async with asyncio.timeout(30):
                assert await further.read(1)


def test_small_answers_do_not_wait_for_more() -> None:
    async def check() -> None:
        async with serving(Handlers()) as (server, address), connected(address) as (reader, writer):
            writer.write(OPEN)
            assert await reader.read(1)
            [one] = server._connections
            accepted = one._transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    for loop_of in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=loop_of) as runner:
            runner.run(check())


async def test_a_call_that_is_taken_back_ends_its_handler() -> None:
    handlers = Handlers()
    async with serving(handlers) as (server, address), connected(address) as (_, writer):
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK))
        await handlers.begun.wait()
        [connection] = server._connections
        assert (connection.http.begun, len(connection.http.streams)) == (1, 1)
        writer.write(frame(RST_STREAM, 0, 1, WORD.pack(8)))
        assert await handlers.over.get() == ("echo", False)
        assert (connection.http.begun, len(connection.http.streams)) == (1, 0)
    assert handlers.faults == []


async def test_what_was_said_before_a_call_was_taken_back_is_still_heard_where_the_end_matters() -> None:
    heard: list[object] = []
    over = asyncio.Event()

    class InOrder(Handlers):
        async def echo(self, call: IncomingCall) -> None:
            call.ends_in_order = True
            self.begun.set()
            while not heard or heard[-1] is not EOF:
                await asyncio.sleep(0.01)
                heard.append(await call.read())
            over.set()

    handlers = InOrder()
    async with serving(handlers) as (_, address), connected(address) as (_, writer):
        message = frame(DATA, 0, 1, b"".join(prefixed(b"last words")))
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK))
        await handlers.begun.wait()
        writer.write(message + message + frame(RST_STREAM, 0, 1, WORD.pack(8)))
        async with asyncio.timeout(30):
            await over.wait()
    assert heard == [b"last words", b"last words", EOF]


async def test_messages_larger_than_any_window_come_and_go() -> None:
    handlers = Handlers()
    messages = [bytes([number]) * size for number, size in enumerate((0, 1, 5_000, MESSAGE_BYTES_MAX))]
    async with serving(handlers) as (_, address), grpc.aio.insecure_channel(address) as channel:
        assert [one async for one in channel.stream_stream("/echo")(iter(messages), timeout=20)] == messages
        assert await handlers.over.get() == ("echo", True)


async def test_a_connection_with_short_calls_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    idle_ns = 200 * MILLISECOND_NS
    async with serving(Handlers(), idle_ns=idle_ns) as (server, address), grpc.aio.insecure_channel(address) as channel:
        monkeypatch.setattr(patience, "KEEPALIVE_TIMEOUT_NS", idle_ns)
        until_ns = server.now_ns() + 5 * idle_ns
        calls = 0
        while server.now_ns() < until_ns:
            await channel.unary_unary("/echo")(b"x", timeout=20)
            calls += 1
            assert [one.http.begun for one in server._connections] == [calls]
            await asyncio.sleep(0.02)  # most looks find no call


@pytest.mark.parametrize(("count", "size"), [(3_000, 40), (2_000, 20_000)])
async def test_a_client_that_talks_much_is_not_cut_off(count: int, size: int) -> None:
    async with serving(Handlers()) as (_, address), grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream("/echo")(timeout=60)
        for _ in range(count):
            await call.write(bytes(size))
            assert await call.read() == bytes(size)
        await call.done_writing()


async def test_a_peer_that_takes_nothing_and_asks_on_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends though its end can't be told."""
    monkeypatch.setattr(door_connection, "CONTROL_BYTES_MAX", 100)
    monkeypatch.setattr(door_connection, "KEEPALIVE_TIMEOUT_NS", SOON_NS)
    handlers = Handlers()
    async with serving(handlers) as (server, address), connected(address) as (_, writer):
        writer.write(OPEN + YES)
        wide = frame(WINDOW_UPDATE, 0, 0, WORD.pack(2**30)) + frame(WINDOW_UPDATE, 0, 1, WORD.pack(2**30))
        writer.write(frame(HEADERS, END_HEADERS, 1, BLOCK) + wide)
        large = b"".join(frame(DATA, 0, 1, part) for part in (b"\0\0\0\x08\x00", bytes(2_048)))
        async with asyncio.timeout(60):
            while server._connections:
                with contextlib.suppress(ConnectionError):
                    writer.write(large + frame(PING, 0, 0, bytes(8)))
                    await writer.drain()
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("path", "message", "status"),
    [
        ("/fail", b"", grpc.StatusCode.UNKNOWN),
        ("/nothing", b"", grpc.StatusCode.UNIMPLEMENTED),
        ("/echo", bytes(MESSAGE_BYTES_MAX + 1), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_a_call_that_fails_ends_with_a_status(path: str, message: bytes, status: grpc.StatusCode) -> None:
    handlers = Handlers()
    async with serving(handlers) as (_, address):
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(path)(message, timeout=20)
        assert caught.value.code() is status
        assert "secret" not in (caught.value.details() or "")
        assert [str(one) for one in handlers.faults] == (["a secret"] if path == "/fail" else [])


async def test_a_message_that_is_broken_off_ends_its_call() -> None:
    handlers = Handlers()
    async with serving(handlers) as (_, address), connected(address) as (reader, writer):
        sent = b"".join(prefixed(b"abc"))[:-1]
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 1, 1, sent))
        came = await reader.readuntil(b" off")
        assert b"a message is broken off" in came


async def test_the_end_of_the_server_ends_open_calls() -> None:
    handlers = Handlers()
    async with serving(handlers) as (server, address), grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream("/echo")(timeout=20)
        await call.write(b"x")
        assert await call.read() == b"x"
        await server.close()
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        assert (await handlers.over.get())[0] == "echo"


@pytest.mark.parametrize("headers", [[(b":method", b"GET")], [(b":method", b"POST"), (b"content-type", b"text/html")]])
async def test_what_is_no_call_of_grpc_is_reset(headers: list[tuple[bytes, bytes]]) -> None:
    async with serving(Handlers()) as (_, address), connected(address) as (reader, writer):
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, header_block([*headers, (b":path", b"/echo")])))
        assert await reader.readuntil(frame(RST_STREAM, 0, 1, WORD.pack(1)))
