"""Calls that are begun and reset, or refused, in raw frames. gRPC's own client would hold them back: it keeps to the
number of calls that a server allows at once."""

import contextlib
import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import WhoAreYou
from leasehold.wire.rpc import CALL
from tests.attacks.floods.test_flight_floods import SERVICE
from tests.attacks.ground import Ground
from tests.attacks.unfinished import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RESET,
    SETTINGS,
    frame,
    header_block,
    in_message,
    no_windows,
    whole_frames,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

CALLS = 50_000
"""On one connection, if it lasts."""
CONNECTIONS = 3
AT_ONCE = 50
PACED_CONNECTIONS = 20
PACED_CALLS = 50
"""On each connection, ten times a second."""
HOSTS = 40
CROWD = 240
HEADERS_OF_FRAME = 250
FRAMES = 200
OPEN_CALLS = 20
"""Of each host, ten times a second."""
SECONDS = 4
BURST_CALLS = 400
"""More than a connection may have at once."""
WAIT_S = 1
"""An attacker waits for so long."""
CANCEL = struct.pack(">I", 8)


def begin_and_reset(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    connection.settimeout(20)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b""))
    for begun in range(0, CALLS, AT_ONCE):
        if stopped.is_set():
            return
        streams = range(1 + 2 * begun, 1 + 2 * (begun + AT_ONCE), 2)
        connection.sendall(
            b"".join(frame(HEADERS, END_HEADERS, one, block) + frame(RESET, 0, one, CANCEL) for one in streams)
        )
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            while connection.recv(65_536):
                pass
        connection.settimeout(20)


@pytest.mark.parametrize(
    ("at_node", "path"),
    [(True, f"{SERVICE}DoGet"), (True, "/x/y"), (False, CALL), (False, "/x/y")],
    ids=["known by a node", "unknown to a node", "known by a coordinator", "unknown to a coordinator"],
)
def test_calls_that_are_begun_and_reset_in_raw_frames(ground: Ground, scale: int, at_node: bool, path: str) -> None:
    address = ground.nodes()[0] if at_node else ground.coordinator
    block = header_block(path, address)

    def flood(stopped: threading.Event) -> None:
        while not stopped.is_set():
            with contextlib.suppress(OSError), ground.connection(address, patience_s=WAIT_S) as connection:
                begin_and_reset(connection, block, stopped)

    floods(ground, [flood] * CONNECTIONS, SECONDS * scale)


def floods(
    ground: Ground,
    attackers: list[Callable[[threading.Event], None]],
    seconds: int,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    takes_ns: int = 0,
) -> None:
    """Each of them floods on a thread of its own until it is told to stop. An honest client waits for so much longer
    where it has to wait for what happens `meanwhile`."""
    stopped = threading.Event()
    threads = [threading.Thread(target=one, args=(stopped,)) for one in attackers]
    with ground.attacked(more_ns=takes_ns):
        for one in threads:
            one.start()
        try:
            meanwhile()
            stopped.wait(seconds)
        finally:
            stopped.set()
        for one in threads:
            one.join()


class Paced:
    """A connection on which so many calls begin each 100 ms, until it is closed; then another one. It comes from
    `host`, or where other attackers come from."""

    def __init__(
        self, ground: Ground, address: str, burst: Callable[[int], bytes], calls: int, host: str | None = None
    ) -> None:
        self._ground = ground
        self._address = address
        self._host = host
        self._burst = burst
        self._calls = calls

    def run(self, stopped: threading.Event) -> None:
        while not stopped.is_set():
            with (
                contextlib.suppress(OSError),
                self._ground.connection(self._address, self._host, patience_s=WAIT_S) as connection,
            ):
                connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b""))
                connection.setblocking(False)
                for number in itertools.count():
                    if stopped.wait(0.1):
                        return
                    connection.sendall(self._burst(1 + 2 * number * self._calls))
                    with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                        while connection.recv(65_536):
                            pass
            stopped.wait(0.1)


def paced(ground: Ground, address: str, burst: Callable[[int], bytes], calls: int, seconds: int) -> None:
    """Floods for so long, from PACED_CONNECTIONS at a time."""
    floods(ground, [Paced(ground, address, burst, calls).run] * PACED_CONNECTIONS, seconds)


def test_questions_that_are_taken_back_on_many_connections(ground: Ground, scale: int) -> None:
    """10,000 a second."""
    block = header_block(CALL, ground.coordinator)
    message = in_message(encode(WhoAreYou()))

    def burst(first: int) -> bytes:
        return b"".join(
            frame(HEADERS, END_HEADERS, one, block) + frame(DATA, 0, one, message) + frame(RESET, 0, one, CANCEL)
            for one in range(first, first + 2 * PACED_CALLS, 2)
        )

    paced(ground, ground.coordinator, burst, PACED_CALLS, SECONDS * scale)


def test_questions_from_many_addresses_that_wait_for_no_answer(ground: Ground, scale: int) -> None:
    """8,000 a second: more than a coordinator answers."""
    block = header_block(CALL, ground.coordinator)
    message = in_message(encode(WhoAreYou()))

    def burst(first: int) -> bytes:
        return b"".join(
            frame(HEADERS, END_HEADERS, one, block) + frame(DATA, END_STREAM, one, message)
            for one in range(first, first + 2 * OPEN_CALLS, 2)
        )

    hosts = [ground.strange_host(number) for number in range(2, 2 + HOSTS)]
    attackers = [Paced(ground, ground.coordinator, burst, OPEN_CALLS, one).run for one in hosts]
    floods(ground, attackers, SECONDS * scale)


@pytest.mark.parametrize(("at_node", "calls"), [(False, 2), (True, 40)], ids=["coordinator", "node"])
def test_a_crowd_of_addresses_takes_few_calls_back_each(ground: Ground, scale: int, at_node: bool, calls: int) -> None:
    """So many ten times a second: none of them is above what one address may take back."""
    address = ground.nodes()[0] if at_node else ground.coordinator
    block = header_block(f"{SERVICE}DoAction" if at_node else CALL, address)
    taken_back = [frame(HEADERS, END_HEADERS, one, block) + frame(RESET, 0, one, CANCEL) for one in range(1, CALLS, 2)]

    def burst(first: int) -> bytes:
        return b"".join(taken_back[first // 2 : first // 2 + calls])

    hosts = [ground.strange_host(number) for number in range(2, 2 + CROWD)]
    attackers = [Paced(ground, address, burst, calls, one).run for one in hosts]
    floods(ground, attackers, SECONDS * scale)


@pytest.mark.parametrize(("hosts", "connections"), [(1, 8), (HOSTS, HOSTS)])
@pytest.mark.parametrize("at_node", [True, False], ids=["node", "coordinator"])
def test_headers_without_end_before_a_yes_to_the_settings(
    ground: Ground, scale: int, at_node: bool, hosts: int, connections: int
) -> None:
    """Until then gRPC's server took 16 MiB of them, by its own count: some 7 MiB for each connection."""
    address = ground.nodes()[0] if at_node else ground.coordinator
    more = bytes([0, 1, ord("x"), 0]) * HEADERS_OF_FRAME
    frames = [frame(HEADERS, 0, 1, header_block(CALL, address)), *[frame(CONTINUATION, 0, 1, more)] * FRAMES]
    content = PREFACE + frame(SETTINGS, 0, 0, b"") + b"".join(frames) + frame(CONTINUATION, END_HEADERS, 1, b"")

    def flood(host: str, stopped: threading.Event) -> None:
        while not stopped.wait(0.1):
            with contextlib.suppress(OSError), ground.connection(address, host, patience_s=WAIT_S) as connection:
                connection.sendall(content)
                stopped.wait(0.2)

    attackers = [partial(flood, ground.strange_host(2 + number % hosts)) for number in range(connections)]
    floods(ground, attackers, SECONDS * scale)


def test_calls_that_a_node_refuses(ground: Ground, scale: int) -> None:
    """80,000 a second, of which each connection may have some hundred at once."""
    (address, *_) = ground.nodes()
    block = header_block(f"{SERVICE}DoGet", address)

    def burst(first: int) -> bytes:
        streams = range(first, first + 2 * BURST_CALLS, 2)
        return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, one, block) for one in streams)

    paced(ground, address, burst, BURST_CALLS, SECONDS * scale)


@pytest.mark.parametrize("hosts", [1, HOSTS])
def test_refused_calls_each_followed_by_two(ground: Ground, scale: int, hosts: int) -> None:
    """Their windows stay at 0, so a connection soon has as many as it may have at once."""
    asked = Asked(header_block(CALL, ground.coordinator), in_message(encode(WhoAreYou())))
    hosts_of = [ground.strange_host(2 + number % hosts) for number in range(max(hosts, PACED_CONNECTIONS))]
    floods(ground, [partial(asked.followed, ground, ground.coordinator, one) for one in hosts_of], SECONDS * scale)


class Asked(NamedTuple):
    """A call that is asked for again and again."""

    block: bytes
    message: bytes | None
    """None if it says nothing."""

    def frames(self, streams: Iterable[int]) -> bytes:
        return b"".join(
            frame(HEADERS, END_HEADERS, one, self.block)
            + (b"" if self.message is None else frame(DATA, END_STREAM, one, self.message))
            for one in streams
        )

    def followed(self, ground: Ground, address: str, host: str, stopped: threading.Event) -> None:
        """On a connection from this host whose windows stay at 0: each call that ends is followed by two."""
        while not stopped.is_set():
            with contextlib.suppress(OSError), ground.connection(address, host, patience_s=WAIT_S) as connection:
                streams = itertools.count(1, 2)
                connection.sendall(no_windows() + self.frames(itertools.islice(streams, BURST_CALLS)))
                connection.settimeout(WAIT_S)
                came = bytearray()
                while not stopped.is_set() and (piece := received(connection)) is not None:
                    came += piece
                    connection.sendall(self.frames(itertools.islice(streams, 2 * ended(came))))


def received(connection: socket.socket) -> bytes | None:
    """What has come within WAIT_S, if anything has; None at the end."""
    try:
        return connection.recv(65_536) or None
    except TimeoutError:
        return b""


def ended(came: bytearray) -> int:
    """How many calls have ended by the whole frames in `came`, which go from it."""
    return sum(kind == RESET or (kind == HEADERS and bool(flags & END_STREAM)) for kind, flags, _ in whole_frames(came))
