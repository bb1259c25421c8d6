"""The sockets of this process, by the calls of the kernel."""

import contextlib
import errno
import os
import resource
import socket
import struct
from collections.abc import Iterator

import pytest

from leasehold.wire import own_sockets
from leasehold.wire.own_sockets import OwnSockets


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The end of a server and that of its client."""
    host = str(request.param)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = "::" if family is socket.AF_INET6 else host
    with socket.create_server((listening, 0), family=family, dualstack_ipv6=":" in host) as server:
        client = socket.create_connection((host.removeprefix("::ffff:"), server.getsockname()[1]))
        near, _ = server.accept()
        with client, near:
            yield near, client


def test_a_connection_is_told_as_python_tells_it(pair: tuple[socket.socket, socket.socket]) -> None:
    near, client = pair
    sockets = OwnSockets()
    number = near.fileno()
    assert sockets.far_end(number) == client.getsockname()[:2]
    assert sockets.port(number) == near.getsockname()[1]
    client.sendall(bytes(1_000))
    near.sendall(bytes(10))
    near.recv(1_000)
    client.recv(10)
    assert sockets.moved(number) == (10, 1_000)
    assert sockets.moved(client.fileno())[1] == 10
    found = {number: cookie for cookie, number in sockets.cookies()}
    assert {near.fileno(), client.fileno()} <= found.keys()
    assert found[near.fileno()] == sockets.cookie(near.fileno())


def test_what_is_no_connection_has_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    sockets = OwnSockets()
    with (tmp_path_factory.mktemp("files") / "file").open("w") as file:
        for number in (file.fileno(), 99_999):
            assert sockets.cookie(number) == 0
            assert sockets.far_end(number) is None
            assert sockets.port(number) == 0
            assert sockets.moved(number) == (0, 0)
        assert file.fileno() not in {number for _, number in sockets.cookies()}
    near, far = socket.socketpair()
    with near, far:
        assert sockets.cookie(near.fileno())
        assert sockets.far_end(near.fileno()) is None


def test_only_the_socket_that_is_meant_is_shut_down(pair: tuple[socket.socket, socket.socket]) -> None:
    near, client = pair
    sockets = OwnSockets()
    cookie = sockets.cookie(near.fileno())
    assert not sockets.shut_down(near.fileno(), cookie + 1)
    assert not sockets.shut_down(99_999, cookie)
    client.sendall(b"x")
    assert near.recv(1) == b"x"
    assert sockets.shut_down(near.fileno(), cookie)
    assert client.recv(1) == b""


@pytest.mark.parametrize("is_reset", [False, True])
def test_what_has_come_on_it_is_thrown_away(pair: tuple[socket.socket, socket.socket], is_reset: bool) -> None:
    near, client = pair
    sockets = OwnSockets()
    client.sendall(b"x")
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert near.recv(1, socket.MSG_PEEK) == b"x"
    assert sockets.shut_down(near.fileno(), sockets.cookie(near.fileno())) is not is_reset
    near.setblocking(False)
    with pytest.raises(OSError, match=r"not connected|reset"):
        near.recv(1)


def test_without_a_free_file_it_says_so(pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    sockets = OwnSockets()
    cookie = sockets.cookie(near.fileno())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            sockets.shut_down(near.fileno(), cookie)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_many_new_files_are_seen_look_by_look() -> None:
    sockets = OwnSockets()
    with contextlib.ExitStack() as opened:
        made = [opened.enter_context(socket.socket()) for _ in range(900)]
        wanted = {one.fileno() for one in made}
        for _ in range(1 + 900 // 256 + 1):
            seen = {number for _, number in sockets.cookies()}
        assert wanted <= seen


def test_sockets_behind_many_other_files_are_seen(tmp_path_factory: pytest.TempPathFactory) -> None:
    sockets = OwnSockets()
    path = tmp_path_factory.mktemp("files") / "file"
    path.touch()
    with contextlib.ExitStack() as opened:
        for _ in range(600):
            opened.enter_context(path.open())
        behind = opened.enter_context(socket.socket()).fileno()
        assert any(behind in {number for _, number in sockets.cookies()} for _ in range(5))


def test_without_cookies_a_socket_is_told_by_its_inode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sockets, "_HAS_COOKIES", False)
    sockets = OwnSockets()
    near, far = socket.socketpair()
    with near, far:
        assert sockets.cookie(near.fileno()) == os.fstat(near.fileno()).st_ino
        assert (sockets.cookie(far.fileno()), far.fileno()) in set(sockets.cookies())
    assert sockets.cookie(99_999) == 0


def test_what_listens_is_found_behind_many_files() -> None:
    with contextlib.ExitStack() as held:
        for _ in range(own_sockets._NEW_FILES + 20):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        client = held.enter_context(socket.create_connection(("127.0.0.1", port)))
        near, _ = server.accept()
        held.enter_context(near)
        assert OwnSockets().listening(frozenset({port, client.getsockname()[1]})) == [server.fileno()]
