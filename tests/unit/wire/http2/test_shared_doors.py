"""Peers share a server: its doors, and its time."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest
import uvloop
from tests.certificate_words import issued, of_process
from tests.unit.wire.http2.frames_read import frames_in
from tests.unit.wire.http2.served_calls import BLOCK, OPEN, YES, Handlers, connected, serving, until_closed

from leasehold.limits.http2 import HASTY_CONNECTIONS, RECEIVE_BYTES, RECEIVE_BYTES_MIN, WAITING_BYTES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire.http2 import server_end, shared_time
from leasehold.wire.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame
from leasehold.wire.http2.grpc_messages import prefixed
from leasehold.wire.http2.headers import header_block
from leasehold.wire.http2.shared_time import SharesTime
from leasehold.wire.http2.tls_end import server_context
from leasehold.wire.known_peers import PeerStanding


def client_context() -> ssl.SSLContext:
    """It takes any server for the right one."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols(["h2"])
    return made


@pytest.mark.parametrize("bound", ["connections_max", "connections_per_peer_max"])
async def test_further_connections_are_closed(bound: str) -> None:
    async with serving(Handlers(), **{bound: 1}) as (_, address), connected(address) as (first, one):
        one.write(OPEN)
        assert await first.read(1)
        async with connected(address) as (second, _):
            assert await until_closed(second) == b""
        one.write(YES + frame(PING, 0, 0, b"12345678"))
        assert await first.readuntil(b"12345678")


async def test_connections_are_ended_by_their_names() -> None:
    async with (
        serving(Handlers()) as (server, address),
        connected(address) as (reader, writer),
        connected(address) as (kept, other),
    ):
        for one in (writer, other):
            one.write(OPEN + YES)
        assert await reader.read(1)
        assert await kept.read(1)
        server.end({"ipv4:127.0.0.1:{}".format(writer.get_extra_info("sockname")[1])})
        await until_closed(reader)
        other.write(frame(PING, 0, 0, b"12345678"))
        assert await kept.readuntil(b"12345678")


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_calls_that_wait_for_their_turn_are_all_answered(
    monkeypatch: pytest.MonkeyPatch, loop_of: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    monkeypatch.setattr(shared_time, "CALL_NS", SECOND_NS)  # so a turn is over once a call has begun

    async def check() -> None:
        handlers = Handlers()
        async with serving(handlers, connections_max=100) as (_, address), AsyncExitStack() as opened:
            local = [("grpc.use_local_subchannel_pool", 1)]
            channels = [
                await opened.enter_async_context(grpc.aio.insecure_channel(address, options=local)) for _ in range(20)
            ]
            messages = [bytes((number,)) * 3_000 for number in range(200)]
            answers = await asyncio.gather(
                *(channels[one[0] % len(channels)].unary_unary("/echo")(one, timeout=60) for one in messages)
            )
            assert answers == messages
        assert handlers.faults == []

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(check())


async def test_a_member_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else waits: no turn begins."""
    async with serving(Handlers()) as (server, address), connected(address) as (reader, writer):
        writer.write(OPEN + YES + frame(HEADERS, END_HEADERS, 1, BLOCK))
        message = b"".join(prefixed(b"first"))
        writer.write(frame(DATA, 0, 1, message))
        assert await reader.readuntil(b"first")
        [member] = server._connections
        member.standing = PeerStanding.MEMBER
        server.standing = lambda _: PeerStanding.MEMBER  # asked at each look
        async with connected(address) as (other, stranger):
            stranger.write(OPEN)
            assert await other.read(1)
            monkeypatch.setattr(server.turns, "may_go", lambda: False)
            monkeypatch.setattr(server, "turn_soon", lambda: None)
            stranger.write(YES + frame(PING, 0, 0, b"12345678"))
            writer.write(frame(DATA, 0, 1, b"".join(prefixed(b"second"))))
            assert await reader.readuntil(b"second")
            assert all(one._unread is None for one in server._connections if one.is_of_member)
            monkeypatch.undo()
            server.turn_soon()
            assert await other.readuntil(b"12345678")


async def test_what_waits_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Handlers()) as (server, address), connected(address) as (reader, writer):
        writer.write(OPEN + YES)
        assert await reader.read(1)
        [one] = server._connections
        one._receive_bytes = RECEIVE_BYTES
        assert len(one.get_buffer(-1)) == RECEIVE_BYTES, "what is looked at now does not wait"
        monkeypatch.setattr(server.turns, "may_go", lambda: False)
        assert len(one.get_buffer(-1)) == RECEIVE_BYTES
        monkeypatch.setattr(server, "waiting_bytes", WAITING_BYTES_MAX)
        assert len(one.get_buffer(-1)) == RECEIVE_BYTES_MIN
        monkeypatch.undo()


async def test_a_turn_ends_with_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_time, "PIECE_BYTES", 100)
    async with serving(Handlers()) as (server, address), connected(address) as (reader, writer):
        writer.write(OPEN + YES + frame(PING, 0, 0, b"the last"))
        assert await reader.readuntil(b"the last")
        [one] = server._connections
        monkeypatch.setattr(server, "turn_soon", lambda: None)
        monkeypatch.setattr(server.turns, "may_go", lambda: False)
        one.look_at(memoryview(frame(PING, 0, 0, b"12345678") * 50))
        assert len(one._unread or b"") == server.waiting_bytes == 50 * 17 - 100
        monkeypatch.undo()
        server.turn_soon()
        for _ in range(50):
            assert await reader.readuntil(b"12345678")
        assert server.waiting_bytes == 0


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_a_peer_has_said_that_is_gone_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, loop_of: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110 nobody tells of it
                await asyncio.sleep(0.01)

    async def check() -> None:
        handlers = Handlers()
        async with serving(handlers) as (server, address):
            host, _, port = address.rpartition(":")
            ours = socket.create_connection((host, int(port)))
            ours.sendall(OPEN + YES)
            await until(lambda: any(one.http.has_acknowledged for one in server._connections))
            [one] = server._connections
            with monkeypatch.context() as patched:
                patched.setattr(server.turns, "may_go", lambda: False)
                patched.setattr(server, "turn_soon", lambda: None)
                ours.sendall(frame(HEADERS, END_HEADERS, 1, BLOCK))
                await until(lambda: one.is_waiting)
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                ours.close()
            server.turn_soon()
            await until(lambda: not server._connections)
        assert not handlers.begun.is_set()

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(check())


async def test_a_known_peer_is_accepted_where_strangers_keep_the_queue_full() -> None:
    async with serving(Handlers()) as (server, address), asyncio.timeout(30):
        server.known.add_member("127.0.0.1")
        while server._sorted_at != server.known.changes:  # noqa: ASYNC110 nobody tells of it
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().remove_reader(server._doors[0].listening)
        async with connected(address) as (reader, writer):
            writer.write(OPEN)
            assert await reader.read(1)


@pytest.mark.parametrize("sent", [None, b"", b"no handshake"], ids=["reset", "closed", "no handshake"])
async def test_a_known_peer_that_connects_for_nothing_waits_with_strangers(tmp_path: Path, sent: bytes | None) -> None:
    tls = of_process(issued(tmp_path / "ours") / "coordinator")
    context = server_context(tls.chain, tls.key, None)
    async with serving(Handlers(), context=context) as (server, address), asyncio.timeout(60):
        host, _, port = address.rpartition(":")
        server.known.add_member(host)
        assert set(server.known.queues()) == {host}
        while server.known.queues():
            if sent:
                async with connected(address) as (reader, writer):
                    writer.write(sent)
                    await until_closed(reader)
                continue
            with socket.create_connection((host, int(port))) as one:
                if sent is None:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(0)
        while server._sorted_at != server.known.changes:  # noqa: ASYNC110 nobody tells of it
            await asyncio.sleep(0.01)
        for door in server._doors:
            if door.number == 0 and door is not server._doors[0]:
                asyncio.get_running_loop().remove_reader(door.listening)
        there = client_context()
        _, writer = await asyncio.open_connection(host, int(port), ssl=there)
        writer.close()


async def test_connections_for_which_there_is_no_place_are_not_for_nothing() -> None:
    async with serving(Handlers(), connections_max=1) as (server, address), connected(address) as (first, one):
        one.write(OPEN)
        assert await first.read(1)
        server.known.add_member("127.0.0.1")
        for _ in range(HASTY_CONNECTIONS + 1):
            async with connected(address) as (further, _):
                assert await until_closed(further) == b""
        assert set(server.known.queues()) == {"127.0.0.1"}


async def test_connections_that_say_something_are_not_for_nothing(tmp_path: Path) -> None:
    tls = of_process(issued(tmp_path / "ours") / "coordinator")
    context = server_context(tls.chain, tls.key, None)
    there = client_context()
    async with serving(Handlers(), context=context) as (server, address):
        host, _, port = address.rpartition(":")
        server.known.add_member(host)
        for _ in range(HASTY_CONNECTIONS + 1):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=there)
            writer.write(OPEN)
            assert await reader.readexactly(9)
            writer.close()
            await writer.wait_closed()
        assert set(server.known.queues()) == {host}


async def test_members_take_no_place_from_others(tmp_path: Path) -> None:
    tls = of_process(issued(tmp_path / "ours") / "coordinator")
    there = client_context()
    async with serving(Handlers(), context=server_context(tls.chain, tls.key, None), connections_max=1) as (server, at):
        host, _, port = at.rpartition(":")
        opened: list[asyncio.StreamWriter] = []
        for standing in (PeerStanding.MEMBER, PeerStanding.NONE):
            server.standing = lambda _, found=standing: found  # type: ignore[misc]
            reader, writer = await asyncio.open_connection(host, int(port), ssl=there)
            opened.append(writer)
            writer.write(OPEN)
            assert await reader.readexactly(9)
        assert len(server._connections) == 2
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.open_connection(host, int(port), ssl=there)
        for one in opened:
            one.close()


async def test_a_record_with_many_calls_is_looked_at_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = of_process(issued(tmp_path / "ours") / "coordinator")
    begun: list[int] = []
    look = SharesTime._look_at_piece

    def counted(self: SharesTime, piece: memoryview) -> tuple[int, bool]:
        found = look(self, piece)
        begun.append(self.begun_now)
        return found

    monkeypatch.setattr(SharesTime, "_look_at_piece", counted)
    monkeypatch.setattr(server_end, "CALLS_AT_ONCE", 4)
    monkeypatch.setattr(shared_time, "CALL_NS", SECOND_NS)  # so a turn is over once a call has begun
    there = client_context()
    block = BLOCK + header_block([(b"more", b"x" * 100)])
    calls = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, number, block) for number in range(1, 16, 2))
    async with serving(Handlers(), context=server_context(tls.chain, tls.key, None)) as (_, address):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=there)
        writer.write(OPEN + YES + calls)
        came, ended = b"", 0
        async with asyncio.timeout(30):
            while ended < 8:
                came += await reader.read(65_536)
                ended = sum(kind == HEADERS and bool(flags & END_STREAM) for kind, flags, *_ in frames_in(came))
        writer.close()
    assert sum(begun) == 8
    assert max(begun) == 4
