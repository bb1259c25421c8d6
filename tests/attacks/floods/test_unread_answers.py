"""Answers of a coordinator that nobody takes: the window of each call stays at 0."""

import contextlib
import selectors
import socket

import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import WhoAreYou
from leasehold.limits.requests import CALLS_PER_CONNECTION_MAX, CALLS_PER_PEER_MAX, CONNECTIONS_PER_PEER_MAX
from leasehold.wire.clock import sleep_ns
from leasehold.wire.rpc import CALL
from tests.attacks.ground import Ground
from tests.attacks.unfinished import NOT_NOW, pongs, untaken_calls

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

CONNECTIONS = 60
REST_NS = 200_000_000
"""Between two connections: the server would refuse calls that come all at once."""


def test_answers_that_nobody_takes(ground: Ground, scale: int) -> None:
    if ground.tls is None:
        pytest.skip("without TLS nothing is counted: all peers are on this machine")
    begun = untaken_calls(CALL, ground.coordinator, encode(WhoAreYou()), CALLS_PER_CONNECTION_MAX)
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector, ground.attacked():
        for _ in range(min(scale * CONNECTIONS, CONNECTIONS_PER_PEER_MAX - 16)):
            with contextlib.suppress(OSError):  # the server may close any of them
                connection = opened.enter_context(ground.connection(ground.coordinator))
                connection.sendall(begun)
                selector.register(connection, selectors.EVENT_READ, bytearray())
            sleep_ns(REST_NS)
            for key, _ in selector.select(0):
                assert isinstance(key.fileobj, socket.socket)
                with contextlib.suppress(OSError):
                    answer_pings(key.fileobj, key.data)
        assert len(selector.get_map()) * CALLS_PER_CONNECTION_MAX > CALLS_PER_PEER_MAX, "it was no attack"


def answer_pings(connection: socket.socket, came: bytearray) -> None:
    """Reads what has come, so that the server takes the connection for alive."""
    connection.setblocking(False)
    with contextlib.suppress(*NOT_NOW):
        while piece := connection.recv(1 << 16):
            came += piece
    connection.settimeout(5)
    connection.sendall(pongs(came))
