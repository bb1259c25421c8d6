"""How many connections one peer may have to the doors of a server."""

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator

import pytest

from leasehold.wire import connection_bytes, peer_connections
from leasehold.wire.peer_connections import PeerConnections, peer_of

FEW = 3
MUCH_BYTES = 1_000


class Doors:
    """Listening sockets of this process, and the connections that it has taken there."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]

    @property
    def ports(self) -> list[int]:
        return [one.getsockname()[1] for one in self.listening]

    def connect(self, door: int, count: int, host: str = "127.0.0.2") -> list[socket.socket]:
        """The clients' ends."""
        made: list[socket.socket] = []
        for _ in range(count):
            near = socket.create_connection(("127.0.0.1", self.ports[door]), source_address=(host, 0))
            far, _ = self.listening[door].accept()
            made.append(self._stack.enter_context(near))
            self._stack.enter_context(far)
        return made


@pytest.fixture
def doors() -> Iterator[Doors]:
    with contextlib.ExitStack() as stack:
        yield Doors(stack)


def watching(*ports: int) -> PeerConnections:
    """It looks only when it is asked to."""
    made = PeerConnections(frozenset(ports), per_peer_max=FEW)
    made.close()
    return made


def alive(connections: list[socket.socket]) -> list[bool]:
    found: list[bool] = []
    for one in connections:
        one.setblocking(False)
        try:
            found.append(one.recv(1) != b"")
        except BlockingIOError:
            found.append(True)
    return found


def test_further_connections_of_a_peer_are_closed_and_the_first_ones_stay(doors: Doors) -> None:
    watch = watching(*doors.ports)
    first = doors.connect(0, FEW)
    assert watch.look() == 0
    more = doors.connect(0, 2)
    assert watch.look() == 2
    assert alive(first) == [True] * FEW
    assert alive(more) == [False] * 2


def test_there_is_room_again_once_others_have_gone(doors: Doors) -> None:
    watch = watching(*doors.ports)
    with contextlib.ExitStack() as gone:
        passing = Doors(gone)
        passing.listening = doors.listening
        passing.connect(0, FEW)
        assert watch.look() == 0
    later = doors.connect(0, FEW)
    assert watch.look() == 0
    assert alive(later) == [True] * FEW


def test_peers_and_doors_are_counted_apart(doors: Doors) -> None:
    watch = watching(*doors.ports)
    kept = doors.connect(0, FEW) + doors.connect(1, FEW) + doors.connect(0, FEW, host="127.0.0.3")
    assert watch.look() == 0
    assert alive(kept) == [True] * len(kept)


def said(one: socket.socket) -> str:
    """As gRPC calls the client of this connection."""
    return "ipv4:{}:{}".format(*one.getsockname())


@pytest.mark.parametrize("is_crowded", [True, False])
def test_a_connection_on_which_much_comes_and_no_call_begins_is_closed(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, is_crowded: bool
) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNASKED_BYTES_MAX", MUCH_BYTES)  # the kernel takes it at once
    monkeypatch.setattr(peer_connections, "CONNECTIONS_UNASKED_MAX", 0 if is_crowded else 1)
    watch = watching(doors.ports[0])
    heavy, asking, late = doors.connect(0, FEW)
    (light,) = doors.connect(0, 1, host="127.0.0.3")
    for one in (heavy, asking, late):
        one.sendall(bytes(MUCH_BYTES + 1))
    light.sendall(bytes(MUCH_BYTES))
    (other,) = doors.connect(1, 1)
    other.sendall(bytes(MUCH_BYTES + 1))
    watch.has_call(said(asking))
    assert watch.look() == 0
    watch.has_call(said(late))
    rest = 0 if is_crowded else connection_bytes.CONNECTION_UNASKED_LOOKS - 2
    assert [watch.look() for _ in range(rest + 1)] == [0] * rest + [1]
    assert alive([heavy, light, asking, late, other]) == [False, True, True, True, True]
    assert [watch.look() for _ in range(3)] == [0, 0, 0], "who has asked may send more"


def test_a_connection_on_which_much_comes_that_is_of_no_message_is_closed_at_the_second_look(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNREAD_BYTES_MAX", MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "CONNECTION_CALL_BYTES", MUCH_BYTES)
    watch = watching(doors.ports[0])
    heavy, read, light = doors.connect(0, FEW)
    for one in (heavy, read, light):
        watch.has_call(said(one))
    heavy.sendall(bytes(2 * MUCH_BYTES + 3))
    read.sendall(bytes(10 * MUCH_BYTES))
    light.sendall(bytes(2 * MUCH_BYTES + 1))
    watch.has_read(said(read), 10 * MUCH_BYTES)
    assert [watch.look() for _ in range(4)] == [0, 1, 0, 0]
    assert alive([heavy, read, light]) == [False, True, True]
    for one in (read, light):
        one.sendall(bytes(2 * MUCH_BYTES))
    watch.has_read(said(light), 2 * MUCH_BYTES)
    assert [watch.look() for _ in range(4)] == [0, 1, 0, 0]
    assert alive([read, light]) == [False, True]


def test_a_connection_on_which_very_much_comes_is_closed_at_once(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNREAD_BYTES_MAX", MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "CONNECTION_CALL_BYTES", MUCH_BYTES)
    watch = watching(doors.ports[0])
    very, much = doors.connect(0, 2)
    for one in (very, much):
        watch.has_call(said(one))
    very.sendall(bytes(3 * MUCH_BYTES + 2))
    much.sendall(bytes(3 * MUCH_BYTES + 1))
    assert watch.look() == 1
    assert alive([very, much]) == [False, True]


def test_connections_with_calls_have_their_turn(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNREAD_BYTES_MAX", MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "CONNECTION_CALL_BYTES", MUCH_BYTES)
    monkeypatch.setattr(peer_connections, "CONNECTIONS_LOOKED_MAX", 1)
    watch = watching(doors.ports[0])
    heavy = doors.connect(0, FEW)
    for one in heavy:
        watch.has_call(said(one))
        one.sendall(bytes(5 * MUCH_BYTES // 2))
    assert [watch.look() for _ in range(3 * FEW)] == [0] * FEW + [1] * FEW + [0] * FEW
    assert alive(heavy) == [False] * FEW


def test_calls_are_not_remembered_where_nobody_looks(doors: Doors) -> None:
    watch = watching()
    (one,) = doors.connect(0, 1)
    watch.has_call(said(one))
    assert not watch._accounted


def test_other_sockets_of_the_process_are_left_alone(doors: Doors) -> None:
    watch = watching(doors.ports[0])
    others = doors.connect(1, 2 * FEW)
    assert watch.look() == 0
    assert alive(others) == [True] * len(others)


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%lo", "fe80::/64"),
    ],
)
def test_a_peer_is_an_address_or_half_of_one(host: str, peer: str) -> None:
    assert peer_of(host) == peer


def test_a_process_without_a_free_file_looks_again_later(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    tried = threading.Event()

    def look(_self: PeerConnections) -> int:
        looks.append("look")
        if len(looks) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        tried.set()
        return 0

    monkeypatch.setattr(PeerConnections, "look", look)
    watch = PeerConnections(frozenset(doors.ports))
    try:
        assert tried.wait(10)
    finally:
        watch.close()


@pytest.mark.parametrize("said", ["ipv4:127.0.0.2:{}", "ipv6:%5B::ffff:127.0.0.2%5D:{}"])
def test_connections_end_by_the_names_that_grpc_gives_them(doors: Doors, said: str) -> None:
    watch = watching(doors.ports[0])
    stays, ends = doors.connect(0, 2)
    (elsewhere,) = doors.connect(1, 1)
    ports = [one.getsockname()[1] for one in (ends, elsewhere)]
    watch.end([*(said.format(port) for port in ports), "unix:", "ipv4:127.0.0.2:", said.format(1)])
    assert watch.end_now() == 1
    assert alive([stays, ends, elsewhere]) == [True, False, True]
    assert watch.end_now() == 0


def test_connections_end_later_if_no_file_is_left(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watching(*doors.ports)
    (ends,) = doors.connect(0, 1)
    watch.end([f"ipv4:127.0.0.2:{ends.getsockname()[1]}"])

    def no_file(_number: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="Too many open files"):
        patched.setattr("os.dup", no_file)
        watch.end_now()
    assert watch.end_now() == 1
    assert alive([ends]) == [False]
