"""Calls that are begun and reset as fast as a connection takes them. gRPC's own client would hold such frames back: it
keeps to the number of calls that a server allows at once."""

import contextlib
import socket
import ssl
import struct
import threading

import pytest

from leasehold.wire.rpc import CALL
from tests.attacks.floods.test_flight_floods import SERVICE
from tests.attacks.ground import Ground
from tests.attacks.unfinished import ACK, END_HEADERS, HEADERS, PREFACE, RESET, SETTINGS, frame, literal

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

CALLS = 150_000
CONNECTIONS = 3
AT_ONCE = 50
CANCEL = struct.pack(">I", 8)


def begin_and_reset(connection: socket.socket, block: bytes, first: int, calls: int) -> int:
    """How many calls the connection took before it was closed."""
    with contextlib.suppress(OSError, ssl.SSLError):
        connection.settimeout(20)
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b""))
        for begun in range(0, calls, AT_ONCE):
            streams = range(first + 2 * begun, first + 2 * (begun + AT_ONCE), 2)
            connection.sendall(
                b"".join(frame(HEADERS, END_HEADERS, one, block) + frame(RESET, 0, one, CANCEL) for one in streams)
            )
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                while connection.recv(65_536):
                    pass
            connection.settimeout(20)
        return calls
    return 0


@pytest.mark.parametrize(
    ("at_node", "path"),
    [(True, f"{SERVICE}DoGet"), (True, "/x/y"), (False, CALL), (False, "/x/y")],
    ids=["known by a node", "unknown to a node", "known by a coordinator", "unknown to a coordinator"],
)
def test_calls_that_are_begun_and_reset_in_raw_frames(ground: Ground, scale: int, at_node: bool, path: str) -> None:
    address = ground.nodes()[0] if at_node else ground.coordinator
    headers = {":method": "POST", ":scheme": "https", ":path": path, ":authority": address}
    block = b"".join(literal(*one) for one in {**headers, "content-type": "application/grpc", "te": "trailers"}.items())

    def flood() -> None:
        left = CALLS * scale // CONNECTIONS
        while left > 0:
            with ground.connection(address) as connection:
                left -= begin_and_reset(connection, block, 1, min(left, CALLS)) or AT_ONCE

    threads = [threading.Thread(target=flood) for _ in range(CONNECTIONS)]
    with ground.attacked():
        for one in threads:
            one.start()
        for one in threads:
            one.join()
