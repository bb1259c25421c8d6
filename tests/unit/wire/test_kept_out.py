"""Peers whose connections the kernel keeps from a server."""

import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

import leasehold.wire.kept_out
from leasehold.limits.bans import KEPT_OUT_MAX
from leasehold.wire.kept_out import KeptOut, program
from leasehold.wire.peer_connections import peer_of

SOON_S = 0.1
WAIT_S = 60
BPF_STEPS_MAX = 4_096
"""Of a program that the kernel takes (linux/bpf_common.h)."""


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "::1", "::"])
def door(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    host = str(request.param)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as made:
        yield made


def comes_through(door: socket.socket, host: str) -> bool:
    """Whether somebody at this address of loopback gets a connection that the server takes."""
    there = "::1" if ":" in host else "127.0.0.1"
    door.settimeout(SOON_S)
    with contextlib.ExitStack() as stack, contextlib.suppress(TimeoutError):
        address = (there, door.getsockname()[1])
        near = stack.enter_context(socket.create_connection(address, timeout=SOON_S, source_address=(host, 0)))
        far, end = door.accept()
        stack.enter_context(far)
        return end[1] == near.getsockname()[1]
    return False


def senders(door: socket.socket) -> list[str]:
    """Addresses that can reach the door."""
    v4, v6 = ["127.0.0.2", "127.0.0.3"], ["::1"]
    host = door.getsockname()[0]
    return v4 + v6 if host == "::" else v6 if ":" in host else v4


def test_a_peer_is_kept_out_and_no_other_one(door: socket.socket) -> None:
    hosts = senders(door)
    kept_out = KeptOut([door.fileno()])
    assert [comes_through(door, one) for one in hosts * 4] == [True] * len(hosts) * 4, "nobody is kept out"
    others = [f"10.0.{number // 256}.{number % 256}" for number in range(100)] + ["2001:db8::/64"]
    for bad in hosts:
        peer = peer_of(bad)
        kept_out.replace(frozenset({peer, *others}))
        for _ in range(3):
            assert [comes_through(door, one) for one in hosts] == [one != bad for one in hosts]
    kept_out.replace(frozenset(others))
    assert [comes_through(door, one) for one in hosts * 2] == [True] * len(hosts) * 2
    kept_out.replace(frozenset({peer}))
    kept_out.close()
    assert [comes_through(door, one) for one in hosts] == [True] * len(hosts), "the door is as before"


def test_a_connection_that_waited_is_closed_in_the_end(door: socket.socket) -> None:
    host = senders(door)[0]
    kept_out = KeptOut([door.fileno()])
    kept_out.replace(frozenset({peer_of(host)}))
    address = ("::1" if ":" in host else "127.0.0.1", door.getsockname()[1])
    with socket.create_connection(address, timeout=WAIT_S, source_address=(host, 0)) as waiting:
        waiting.settimeout(SOON_S)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        kept_out.replace(frozenset())
        waiting.settimeout(WAIT_S)
        with contextlib.suppress(ConnectionResetError):
            assert waiting.recv(1) == b""
    kept_out.close()


def test_connections_that_linger_from_before_are_no_obstacle(door: socket.socket) -> None:
    address = door.getsockname()
    with socket.create_connection(address[:2]) as near:
        far, _ = door.accept()
        far.close()  # so it lingers at this end
        near.recv(1)
    door.close()
    with socket.create_server(address[:2], family=door.family, dualstack_ipv6=address[0] == "::") as again:
        hosts = senders(again)
        kept_out = KeptOut([again.fileno()])
        kept_out.replace(frozenset({peer_of(hosts[0])}))
        assert [comes_through(again, one) for one in hosts] == [one != hosts[0] for one in hosts]
        kept_out.close()


def test_no_other_process_can_listen_at_the_door(door: socket.socket) -> None:
    kept_out = KeptOut([door.fileno()])
    with socket.socket(door.family) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(door.getsockname())
    kept_out.close()


def test_the_kernel_takes_a_program_for_so_many(door: socket.socket) -> None:
    kept_out = KeptOut([door.fileno()])
    kept_out.replace(frozenset(f"2001:db8:{number:x}::/64" for number in range(2 * KEPT_OUT_MAX)))
    kept_out.close()
    assert len(program(f"2001:db8:{number:x}::/64" for number in range(KEPT_OUT_MAX))) // 8 <= BPF_STEPS_MAX


def test_as_many_are_kept_out_as_the_kernel_has_room_for(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = senders(door)
    kept_out, tried = KeptOut([door.fileno()]), []

    def with_little_room(beside: socket.socket, peers: frozenset[str]) -> None:
        tried.append(len(peers))
        if len(peers) > 1:
            raise OSError(errno.ENOMEM, "no room")
        choose(beside, peers)

    choose = leasehold.wire.kept_out._choose
    monkeypatch.setattr("leasehold.wire.kept_out._choose", with_little_room)
    kept_out.replace(frozenset(map(peer_of, (*hosts, "192.0.2.1", "192.0.2.2"))))
    kept_out.close()
    assert tried[-1] == 1


def test_where_the_kernel_can_not_everybody_comes_through(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.wire.kept_out._SO_ATTACH_REUSEPORT_CBPF", 9_999)
    hosts = senders(door)
    kept_out = KeptOut([door.fileno()])
    kept_out.replace(frozenset(map(peer_of, hosts)))
    assert [comes_through(door, one) for one in hosts * 4] == [True] * len(hosts) * 4
