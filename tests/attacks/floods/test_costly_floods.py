"""Floods from many addresses that cost a coordinator much more than the attackers. It shares its time among peers, so
an honest client has its turn at once."""

import contextlib
import itertools
import signal
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import WhoAreYou
from leasehold.limits.units import SECOND_NS
from leasehold.wire.rpc import CALL, SESSION
from tests.attacks.floods.test_raw_calls import CANCEL, HOSTS, WAIT_S, floods
from tests.attacks.ground import MORE_CONNECTIONS, Ground
from tests.attacks.key_updates import KeyUpdates
from tests.attacks.unfinished import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    NOT_NOW,
    PREFACE,
    RESET,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    header_block,
    in_message,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SECONDS = 4
CALLS = 250
"""At a time on a connection."""
MANY_HOSTS = 200
RESTART_NS = 2 * SECOND_NS
"""How long a coordinator takes from its end to the first answer of the next process, with room."""
CONNECTIONS = 5
"""Of each host, where it has several."""
OPEN = PREFACE + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, ACK, 0, b"")
QUESTION = in_message(encode(WhoAreYou()))
MORE_HEADERS = {f"h{number}": "" for number in range(50)}


def drain(connection: socket.socket) -> None:
    """Takes what has come, without waiting. Raises `OSError` once the connection has ended."""
    connection.setblocking(False)
    try:
        with contextlib.suppress(*NOT_NOW):
            while True:
                if not connection.recv(65_536):
                    raise ConnectionError
    finally:
        connection.settimeout(WAIT_S)


def streams_from(first: int) -> Iterator[int]:
    return itertools.count(2 * first + 1, 2)


def questions_in_records_of_a_byte(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    connection.sendall(OPEN)
    for stream in streams_from(0):
        for one in frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, QUESTION):
            connection.sendall(bytes((one,)))
        drain(connection)
        if stopped.is_set():
            return


def headers_in_pieces(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    connection.sendall(OPEN)
    padding = bytes([0, 1, ord("x"), 1, ord("x")] * 50)
    whole = block + padding
    for stream in streams_from(0):
        pieces = [whole[at : at + 6] for at in range(0, len(whole), 6)]
        connection.sendall(
            frame(HEADERS, END_STREAM, stream, pieces[0])
            + b"".join(frame(CONTINUATION, 0, stream, one) for one in pieces[1:-1])
            + frame(CONTINUATION, END_HEADERS, stream, pieces[-1])
        )
        drain(connection)
        if stopped.is_set():
            return


def calls_without_a_message(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    """Each is begun again when it ends."""
    connection.sendall(OPEN)
    begun = 0
    while not stopped.wait(0.05):
        connection.sendall(
            b"".join(frame(HEADERS, END_HEADERS, one, block) for one in itertools.islice(streams_from(begun), CALLS))
        )
        begun += CALLS
        drain(connection)


def questions_taken_back_soon(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    connection.sendall(OPEN)
    begun = 0
    while not stopped.is_set():
        streams = tuple(itertools.islice(streams_from(begun), 50))
        connection.sendall(
            b"".join(
                frame(HEADERS, END_HEADERS, one, block) + frame(DATA, END_STREAM, one, QUESTION) for one in streams
            )
        )
        stopped.wait(0.001)
        connection.sendall(b"".join(frame(RESET, 0, one, CANCEL) for one in streams))
        begun += len(streams)
        drain(connection)


def many_headers_and_half_a_message(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    connection.sendall(OPEN)
    more = block + header_block("", "", said=MORE_HEADERS)[-9 * len(MORE_HEADERS) :]
    begun = 0
    while not stopped.wait(0.05):
        streams = itertools.islice(streams_from(begun), 25)
        connection.sendall(
            b"".join(frame(HEADERS, END_HEADERS, one, more) + frame(DATA, 0, one, QUESTION[:-1]) for one in streams)
        )
        begun += 25
        drain(connection)


def answers_a_byte_at_a_time(connection: socket.socket, block: bytes, stopped: threading.Event) -> None:
    streams = tuple(itertools.islice(streams_from(0), CALLS))
    connection.sendall(
        PREFACE
        + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0))
        + frame(SETTINGS, ACK, 0, b"")
        + b"".join(frame(HEADERS, END_HEADERS, one, block) + frame(DATA, END_STREAM, one, QUESTION) for one in streams)
    )
    one_more = b"".join(frame(WINDOW_UPDATE, 0, one, struct.pack(">I", 1)) for one in streams)
    while not stopped.wait(0.005):
        connection.sendall(one_more)
        drain(connection)


@pytest.mark.parametrize(
    ("flood", "hosts", "connections"),
    [
        (questions_in_records_of_a_byte, HOSTS, 1),
        (headers_in_pieces, HOSTS, 1),
        (calls_without_a_message, HOSTS, CONNECTIONS),
        (calls_without_a_message, MANY_HOSTS, 1),
        (questions_taken_back_soon, HOSTS, 1),
        (many_headers_and_half_a_message, HOSTS, CONNECTIONS),
        (answers_a_byte_at_a_time, HOSTS, 1),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_flood_that_costs_much(
    ground: Ground,
    scale: int,
    flood: Callable[[socket.socket, bytes, threading.Event], None],
    hosts: int,
    connections: int,
) -> None:
    block = header_block(CALL, ground.coordinator)

    def again(host: str, stopped: threading.Event) -> None:
        while not stopped.wait(0.05):
            with (
                contextlib.suppress(OSError),
                ground.connection(ground.coordinator, host, patience_s=WAIT_S) as connection,
            ):
                connection.settimeout(WAIT_S)
                flood(connection, block, stopped)

    flooders = [partial(again, ground.strange_host(2 + number % hosts)) for number in range(hosts * connections)]
    floods(ground, flooders, SECONDS * scale)


def test_keys_that_are_changed_without_end(ground: Ground, scale: int) -> None:
    """Each change takes both sides two keys, and the server answers with one of its own."""

    def again(host: str, stopped: threading.Event) -> None:
        while not stopped.wait(0.05):
            with (
                contextlib.suppress(OSError, ssl.SSLError),
                ground.tcp(ground.coordinator, host, patience_s=WAIT_S) as connection,
            ):
                connection.settimeout(WAIT_S)
                changed = KeyUpdates(connection, ground.client_context())
                while not stopped.is_set():
                    changed.send(500)

    hosts = [ground.strange_host(2 + number) for number in range(HOSTS)]
    floods(ground, [partial(again, host) for host in hosts], SECONDS * scale)


def test_a_coordinator_that_restarts_during_a_flood(ground: Ground, scale: int) -> None:
    """It knows the nodes' hosts by their gossip, before the nodes have connected."""
    coordinator, address = ground.cluster.local.coordinator, ground.coordinator
    block = header_block(CALL, address)

    def again(host: str, stopped: threading.Event) -> None:
        while not stopped.wait(0.05):
            with (
                contextlib.suppress(OSError),
                ground.connection(address, host, patience_s=WAIT_S) as connection,
            ):
                connection.settimeout(WAIT_S)
                many_headers_and_half_a_message(connection, block, stopped)

    def restart() -> None:
        coordinator.signal(signal.SIGKILL)
        coordinator.wait_until_gone()
        ground.cluster.local.start(coordinator.name)

    hosts = [ground.strange_host(2 + number) for number in range(MANY_HOSTS)]
    flooders = [partial(again, host) for host in hosts]
    floods(ground, flooders, SECONDS * scale, meanwhile=restart, takes_ns=RESTART_NS)


@pytest.mark.usefixtures("many_files")
def test_a_door_full_of_strangers(ground: Ground, scale: int) -> None:
    """Each has one connection, with a call that does not end, and comes again."""
    address = ground.coordinator
    call = OPEN + frame(HEADERS, END_HEADERS, 1, header_block(SESSION, address))

    def many(numbers: range, stopped: threading.Event) -> None:
        held: dict[int, socket.socket] = {}
        for number in itertools.cycle(numbers):
            if stopped.is_set():
                break
            if number in held:
                held.pop(number).close()
            with contextlib.suppress(OSError):
                connection = ground.connection(address, ground.strange_host(2 + number), patience_s=WAIT_S)
                held[number] = connection
                connection.sendall(call)
        for one in held.values():
            one.close()

    flooders = [partial(many, range(first, MORE_CONNECTIONS, 8)) for first in range(8)]
    floods(ground, flooders, 2 * SECONDS * scale)


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00"], ids=["silent", "half a hello"])
def test_connections_without_end(ground: Ground, scale: int, hello: bytes) -> None:
    """Each is closed as soon as it is made."""

    def again(host: str, stopped: threading.Event) -> None:
        while not stopped.is_set():
            with contextlib.suppress(OSError), ground.tcp(ground.coordinator, host, patience_s=WAIT_S) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(hello)

    hosts = [ground.strange_host(2 + number) for number in range(HOSTS)]
    floods(ground, [partial(again, host) for host in hosts], SECONDS * scale)
