"""Many calls to a coordinator on one connection: they end none of each other."""

import asyncio
import struct
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.attacks.unfinished import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADER_BYTES,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    header_block,
    in_message,
)

from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import AskStatus, Message
from leasehold.errors import Unreachable
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX, REQUESTS_UNREAD_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire import requests
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.http2.door_server import DoorServer
from leasehold.wire.rpc import CALL, GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport

MAX_CONCURRENT_STREAMS = 3
PATIENCE_NS = 600 * SECOND_NS
UNLIMITED = 2**31 - 1


class Echo:
    async def call(self, request: Message) -> Message:
        return request

    async def stream(self, request: Message) -> Any:
        yield request

    async def session(self, duplex: Any) -> None:
        raise NotImplementedError


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GrpcServer]:
    # A busy machine may hold a test for long.
    monkeypatch.setattr(requests, "REQUEST_READ_NS", PATIENCE_NS)
    monkeypatch.setitem(DoorServer.__init__.__kwdefaults__, "answer_ns", PATIENCE_NS)
    faults: list[BaseException] = []
    made = await serve("127.0.0.1:0", Echo(), on_fault=faults.append)
    yield made
    await made.close()
    assert faults == []


class Http2:
    """A client that speaks HTTP/2 itself, so it decides when each byte of a call is sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        self._reader, self._writer = reader, writer
        self._headers = header_block(CALL, address, "http")
        self.answers: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    def begin(self, stream: int) -> None:
        self.send(frame(HEADERS, END_HEADERS, stream, self._headers))

    def finish(self, stream: int, message: bytes) -> None:
        self.send(frame(DATA, END_STREAM, stream, in_message(message)))

    async def hear(self) -> tuple[int, int, bytes]:
        """The next frame: its kind, its flags and what it carries."""
        head = await self._reader.readexactly(HEADER_BYTES)
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        if kind == DATA:
            self.answers[stream] = self.answers.get(stream, b"") + payload
        elif kind == HEADERS and flags & END_STREAM:
            self.ended.add(stream)
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self.send(frame(kind, ACK, 0, payload if kind == PING else b""))
        return kind, flags, payload

    async def allowed(self) -> int:
        """How many calls may stand on the connection."""
        self.send(PREFACE, frame(SETTINGS, 0, 0, b""))
        kind, _, payload = await self.hear()
        assert kind == SETTINGS, "a server says its settings first"
        return dict(struct.iter_unpack(">HI", payload)).get(MAX_CONCURRENT_STREAMS, UNLIMITED)

    async def reached(self) -> None:
        """Returns once the server's transport has taken all that was sent."""
        self.send(frame(PING, 0, 0, bytes(8)))
        while (await self.hear())[:2] != (PING, ACK):
            pass


async def test_calls_whose_messages_come_late_are_all_answered(server: GrpcServer) -> None:
    host, port = server.address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    other = GrpcTransport().connect(server.address)
    try:
        client = Http2(reader, writer, server.address)
        streams = range(1, 2 * min(await client.allowed(), REQUESTS_UNREAD_MAX + 1), 2)
        for stream in streams:
            client.begin(stream)
        await client.reached()
        # Calls begin in the order in which they came: once this one is answered, the others have begun.
        assert await other.call(AskStatus(), timeout_ns=60 * SECOND_NS) == AskStatus()
        for stream in streams:
            client.finish(stream, encode(AskStatus()))
        while len(client.ended) < len(streams):
            await client.hear()
        assert {decode_message(answer[5:]) for answer in client.answers.values()} == {AskStatus()}
    finally:
        await other.close()
        writer.close()
        await writer.wait_closed()


async def test_more_calls_than_a_connection_holds_are_all_answered(server: GrpcServer) -> None:
    connection = GrpcTransport().connect(server.address)
    try:
        asked = [connection.call(AskStatus(), timeout_ns=60 * SECOND_NS) for _ in range(24 * CALLS_OF_CLIENT_MAX)]
        assert set(await asyncio.gather(*asked)) == {AskStatus()}
    finally:
        await connection.close()


class Held(Echo):
    """Answers once `opened` is set; sets `full` when it has got as many calls as a client may have under way."""

    def __init__(self) -> None:
        self.full, self.opened = asyncio.Event(), asyncio.Event()
        self.begun = 0

    async def call(self, request: Message) -> Message:
        self.begun += 1
        if self.begun == CALLS_OF_CLIENT_MAX:
            self.full.set()
        await self.opened.wait()
        return request


@pytest.fixture
async def held() -> AsyncIterator[tuple[Held, str]]:
    service = Held()
    made = await serve("127.0.0.1:0", service, on_fault=lambda fault: pytest.fail(str(fault)))
    yield service, made.address
    await made.close()


@pytest.mark.parametrize("is_blocking", [False, True], ids=["async", "blocking"])
async def test_a_client_holds_back_more_calls_than_it_may_have_under_way(
    held: tuple[Held, str], is_blocking: bool
) -> None:
    service, address = held
    blocking, connection = BlockingConnection(address), GrpcTransport().connect(address)

    async def ask(timeout_ns: int) -> Message:
        if is_blocking:
            return await asyncio.get_running_loop().run_in_executor(pool, blocking.call, AskStatus(), timeout_ns)
        return await connection.call(AskStatus(), timeout_ns=timeout_ns)

    try:
        with ThreadPoolExecutor(CALLS_OF_CLIENT_MAX + 1) as pool:
            asked = [asyncio.ensure_future(ask(60 * SECOND_NS)) for _ in range(CALLS_OF_CLIENT_MAX)]
            await service.full.wait()
            with pytest.raises(Unreachable, match="other calls of this process") as caught:
                await ask(SECOND_NS // 10)
            assert not caught.value.was_sent
            last = asyncio.ensure_future(ask(60 * SECOND_NS))
            service.opened.set()
            assert set(await asyncio.gather(*asked, last)) == {AskStatus()}
            assert service.begun == CALLS_OF_CLIENT_MAX + 1
    finally:
        await connection.close()
        blocking.close()
