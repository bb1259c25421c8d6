"""How many connections one peer may have to the doors of a server."""

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.e2e.waiting import wait_until
from tests.unit.wire.server_counters import Counted

from leasehold.limits.bans import BACKLOG_CALLS_MAX, FAULTS_PER_SECOND_MAX
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.wire import connection_bytes, peer_connections
from leasehold.wire.own_sockets import FarEnd, OwnSockets
from leasehold.wire.peer_connections import PeerConnections, peer_of

FEW = 3
DAY_NS = 86_400 * SECOND_NS
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
        except ConnectionResetError:
            found.append(False)
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


def test_a_connection_on_which_much_comes_and_no_call_begins_is_closed(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNASKED_BYTES_MAX", MUCH_BYTES)  # the kernel takes it at once
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
    rest = connection_bytes.CONNECTION_UNASKED_LOOKS - 2
    assert [watch.look() for _ in range(rest + 1)] == [0] * rest + [1]
    assert alive([heavy, light, asking, late, other]) == [False, True, True, True, True]
    assert [watch.look() for _ in range(3)] == [0, 0, 0], "who has asked may send more"


def test_the_heaviest_of_many_connections_without_a_call_are_closed_at_once(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNASKED_SMALL_BYTES", MUCH_BYTES)
    monkeypatch.setattr(peer_connections, "CONNECTIONS_UNASKED_BYTES_MAX", 4 * MUCH_BYTES)
    watch = watching(doors.ports[0])
    heavy, heavier, asking = doors.connect(0, FEW)
    small, large = doors.connect(0, 2, host="127.0.0.3")
    for one, size in ((heavy, 2), (heavier, 3), (asking, 5), (small, 1), (large, 2)):
        one.sendall(bytes(size * MUCH_BYTES))
    watch.has_call(said(asking))
    assert watch.look() == 1
    assert alive([heavy, heavier, asking, small, large]) == [True, False, True, True, True]
    assert watch.look() == 0


def test_a_connection_on_which_much_comes_that_is_of_no_message_is_closed_at_the_second_look(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNREAD_BYTES_MAX", MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "A_CALL", connection_bytes.Accounted(MUCH_BYTES, MUCH_BYTES))
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
    monkeypatch.setattr(peer_connections, "A_CALL", connection_bytes.Accounted(MUCH_BYTES, MUCH_BYTES))
    watch = watching(doors.ports[0])
    very, much = doors.connect(0, 2)
    for one in (very, much):
        watch.has_call(said(one))
    very.sendall(bytes(3 * MUCH_BYTES + 2))
    much.sendall(bytes(3 * MUCH_BYTES + 1))
    assert watch.look() == 1
    assert alive([very, much]) == [False, True]


def test_what_comes_without_end_is_a_fault_of_its_peer(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = connection_bytes.CONNECTION_GROWING_LOOKS
    monkeypatch.setattr(connection_bytes, "CONNECTION_THIN_BYTES_MAX", looks * MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_THIN_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "FAULT_BYTES", MUCH_BYTES)
    monkeypatch.setattr("leasehold.wire.bans.FAULTS_PER_SECOND_MAX", 0)
    monkeypatch.setattr("leasehold.wire.bans.FAULTS_OF_ONE_MAX", 0)
    watch = watching(doors.ports[0])
    (flooding,) = doors.connect(0, 1)
    reading, resting = doors.connect(0, 2, host="127.0.0.3")
    for one in (flooding, reading, resting):
        watch.has_call(said(one))
    faults = []
    for number in range(looks + 3):
        flooding.sendall(bytes(2 * MUCH_BYTES))
        reading.sendall(bytes(2 * MUCH_BYTES))
        watch.has_read(said(reading), MUCH_BYTES)
        if number <= looks:
            resting.sendall(bytes(2 * MUCH_BYTES))
        faults.append(watch.look())
    assert faults == [0] * (looks + 2) + [1], "at the look after the fault"
    assert alive([flooding, reading, resting]) == [False, True, True]
    (again,) = doors.connect(0, 1)
    (other,) = doors.connect(0, 1, host="127.0.0.3")
    assert watch.look()
    assert alive([again, other]) == [False, True]


def test_peers_whose_calls_are_taken_back_are_kept_out(doors: Doors) -> None:
    watch = watching(doors.ports[0])
    eve, later = doors.connect(0, 2)
    ann, node = doors.connect(0, 1, host="127.0.0.3"), doors.connect(0, 1, host="127.0.0.4")
    watch.has_call(said(node[0]), of_member=True)
    assert watch.look() == 0
    for one in (eve, later, *node):
        for _ in range(FAULTS_PER_SECOND_MAX):
            watch.has_fault(said(one))
    watch.has_fault(said(ann[0]))
    assert watch.has_call(said(eve)), "the look comes later"
    assert watch.look() == 2
    assert alive([eve, later, *ann, *node]) == [False, False, True, True]
    assert [watch.has_call(said(one)) for one in (eve, later, *ann, *node)] == [False, False, True, True]
    (again,) = doors.connect(0, 1)
    assert watch.look() == 1
    assert alive([again]) == [False]


def test_a_banned_peer_gets_no_connection_until_its_ban_ends(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.bans.BAN_NS", SECOND_NS)
    watch = PeerConnections(frozenset(doors.ports), per_peer_max=FEW)
    try:
        (eve,) = doors.connect(0, 1)
        for _ in range(2 * FAULTS_PER_SECOND_MAX):
            watch.has_fault(said(eve))
        assert eve.recv(1) == b""
        door = doors.listening[0].getsockname()
        with socket.create_connection(door, source_address=("127.0.0.2", 0)):  # nobody takes it
            assert alive(doors.connect(0, 1, host="127.0.0.3")) == [True], "the server gets the other one"
        wait_until(lambda: not watch._kept_out._peers)
        assert alive(doors.connect(0, 1)) == [True]
    finally:
        watch.close()


def test_who_keeps_all_others_waiting_is_kept_out(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.bans.BAN_GRACE_NS", 0)
    monkeypatch.setattr("leasehold.wire.backlog.BACKLOG_ASKED_NS", 0)
    monkeypatch.setattr("leasehold.wire.backlog.BACKLOG_ASK_EACH_NS", 0)
    accepted = Counted()
    watch = PeerConnections(frozenset(doors.ports[:1]), per_peer_max=FEW, accepted=accepted)
    watch.close()
    (eve,), (ann,) = doors.connect(0, 1), doors.connect(0, 1, host="127.0.0.3")
    for one in (eve, ann):
        accepted.in_all[FarEnd(*one.getsockname())] = BACKLOG_CALLS_MAX // 2
    for _ in range(BACKLOG_CALLS_MAX // 2):
        assert watch.has_call(said(ann))
    assert watch.look() == 0
    accepted.in_all[FarEnd(*eve.getsockname())] = BACKLOG_CALLS_MAX
    accepted.in_all[FarEnd(*ann.getsockname())] += CALLS_OF_CLIENT_MAX
    assert watch.look() == 0, "it may be a burst"
    assert watch.look() == 1
    assert alive([eve, ann]) == [False, True]
    assert not watch.has_call(said(eve))
    assert watch.look() == 0


def test_calls_that_are_gone_before_they_begin_are_faults(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.backlog.BACKLOG_ASKED_NS", 0)
    monkeypatch.setattr("leasehold.wire.backlog.BACKLOG_ASK_EACH_NS", 0)
    monkeypatch.setattr("leasehold.wire.backlog.BACKLOG_RECENT_NS", DAY_NS)
    monkeypatch.setattr("leasehold.wire.bans.BAN_PAUSE_NS", DAY_NS)
    monkeypatch.setattr("leasehold.wire.bans.SECOND_NS", DAY_NS)
    accepted = Counted()
    watch = PeerConnections(frozenset(doors.ports[:1]), per_peer_max=FEW, accepted=accepted)
    watch.close()
    eve, ann = doors.connect(0, 1)[0], doors.connect(0, 1, host="127.0.0.3")[0]
    assert watch.look() == 0
    for _ in range(2):
        accepted.in_all[FarEnd(*eve.getsockname())] += FAULTS_PER_SECOND_MAX + 1
        accepted.ended = accepted.in_all.copy()
        assert watch.look() == 0
    assert watch.look() == 1, "it has counted those of the second time"
    assert alive([eve, ann]) == [False, True]


def test_connections_with_calls_have_their_turn(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_bytes, "CONNECTION_UNREAD_BYTES_MAX", MUCH_BYTES)
    monkeypatch.setattr(connection_bytes, "CONNECTION_LOOK_BYTES", 1)
    monkeypatch.setattr(peer_connections, "A_CALL", connection_bytes.Accounted(MUCH_BYTES, MUCH_BYTES))
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

    def no_file(_self: OwnSockets, _number: int, _cookie: int) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="Too many open files"):
        patched.setattr(OwnSockets, "shut_down", no_file)
        watch.end_now()
    assert watch.end_now() == 1
    assert alive([ends]) == [False]
