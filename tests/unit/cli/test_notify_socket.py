"""What a process tells systemd, and when it tells nothing."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.cli.notify_socket import NotifySocket

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Its socket, which the environment names, with a watchdog of 20 ms."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address.replace("@", "\0", 1))
        receiver.setblocking(False)
        for name, value in zip(VARIABLES, (address, "20000", str(os.getppid())), strict=True):
            monkeypatch.setenv(name, value)
        yield receiver


def heard(receiver: socket.socket) -> list[str]:
    messages: list[str] = []
    while True:
        try:
            messages.append(receiver.recv(4096).decode())
        except BlockingIOError:
            return messages


async def test_what_is_sent_and_that_it_goes_on(systemd: socket.socket) -> None:
    one, loop = NotifySocket.of_this_process(), asyncio.get_running_loop()
    one.feed(loop)
    assert heard(systemd) == ["WATCHDOG=1\nEXTEND_TIMEOUT_USEC=20000"]
    one.ready()
    one.ready()
    assert heard(systemd) == ["READY=1"]
    for _ in range(3):
        await asyncio.wait_for(loop.sock_recv(systemd, 4096), 10)
    one.stopping()
    assert heard(systemd)[-1] == "STOPPING=1"


async def test_what_this_process_starts_is_not_watched(systemd: socket.socket) -> None:
    NotifySocket.of_this_process()
    assert not {*VARIABLES} & os.environ.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WATCHDOG_PID", "1"),  # neither this process nor its parent
        ("WATCHDOG_USEC", ""),
        ("WATCHDOG_USEC", "0"),
        ("WATCHDOG_USEC", "-1"),
        ("WATCHDOG_USEC", "1e6"),
        ("WATCHDOG_USEC", "1" * 12),
        ("WATCHDOG_USEC", "١٢٣"),
    ],
)
async def test_a_watchdog_that_is_not_ours_is_not_fed(
    name: str, value: str, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    one = NotifySocket.of_this_process()
    one.feed(asyncio.get_running_loop())
    one.ready()
    assert heard(systemd) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "vsock:2:1", "notify"])
async def test_without_a_socket_nothing_is_sent(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    one = NotifySocket.of_this_process()
    one.feed(asyncio.get_running_loop())
    one.ready()
    one.stopping()


async def test_a_systemd_that_does_not_read_or_is_gone_holds_nobody_up(systemd: socket.socket) -> None:
    one = NotifySocket.of_this_process()
    for _ in range(10_000):
        one.stopping()
    systemd.close()
    one.ready()
