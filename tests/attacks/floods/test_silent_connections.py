"""Connections that say nothing, or nothing of HTTP/2, and more connections than a port takes."""

import contextlib
import socket
import ssl
import zlib

import pytest

from leasehold.limits.requests import CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, HANDSHAKE_NS
from leasehold.limits.units import SECOND_NS
from tests.attacks.ground import MORE_CONNECTIONS, Ground
from tests.attacks.unfinished import PREFACE, SETTINGS, frame
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SILENT = 75
"""To each port; TLS comes to its end on every other one."""
CLOSED = (ConnectionError, ssl.SSLError)
SILENCES: dict[str, bytes] = {
    "nothing at all": b"",
    "half of a preface": b"PRI * HTTP/2.0\r\n",
    "TLS that begins": b"\x16\x03\x01\x02\x00\x01",
    "no protocol of ours": zlib.compress(b"hello"),
}


@pytest.mark.usefixtures("many_files")
def test_connections_that_say_nothing_are_closed(ground: Ground, scale: int) -> None:
    with contextlib.ExitStack() as opened, ground.attacked():
        silent: list[socket.socket] = []
        for number, address in enumerate([ground.coordinator, *ground.nodes()] * (SILENT * scale)):
            connection = ground.tcp(address)
            with contextlib.suppress(*CLOSED):  # a busy server may end a handshake that takes long
                if number // 4 % 2:
                    connection = ground.in_tls(connection)
                connection.sendall(list(SILENCES.values())[number // 8 % len(SILENCES)])
            silent.append(opened.enter_context(connection))
        for connection in silent:
            if connection.fileno() < 0:
                continue  # its handshake has failed
            connection.settimeout(10 * HANDSHAKE_NS / SECOND_NS)
            with contextlib.suppress(*CLOSED):
                while connection.recv(4096):
                    pass  # what a server says first


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("port", ["node", "coordinator"])
def test_more_connections_than_a_port_takes(ground: Ground, scale: int, port: str) -> None:
    """Over TLS nobody else is kept out. Without TLS, where all peers are on one machine, the connections from before
    stay, and there is room again once the others have gone."""
    address = ground.nodes()[0] if port == "node" else ground.coordinator
    hello = PREFACE + frame(SETTINGS, 0, 0, b"")
    most = CONNECTIONS_MAX if ground.tls is None else CONNECTIONS_PER_PEER_MAX
    count = MORE_CONNECTIONS if ground.tls is None or scale > 1 else 2 * most
    with ground.attacked(kept=ground.tls is None):
        for _ in range(scale):
            with contextlib.ExitStack() as opened:
                made: list[socket.socket] = []
                for _ in range(count):
                    with contextlib.suppress(ConnectionError):  # it may be closed before it is made
                        made.append(opened.enter_context(ground.tcp(address)))
                # What a peer has too many of is closed by a look at all connections, every tenth of a second.
                wait_until(lambda made=made: sum(map(_is_open, made)) <= most)  # type: ignore[misc]
                assert sum(_is_taken(ground, one, hello, opened) for one in made) <= most
    with ground.attacked():
        pass


def _is_open(connection: socket.socket) -> bool:
    """Whether the server, which says nothing first, has left it open."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def _is_taken(ground: Ground, connection: socket.socket, hello: bytes, opened: contextlib.ExitStack) -> bool:
    with contextlib.suppress(*CLOSED):
        within = opened.enter_context(ground.in_tls(connection))
        within.sendall(hello)
        return within.recv(1) != b""
    return False
