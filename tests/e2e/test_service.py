"""Processes as systemd starts them: with a socket on which they tell it that they serve, run and stop."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from leasehold.local.files import read_address
from tests.e2e.command import command
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.processes

WATCHDOG_S = 0.5
WORDS = {
    "coordinator": ("coordinator", "--restart", "never", "--listen", "127.0.0.1:0"),
    # It listens, and goes on asking a coordinator that is not there.
    "node": ("node", "start", "--restart", "never", "--listen", "127.0.0.1:0", "--coordinator", "127.0.0.1:1"),
}


class Systemd:
    """A process below its supervisor, and what it tells; a context manager that ends both."""

    def __init__(self, role: str, directory: Path) -> None:
        self.directory = directory / role
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{directory}" if role == "node" else str(directory / "notify"))
        address = f"@{directory}" if role == "node" else str(directory / "notify")
        told = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1_000_000))}
        words = [
            "sh",
            "-c",
            'export WATCHDOG_PID=$$; exec "$@"',
            "sh",
            *command(*WORDS[role], directory=self.directory),
        ]
        self.supervisor = subprocess.Popen(words, env=os.environ | told, stdin=subprocess.DEVNULL)

    def __enter__(self) -> "Systemd":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.supervisor.poll() is None:
            for child in psutil.Process(self.supervisor.pid).children():
                child.kill()
            self.supervisor.kill()
        self.supervisor.wait()
        self._socket.close()

    def child(self) -> psutil.Process:
        (child,) = psutil.Process(self.supervisor.pid).children()
        return child

    def hears(self, seconds: float = 60) -> str:
        """The next message. Raises `TimeoutError`."""
        self._socket.settimeout(seconds)
        return self._socket.recv(4096).decode()

    def hears_until(self, message: str) -> list[str]:
        """The messages before this one."""
        return [*iter(self.hears, message)]

    def forget(self) -> None:
        """What was told before does not count."""
        self._socket.setblocking(False)
        while True:
            try:
                self._socket.recv(4096)
            except BlockingIOError:
                return


@pytest.fixture(params=WORDS)
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    with Systemd(request.param, tmp_path) as running:
        yield running


def test_a_process_tells_that_it_serves_runs_and_stops(systemd: Systemd) -> None:
    before = systemd.hears_until("READY=1")
    assert {*before} == {"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=500000"}, "it starts, and takes the time that it needs"
    host, _, port = (read_address(systemd.directory) or "").rpartition(":")
    socket.create_connection((host, int(port)), timeout=10).close()
    assert [systemd.hears() for _ in range(3)] == 3 * ["WATCHDOG=1"]

    # Nobody feeds the watchdog for a process that hangs.
    child = systemd.child()
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: child.status() == psutil.STATUS_STOPPED)
    systemd.forget()
    with pytest.raises(TimeoutError):
        systemd.hears(3 * WATCHDOG_S)
    child.send_signal(signal.SIGCONT)
    assert systemd.hears() == "WATCHDOG=1"

    systemd.supervisor.terminate()
    assert {*systemd.hears_until("STOPPING=1")} <= {"WATCHDOG=1"}
    assert systemd.supervisor.wait(30) == 0
