"""Answers of a coordinator that their clients do not take."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.attacks.unfinished import pongs, untaken_calls
from tests.certificate_words import issued, of_process

from leasehold.certificates.files import CA
from leasehold.certificates.names import CertificateRole
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus, Failure, Message
from leasehold.limits.requests import (
    ANSWERS_BYTES_MAX,
    ANSWERS_BYTES_PER_PEER_MAX,
    CALLS_PER_CONNECTION_MAX,
    CALLS_PER_PEER_MAX,
)
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import CALL, STREAM, GrpcServer, serve
from leasehold.wire.tls import Tls, read_tls

LARGE = ANSWERS_BYTES_PER_PEER_MAX // 4
ROUNDS = 200


class Answering:
    """Answers at once, with so many bytes."""

    def __init__(self, size_bytes: int) -> None:
        self._answer = Failure(code="X", text="x" * size_bytes, hint="", definite=True)
        self.answered = 0
        self.has_answered = asyncio.Event()

    async def call(self, request: Message) -> Message:
        return self._next()

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        while True:
            yield self._next()

    def _next(self) -> Message:
        self.answered += 1
        self.has_answered.set()
        return self._answer

    async def session(self, duplex: Duplex) -> None:
        await duplex.receive()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@asynccontextmanager
async def coordinator(pki: Path, service: Answering) -> AsyncIterator[tuple[GrpcServer, Tls]]:
    tls = of_process(pki / "coordinator")
    server = await serve("127.0.0.1:0", service, on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls)
    try:
        yield server, read_tls(pki / "ann" / CA)
    finally:
        await server.close()


@asynccontextmanager
async def unread(
    server: GrpcServer, tls: Tls, path: str, calls: int, *, host_of_peer: str = "127.0.0.1"
) -> AsyncIterator[asyncio.Task[None]]:
    """A connection with so many calls, whose windows stay at 0; the task ends with the connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, port = tls.door(server.address).rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, local_addr=(host_of_peer, 0))
    writer.write(untaken_calls(path, "x", encode(AskStatus()), calls))
    staying = asyncio.create_task(stay(reader, writer))
    try:
        yield staying
    finally:
        staying.cancel()
        writer.close()


async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server closes a connection that does not answer its pings."""
    came = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            came += piece
            writer.write(pongs(came))
            await writer.drain()


def further(server: GrpcServer, tls: Tls) -> grpc.aio.Channel:
    name = ("grpc.ssl_target_name_override", tls.server_name(CertificateRole.COORDINATOR))
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1), name]
    return grpc.aio.secure_channel(tls.door(server.address), tls.channel(), options=options)


async def until(service: Answering, answers: int) -> None:
    async with asyncio.timeout(60):
        while service.answered < answers:
            service.has_answered.clear()
            await service.has_answered.wait()


async def until_answered(channel: grpc.aio.Channel) -> None:
    """The room comes back."""
    async with asyncio.timeout(60):
        while True:
            try:
                await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                await asyncio.sleep(0.01)
            else:
                return


async def refused(channel: grpc.aio.Channel) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return caught.value.details()


async def test_a_call_counts_until_its_answer_has_gone(pki: Path) -> None:
    service = Answering(10)
    async with coordinator(pki, service) as (server, tls), further(server, tls) as channel:
        async with contextlib.AsyncExitStack() as held, asyncio.timeout(120):
            taken, refusal, connections = 0, None, 0
            while refusal is None:
                if connections < 32:  # gRPC refuses some calls of a connection that begins many at once
                    await held.enter_async_context(unread(server, tls, CALL, CALLS_PER_CONNECTION_MAX))
                    connections += 1
                await asyncio.sleep(0.01)
                try:
                    await channel.unary_unary(CALL)(encode(AskStatus()), timeout=60)
                    taken += 1
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                    refusal = error.details() or ""
            assert "too many calls" in refusal
            assert service.answered <= CALLS_PER_PEER_MAX + taken
        await until_answered(channel)


@pytest.mark.parametrize("path", [CALL, STREAM])
async def test_answers_that_are_not_taken_are_bounded_by_their_bytes(pki: Path, path: str) -> None:
    service = Answering(LARGE - 100)
    async with coordinator(pki, service) as (server, tls), further(server, tls) as channel:
        async with unread(server, tls, path, 8):
            await until(service, 8)
            assert "does not take its answers" in await refused(channel)
        await until_answered(channel)


async def test_answers_that_are_taken_leave_room_for_any_number(pki: Path) -> None:
    service = Answering(ANSWERS_BYTES_PER_PEER_MAX // ROUNDS * 4)
    async with coordinator(pki, service) as (server, tls), further(server, tls) as channel:
        for _ in range(ROUNDS):
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)


@pytest.mark.parametrize("path", [CALL, STREAM])
async def test_answers_that_many_peers_do_not_take_do_not_keep_out_another(pki: Path, path: str) -> None:
    """DESCRIBE of a wide table, asked from 6 addresses, made a coordinator grow by 441 MiB."""
    service = Answering(LARGE - 100)
    async with (
        coordinator(pki, service) as (server, tls),
        further(server, tls) as channel,
        contextlib.AsyncExitStack() as held,
    ):
        greedy: list[asyncio.Task[None]] = []
        for number in range(4):
            taking_nothing = unread(server, tls, path, 3, host_of_peer=f"127.0.0.{2 + number}")
            greedy.append(await held.enter_async_context(taking_nothing))
            await until(service, 3 * (1 + number))
        async with asyncio.timeout(60):
            await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(10):
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
        left = sum(not one.done() for one in greedy)
        assert 0 < left * LARGE <= ANSWERS_BYTES_MAX
