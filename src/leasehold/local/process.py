"""One process of a cluster on this machine, by its directory: started, signalled, watched, ended.

Each has a session and so a process group of its own. A node or a coordinator runs under a supervisor
(`cli/supervisor.py`): the pid file names the supervisor, and both are in the group. A signal to the group reaches both
at once, as if the machine had failed.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import psutil

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Refused
from leasehold.limits.processes import CLUSTER_FILE_BYTES_MAX, END_POLL_NS, STOP_WAIT_NS
from leasehold.local.files import ADDRESS_FILE, GOSSIP_FILE, make_directory, write_whole
from leasehold.private_files import read_if_there
from leasehold.vault.faults import VARIABLE as FAULT
from leasehold.wire.clock import BoottimeClock, sleep_ns

_LOG_TAIL_BYTES = 4096
_LOG_HEAD_BYTES: Final = 64 * 1024
_SHELL: Final = "/bin/sh"
_WHEN_RELEASED: Final = 'read -r _ && exec "$@" </dev/null'
"""Becomes the process, with the same pid, as soon as it reads a line; exits if stdin ends before."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The process that a pid file names: the kernel may give the pid alone to another process."""

    pid: int
    started: float


class Process:
    """One process of a local cluster, by its directory; it may be running or not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name
        self.log = directory / "log"
        """Its stdout and stderr."""
        self._log_began = 0

    def running(self) -> psutil.Process | None:
        """The live process, or None; its supervisor, if it has one. A zombie is alive only while one of its threads
        runs, since that holds locks."""
        known = self._identity()
        if known is None:
            return None
        try:
            process = psutil.Process(known.pid)
            ended = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
            same = process.create_time() == known.started
        except psutil.NoSuchProcess:
            return None
        if ended and same:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(known.pid, os.WNOHANG)  # reaps it if it is a child of this process
        return process if same and not ended else None

    def worker(self) -> psutil.Process | None:
        """The live process below its supervisor; that of the pid file, if it has none."""
        process = self.running()
        with contextlib.suppress(psutil.NoSuchProcess):
            return process and next(iter(process.children()), process)
        return None

    def start(self, arguments: list[str]) -> None:
        """Starts it as `leasehold` with these arguments; see `run`."""
        self.run([sys.executable, "-m", "leasehold.cli.main", *arguments])

    def run(self, command: list[str]) -> None:
        """Starts it in a session of its own, so that it outlives this process; returns at once. Raises
        `BadDirectory`."""
        make_directory(self.directory)
        for name in (ADDRESS_FILE, GOSSIP_FILE):
            (self.directory / name).unlink(missing_ok=True)
        self._log_began = self.log.stat().st_size if self.log.exists() else 0
        # It begins only once its pid file is written: a process without a pid file would never be found again.
        held, release = os.pipe()
        try:
            pid = spawn(held, self.log, command, _without_ours(os.environ))
            # The pid can't mean another process yet: a child that has ended keeps it until it is reaped.
            identity = Identity(pid=pid, started=psutil.Process(pid).create_time())
            write_whole(self.directory / "pid", msgspec.json.encode(identity))
            os.write(release, b"\n")
        finally:
            os.close(held)
            os.close(release)

    def check_runs(self) -> None:
        """Raises `Refused` with its last words if it has ended."""
        if self.running() is None:
            raise Refused(
                f"{self.name} ended at once: {self.last_words()}",
                code=ErrorCode.DID_NOT_START,
                hint=f"{self._last_hint()}the whole log is {self.log}",
            )

    def used(self) -> tuple[object, int]:
        """CPU times and log size: they change whenever the process makes progress."""
        process = self.worker()
        try:
            times = None if process is None else process.cpu_times()[:2]
        except psutil.NoSuchProcess:
            times = None
        return times, self.log.stat().st_size if self.log.exists() else 0

    def is_paused(self) -> bool:
        process = self.running()
        return process is not None and process.status() == psutil.STATUS_STOPPED

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal: SIGTERM to the supervisor, which passes it on, and others to the whole group. Raises
        `Refused` if it does not run."""
        process = self._must_run()
        if number in {signal.SIGTERM, signal.SIGINT}:
            process.send_signal(number)
            return
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError as error:
            raise psutil.NoSuchProcess(process.pid) from error

    def kill_below_supervisor(self) -> None:
        """SIGKILL of the process alone, so that its supervisor, if it has one, sees it end. Raises `Refused` if it does
        not run."""
        process = self._must_run()
        with contextlib.suppress(psutil.NoSuchProcess):
            (self.worker() or process).kill()
            process.send_signal(signal.SIGCONT)  # a supervisor that is paused would not see it

    def _must_run(self) -> psutil.Process:
        process = self.running()
        if process is None:
            raise Refused(
                f"{self.name} does not run",
                code=ErrorCode.NOT_RUNNING,
                hint=f"start it with `leasehold chaos start {self.name}`",
            )
        return process

    def wait_until_gone(self) -> bool:
        """Returns once the process has ended, with all of its group; False if it has not within STOP_WAIT_NS."""
        clock = BoottimeClock()
        deadline_ns = clock.now_ns() + STOP_WAIT_NS
        while self.running() is not None or self._has_rest():
            if clock.now_ns() >= deadline_ns:
                return False
            sleep_ns(END_POLL_NS)
        return True

    def _has_rest(self) -> bool:
        """Whether a process of the group still runs, now that the one that the pid file names has ended."""
        known = self._identity()
        if known is None:
            return False
        try:
            os.killpg(known.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return any(_is_alive_in(one, known.pid) for one in psutil.process_iter())

    def _identity(self) -> Identity | None:
        """The process that the pid file names; None if that file is missing or damaged."""
        file = self.directory / "pid"

        def refused(text: str, hint: str) -> BadDirectory:
            return BadDirectory(f"{file} {text}", hint=hint)

        content = read_if_there(file, CLUSTER_FILE_BYTES_MAX, refused, "check what has this path, and its permissions")
        try:
            return None if content is None else msgspec.json.decode(content, type=Identity)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return None

    def stop(self) -> None:
        """Ends it by SIGTERM, and by SIGKILL if that takes too long."""
        with contextlib.suppress(Refused, psutil.NoSuchProcess):
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            if not self.wait_until_gone():
                self.signal(signal.SIGKILL)
                self.wait_until_gone()

    def first_words(self) -> str:
        """The beginning of its log since `start`, if this object started it."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as log:
            log.seek(self._log_began)
            return log.read(_LOG_HEAD_BYTES).decode("utf-8", "replace")
        return ""

    def last_words(self) -> str:
        """The error that ended it, else the last line of its log; since `start`, if this object started it."""
        lines = self._last_lines()
        errors = [line for line in lines if line.startswith("error [")]
        return (errors or lines or ["it left no log"])[-1]

    def _last_hint(self) -> str:
        hints = [line.removeprefix("hint: ") for line in self._last_lines() if line.startswith("hint: ")]
        return f"{hints[-1]}; " if hints else ""

    def _last_lines(self) -> list[str]:
        try:
            with self.log.open("rb") as log:
                log.seek(max(self._log_began, self.log.stat().st_size - _LOG_TAIL_BYTES))
                return [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        except FileNotFoundError:
            return []


def _is_alive_in(process: psutil.Process, group: int) -> bool:
    try:
        if os.getpgid(process.pid) != group:
            return False
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def spawn(held: int, log: Path, command: list[str], environment: Mapping[str, str]) -> int:
    """Starts a command as soon as a line comes from `held`; returns its pid. Its stdout and stderr go to `log`."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        _SHELL,
        [_SHELL, "-c", _WHEN_RELEASED, _SHELL, *command],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, held, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],  # a child that inherits blocked signals could not be stopped
    )


def _without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without Leasehold's own variables: they are meant for the command that a person types."""
    return {key: value for key, value in environment.items() if not key.startswith("LEASEHOLD_") or key == FAULT}
