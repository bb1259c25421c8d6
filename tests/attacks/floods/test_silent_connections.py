"""Connections that say nothing, or nothing of HTTP/2, and more connections than a port takes."""

import contextlib
import resource
import socket
import ssl
import zlib
from collections.abc import Generator

import pytest

from leasehold.limits.requests import CONNECTIONS_MAX, HANDSHAKE_NS
from leasehold.limits.units import SECOND_NS
from tests.attacks.ground import Ground
from tests.attacks.unfinished import PREFACE, SETTINGS, frame

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
            connection = opened.enter_context(ground.connection(address))
            connection.sendall(list(SILENCES.values())[number % len(SILENCES)])
            silent.append(connection)
        for connection in silent:
            connection.settimeout(10 * HANDSHAKE_NS / SECOND_NS)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass  # what a server says first


MORE = CONNECTIONS_MAX + 200


@pytest.fixture
def many_files() -> Generator[None]:
    """So that this process may open more connections than a port takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MORE + 500)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("port", ["node", "coordinator"])
def test_more_connections_than_a_port_takes(ground: Ground, scale: int, port: str) -> None:
    """The connections from before stay, and there is room again once the others have gone."""
    address = ground.nodes()[0] if port == "node" else ground.coordinator
    hello = PREFACE + frame(SETTINGS, 0, 0, b"")
    with ground.attacked(kept=True):
        for _ in range(scale):
            with contextlib.ExitStack() as opened:
                made = [opened.enter_context(ground.tcp(address)) for _ in range(MORE)]
                taken = sum(_is_taken(ground, one, hello) for one in made)
                assert taken <= CONNECTIONS_MAX
    with ground.attacked():
        pass


def _is_taken(ground: Ground, connection: socket.socket, hello: bytes) -> bool:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        within = ground.in_tls(connection)
        within.sendall(hello)
        return within.recv(1) != b""
    return False
