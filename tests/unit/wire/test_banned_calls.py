"""A coordinator keeps out who asks for too much that it does not get."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import pytest
from tests.attacks.unfinished import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEADER_BYTES,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    header_block,
)
from tests.certificate_words import issued
from tests.unit.wire.test_unread_answers import Answering, coordinator, further

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AskStatus
from leasehold.limits.bans import FAULTS_OF_ONE_MAX, FAULTS_PER_SECOND_MAX
from leasehold.limits.requests import CALL_HEADERS_MAX
from leasehold.wire.rpc import CALL

AT_ONCE = 50
CALLS_MAX = 20_000


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


def begun(first: int, path: str, headers: int = 0) -> bytes:
    """So many calls without a message, with so many headers of their own."""
    block = header_block(path, "x", said={f"h{number}": "" for number in range(headers)})
    streams = range(first, first + 2 * AT_ONCE, 2)
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, one, block) for one in streams)


async def calls_until_it_ends(door: str, path: str, host: str, headers: int = 0) -> int:
    """How many calls a connection from `host` begins before the server closes it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    there, port = door.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(there, int(port), ssl=context, local_addr=(host, 0))
    calls = 0
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        writer.write(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b""))
        while calls < CALLS_MAX:
            writer.write(begun(1 + 2 * calls, path, headers))
            calls += AT_ONCE
            await answers(reader, AT_ONCE)
    writer.close()
    return calls


async def answers(reader: asyncio.StreamReader, calls: int) -> None:
    """Reads until so many calls have ended: gRPC refuses what is more than a connection may have at once."""
    while calls:
        header = await reader.readexactly(HEADER_BYTES)
        calls -= header[3] == HEADERS and bool(header[4] & END_STREAM)
        await reader.readexactly(int.from_bytes(header[:3], "big"))


async def test_calls_to_no_method_ban_their_peer_and_nobody_else(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.bans.FAULTS_PER_SECOND_MAX", FAULTS_PER_SECOND_MAX // 10)  # on any machine
    monkeypatch.setattr("leasehold.wire.bans.FAULTS_OF_ONE_MAX", FAULTS_OF_ONE_MAX // 10)
    async with coordinator(pki, Answering(10)) as (server, tls), asyncio.timeout(120):
        assert await calls_until_it_ends(tls.door(server.address), "/x/y", "127.0.0.5") < CALLS_MAX
        there, port = tls.door(server.address).rsplit(":", 1)
        with (
            socket.create_connection((there, int(port)), timeout=60, source_address=("127.0.0.5", 0)) as kept_out,
            contextlib.suppress(ConnectionResetError),
        ):
            assert await asyncio.to_thread(kept_out.recv, 1) == b"", "the server has closed it"
        async with further(server, tls) as channel:
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)


async def test_a_call_with_too_many_headers_bans_its_peer(pki: Path) -> None:
    async with coordinator(pki, Answering(10)) as (server, tls), asyncio.timeout(120):
        door = tls.door(server.address)
        # Bytes without end would take more to be too much.
        assert await calls_until_it_ends(door, CALL, "127.0.0.6", CALL_HEADERS_MAX) <= 20 * AT_ONCE
        async with further(server, tls) as channel:
            await channel.unary_unary(CALL)(encode(AskStatus()), timeout=10)
