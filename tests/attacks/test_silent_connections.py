"""Connections to all ports that say nothing, or nothing of HTTP/2."""

import contextlib
import socket
import zlib

import pytest

from leasehold.limits import HANDSHAKE_NS, SECOND_NS
from tests.attacks.ground import Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SILENT = 50
"""To each port."""
SILENCES: dict[str, bytes] = {
    "nothing at all": b"",
    "half of a preface": b"PRI * HTTP/2.0\r\n",
    "no protocol of ours": zlib.compress(b"hello"),
}


def test_connections_that_say_nothing_are_closed(ground: Ground, scale: int) -> None:
    with contextlib.ExitStack() as opened, ground.attacked():
        silent: list[socket.socket] = []
        for number, address in enumerate([ground.coordinator, *ground.nodes()] * (SILENT * scale)):
            host, port = address.rsplit(":", 1)
            connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=60))
            connection.sendall(list(SILENCES.values())[number % len(SILENCES)])
            silent.append(connection)
        for connection in silent:
            connection.settimeout(10 * HANDSHAKE_NS / SECOND_NS)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass  # what a server says first
