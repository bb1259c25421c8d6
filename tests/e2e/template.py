"""Starts `leasehold` by forking a process that has imported its code: a test run starts hundreds of processes, and
importing is nearly all of what a start costs. What is forked goes on as `python -m leasehold.cli.main` does.

What README.md tells people to type, what a typed `leasehold up` starts, and tests of a start itself begin from nothing.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from leasehold.cli.entry import end_quietly_on_interrupt
from leasehold.cli.main import main
from leasehold.local.process import spawn

ORDER_BYTES_MAX: Final = 2**18
PROGRAM: Final = """#!{python} -IS
import json, os, socket, sys
template = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
template.connect({path!r})
order = json.dumps({{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}})
socket.send_fds(template, [order.encode()], [1, 2, 0])
code = int(template.recv(16))
sys.exit(code if code >= 0 else 128 - code)
"""
"""A `leasehold` for shells: it lends its streams to a process that the template forks, and ends with its exit code."""
IMPORTED: Final = (
    "leasehold.cli.serve_coordinator",
    "leasehold.cli.serve_node",
    "leasehold.cli.sql",
    "leasehold.cli.query",
    "pandas",  # which Arrow imports with the first rows that it handles
    "rich.table",
)
"""With these a process has all but what a few commands need."""


class Child:
    """A process that was forked, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, ended: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            with self._ended:
                self.returncode = int(self._ended.recv(16))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing is sent to one that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def forget(self) -> None:
        """Nobody asks how it ends."""
        self._ended.close()


class Template:
    """The process that is forked; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = tempfile.TemporaryDirectory()
        path = f"{self._folder.name}/template"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, listener:
            listener.bind(path)
            listener.listen()
            passed = [its.fileno(), listener.fileno()]
            words = [sys.executable, "-m", "tests.e2e.template", *map(str, passed)]
            nothing = subprocess.DEVNULL
            self._process = subprocess.Popen(words, stdin=nothing, stdout=nothing, pass_fds=passed)
        self.programs = Path(self._folder.name, "bin")
        """A folder for the PATH of shells, with a `leasehold` that is forked."""
        self.programs.mkdir()
        program = self.programs / "leasehold"
        program.write_text(PROGRAM.format(python=sys.executable, path=path))
        program.chmod(0o700)

    def close(self) -> None:
        """Ends it; what it has started goes on."""
        self._orders.close()
        self._process.wait()
        self._folder.cleanup()

    def start(
        self, words: Sequence[str], out: IO[Any], err: IO[Any], env: Mapping[str, str], *, held: int | None = None
    ) -> Child:
        """Runs `leasehold` with these words. Its stdout goes to `out`, its stderr to `err`.

        With `held` it waits until a line comes from that descriptor, and it begins in a session of its own.
        """
        ended, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = {"words": words, "env": dict(env), "cwd": str(Path.cwd())}
        descriptors = [its.fileno(), out.fileno(), err.fileno(), *([] if held is None else [held])]
        with its, self._lock:
            socket.send_fds(self._orders, [json.dumps(order).encode()], descriptors)
            return Child(int(self._orders.recv(16)), ended)

    def spawn(self, held: int, log: Path, command: list[str], environment: Mapping[str, str]) -> int:
        """As `leasehold.local.process.spawn`."""
        if command[1:3] != ["-m", "leasehold.cli.main"]:
            return spawn(held, log, command, environment)
        with log.open("ab") as out:
            child = self.start(command[3:], out, out, environment, held=held)
        child.forget()
        return child.pid


@functools.cache
def template() -> Template:
    """That of this test run."""
    made = Template()
    atexit.register(made.close)
    return made


# ---------------------------------------------------------------- the process itself


class _Children:
    """Those that are not reaped: whom to tell how they ended."""

    def __init__(self) -> None:
        self._told: dict[int, socket.socket] = {}
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        self.woken = woken
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def add(self, pid: int, told: socket.socket) -> None:
        self._told[pid] = told

    def reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.woken.recv(4096)
        for pid, status in _ended():
            with self._told.pop(pid) as told, contextlib.suppress(OSError):  # nobody may want to know
                told.send(str(os.waitstatus_to_exitcode(status)).encode())


def _ended() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _serve(orders: socket.socket, shells: socket.socket) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    # Those of numpy and of Arrow's allocator are native: both libraries mend themselves after a fork.
    assert threading.active_count() == 1, "a thread would be missing in what is forked"
    gc.freeze()
    children = _Children()
    while True:
        ready, _, _ = select.select([orders, shells, children.woken], [], [])
        if children.woken in ready:
            children.reap()
        if shells in ready:
            told, _ = shells.accept()
            text, streams, _, _ = socket.recv_fds(told, ORDER_BYTES_MAX, 3)
            children.add(_fork(text, streams[:2], stdin=streams[2]), told)
        if orders in ready:
            text, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 4)
            if not text:
                return
            told_number, *streams = descriptors
            pid = _fork(text, streams[:2], held=streams[2] if streams[2:] else None)
            orders.send(str(pid).encode())
            children.add(pid, socket.socket(fileno=told_number))


def _fork(order: bytes, streams: Sequence[int], *, held: int | None = None, stdin: int | None = None) -> int:
    """Starts what is ordered, and closes the descriptors here."""
    if not (pid := os.fork()):
        _become(json.loads(order), *streams, held, stdin)
    for one in (*streams, held, stdin):
        if one is not None:
            os.close(one)
    return pid


def _become(order: dict[str, Any], stdout: int, stderr: int, held: int | None, stdin: int | None) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if stdin is not None:
        os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    if held is not None:
        os.setsid()
        if not os.read(held, 1):
            os._exit(1)
    # Those of the template know of files that can seek.
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.closerange(3, 1024)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    random.seed()
    sys.argv = ["leasehold", *order["words"]]
    end_quietly_on_interrupt()
    main()
    os._exit(0)


if __name__ == "__main__":
    _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
