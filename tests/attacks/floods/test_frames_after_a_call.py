"""Frames of HTTP/2 that belong to no call, on connections that have made one. gRPC takes them in without a bound."""

import contextlib
import select
import socket
import ssl
import struct
import threading
import time

import pytest

from leasehold.certificates.files import CA
from leasehold.client.trust import TLS_FOLDER
from leasehold.limits.units import SECOND_NS
from leasehold.wire.rpc import CALL
from tests.attacks.floods.test_flight_floods import SERVICE
from tests.attacks.ground import Ground
from tests.attacks.unfinished import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    frame,
    header_block,
    whole_frames,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

CONNECTIONS = 8
ROUNDS = 3
PRIORITY = 0x2
UNKNOWN = 0x77
MEANINGLESS = {
    "pings": frame(PING, 0, 0, bytes(8)) * 900,
    "settings": frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535) * 100) * 24,
    "priorities": frame(PRIORITY, 0, 1, bytes(5)) * 1_100,
    "unknown frames": frame(UNKNOWN, 0, 0, bytes(16_000)),
}
SENT_BYTES_MAX = 512 * 1024 * 1024
"""A connection that takes so much is not cut off at all: between two looks as much comes as the machine can send."""
TIMEOUT_S = 60
PATIENCE_NS = 3 * SECOND_NS
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""A connection that does not block has to be waited for."""


@pytest.fixture
def ground(ground_with_tls: Ground) -> Ground:
    return ground_with_tls.attacked_by(ground_with_tls.directory / TLS_FOLDER / CA)


def call_once(connection: socket.socket, address: str, path: str) -> None:
    """Makes a call whose message nobody can read, and waits for the answer."""
    block = header_block(path, address)
    connection.settimeout(TIMEOUT_S)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b""))
    connection.sendall(frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, b"\0\0\0\0\0"))
    came = bytearray()
    while not ended(came):
        more = connection.recv(65_536)
        assert more, "the connection was cut off before it had done anything"
        came += more


def ended(came: bytearray) -> bool:
    """Whether a call has its answer; takes whole frames from `came`."""
    return any(kind == HEADERS and flags & END_STREAM for kind, flags, _ in whole_frames(came))


def sent_until_it_ends(connection: socket.socket, content: bytes) -> int:
    """Bytes that the connection took before it was shut down, or took no more: gRPC reads no pings while it has many
    to answer. Meanwhile its answers are read, on the same thread: OpenSSL bears one at a time."""
    connection.setblocking(False)
    sent, taken_ns = 0, time.monotonic_ns()
    with contextlib.suppress(OSError):  # it was shut down
        while sent < SENT_BYTES_MAX and time.monotonic_ns() - taken_ns < PATIENCE_NS and not has_ended(connection):
            try:
                sent += connection.send(memoryview(content)[sent % len(content) :])
                taken_ns = time.monotonic_ns()
            except NOT_NOW:
                select.select([connection], [connection], [], PATIENCE_NS / SECOND_NS)
        connection.shutdown(socket.SHUT_RDWR)
    return sent


def has_ended(connection: socket.socket) -> bool:
    """Whether the other end has closed it; takes what has come on it."""
    try:
        while connection.recv(65_536):
            pass
    except NOT_NOW:
        return False
    return True


@pytest.mark.parametrize("kind", MEANINGLESS)
@pytest.mark.parametrize("at_node", [True, False], ids=["of a node", "of a coordinator"])
def test_frames_of_no_call_on_a_connection_that_has_made_one(
    ground: Ground, scale: int, at_node: bool, kind: str
) -> None:
    address, path = (ground.nodes()[0], f"{SERVICE}ListActions") if at_node else (ground.coordinator, CALL)
    taken: list[int] = []

    def flood(hosts: range) -> None:
        for number in hosts:
            with ground.connection(address, ground.strange_host(number)) as connection:
                call_once(connection, address, path)
                taken.append(sent_until_it_ends(connection, MEANINGLESS[kind]))

    hosts = range(2, 2 + CONNECTIONS * ROUNDS * scale)
    threads = [threading.Thread(target=flood, args=(hosts[number::CONNECTIONS],)) for number in range(CONNECTIONS)]
    with ground.attacked():
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert len(taken) == CONNECTIONS * ROUNDS * scale
    assert max(taken) < SENT_BYTES_MAX
