"""Connections of known peers wait in other queues than those of strangers."""

import contextlib
import errno
import select
import socket
from collections.abc import Iterator, Mapping

import pytest

import leasehold.wire.http2.known_queues
from leasehold.limits.http2 import KNOWN_QUEUES, QUEUED_PEERS_MAX
from leasehold.wire.http2.known_queues import KnownQueues, program
from leasehold.wire.http2.listening import _listening, listen_at_doors
from leasehold.wire.peers import peer_of

WAIT_S = 60
BPF_STEPS_MAX = 4_096
"""Of a program that the kernel takes (linux/bpf_common.h)."""


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "[::1]", "[::]"])
def door(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    _, (made, other) = listen_at_doors(f"{request.param}:0", with_tls=True)
    with made, other:
        yield made


@pytest.fixture
def queues(door: socket.socket) -> Iterator[KnownQueues]:
    made = KnownQueues(door)
    with contextlib.ExitStack() as stack:
        for one in made.sockets:
            stack.enter_context(one)
        yield made


def senders(door: socket.socket) -> list[str]:
    """Addresses that can reach the door."""
    v4, v6 = ["127.0.0.2", "127.0.0.3"], ["::1"]
    host = door.getsockname()[0]
    return v4 + v6 if host == "::" else v6 if ":" in host else v4


def queue_of(door: socket.socket, queues: KnownQueues, host: str) -> int:
    """In which one a connection from this address waits."""
    there = "::1" if ":" in host else "127.0.0.1"
    with socket.create_connection((there, door.getsockname()[1]), timeout=WAIT_S, source_address=(host, 0)) as near:
        there_are = (door, *queues.sockets)
        [found], _, _ = select.select(there_are, (), (), WAIT_S)
        far, end = found.accept()
        far.close()
        assert end[1] == near.getsockname()[1]
        return there_are.index(found)


def test_each_known_peer_waits_in_its_own_queue_and_all_others_at_the_door(
    door: socket.socket, queues: KnownQueues
) -> None:
    hosts = senders(door)
    assert len(queues.sockets) == KNOWN_QUEUES
    assert {queue_of(door, queues, one) for one in hosts * 4} == {0}, "nobody is known"
    others = {f"10.0.0.{number}": 1 for number in range(100)} | {"2001:db8::/64": 2}
    for number, host in enumerate(hosts, 1):
        queues.sort({**others, peer_of(host): number})
        for _ in range(3):
            assert [queue_of(door, queues, one) for one in hosts] == [number if one == host else 0 for one in hosts]
    queues.sort({peer_of(host): KNOWN_QUEUES for host in hosts})
    assert {queue_of(door, queues, one) for one in hosts} == {KNOWN_QUEUES}


@pytest.mark.parametrize("reuses", [False, True])
def test_another_program_at_the_door_gets_no_connection(door: socket.socket, queues: KnownQueues, reuses: bool) -> None:
    hosts = senders(door)
    with socket.socket(door.family) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not reuses:
            with pytest.raises(OSError, match="in use"):
                other.bind(door.getsockname())
            return
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if door.family == socket.AF_INET6:
            alone = door.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
        other.bind(door.getsockname())
        other.listen()
        queues.sort({peer_of(hosts[0]): 3})
        for _ in range(5):
            assert [queue_of(door, queues, one) for one in hosts] == [3, *[0] * (len(hosts) - 1)]


def test_connections_that_linger_from_before_are_no_obstacle(door: socket.socket) -> None:
    """They are at this end, as after a restart."""
    host, port = door.getsockname()[:2]
    there = "::1" if ":" in host else "127.0.0.1"
    with socket.create_connection((there, port), timeout=WAIT_S) as near:
        select.select([door], (), (), WAIT_S)
        door.accept()[0].close()
        assert near.recv(1) == b""
    door.close()
    with _listening(host, port) as again:
        queues = KnownQueues(again)
        assert len(queues.sockets) == KNOWN_QUEUES
        for one in queues.sockets:
            one.close()


def test_there_are_so_many_peers_in_a_program(door: socket.socket, queues: KnownQueues) -> None:
    assert len(program({f"2001:db8:{number:x}::/64": 1 for number in range(QUEUED_PEERS_MAX)})) // 8 <= BPF_STEPS_MAX
    host = senders(door)[0]
    many = {f"10.0.{number // 256}.{number % 256}": 1 for number in range(QUEUED_PEERS_MAX - 1)}
    queues.sort({**many, peer_of(host): 4})
    assert queue_of(door, queues, host) == 4, "the last one"
    queues.sort({**many, "192.0.2.1": 1, peer_of(host): 4})
    assert queue_of(door, queues, host) == 0, "one too many"


def test_as_many_are_sorted_as_the_kernel_has_room_for(
    door: socket.socket, queues: KnownQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def with_little_room(one: socket.socket, wanted: Mapping[str, int]) -> None:
        tried.append(len(wanted))
        if len(wanted) > 1:
            raise OSError(errno.ENOMEM, "no room")
        choose(one, wanted)

    choose = leasehold.wire.http2.known_queues._choose
    monkeypatch.setattr("leasehold.wire.http2.known_queues._choose", with_little_room)
    hosts = senders(door)
    queues.sort({peer_of(hosts[0]): 3, "192.0.2.1": 1, "192.0.2.2": 1})
    assert tried[-1] == 1
    assert queue_of(door, queues, hosts[0]) == 3


def test_where_the_kernel_can_not_all_wait_at_the_door(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.http2.known_queues._SO_ATTACH_REUSEPORT_CBPF", 9_999)
    queues = KnownQueues(door)
    assert not queues.sockets
    hosts = senders(door)
    queues.sort({peer_of(one): 1 for one in hosts})
    assert {queue_of(door, queues, one) for one in hosts * 4} == {0}
