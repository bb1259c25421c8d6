"""Whether a process on this machine runs."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from leasehold.errors import BadDirectory
from leasehold.local.process import Identity, Process

ONE_THREAD_LEFT = """\
import ctypes, threading

threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a process there whose first thread has ended is seen as such")
def test_a_process_runs_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    """Killed, its first thread may end before the others do: until then they hold its locks."""
    with subprocess.Popen([sys.executable, "-c", ONE_THREAD_LEFT]) as child:
        known = psutil.Process(child.pid)
        (tmp_path / "pid").write_bytes(msgspec.json.encode(Identity(pid=child.pid, started=known.create_time())))
        while known.status() != psutil.STATUS_ZOMBIE:
            os.sched_yield()
        by_a_thread = Process(tmp_path).running()
        child.kill()
        while known.num_threads() > 1:
            os.sched_yield()
        assert Process(tmp_path).running() is None
    assert by_a_thread is not None


def test_a_damaged_pid_file_names_no_process(tmp_path: Path) -> None:
    for content in (b"", b"[" * 5_000, b'{"x": ' + b"[" * 100_000, b'{"pid": "\xff"}'):
        (tmp_path / "pid").write_bytes(content)
        assert Process(tmp_path).running() is None
    (tmp_path / "pid").unlink()
    os.mkfifo(tmp_path / "pid")
    with pytest.raises(BadDirectory, match="is not a file"):
        Process(tmp_path).running()


def test_progress_is_cpu_time_or_a_line_in_the_log(tmp_path: Path) -> None:
    known = psutil.Process()
    (tmp_path / "pid").write_bytes(msgspec.json.encode(Identity(pid=known.pid, started=known.create_time())))
    process = Process(tmp_path)
    times, written = process.used()
    process.log.write_text("a line\n")
    assert process.used()[1] != written
    while known.cpu_times()[:2] == times:
        pass  # this process is the one that works
    assert process.used()[0] != times


TWO = ["/bin/sh", "-c", "sleep 1000 & echo up; wait"]
"""A process with a child, as a supervisor and what it watches."""


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Process, psutil.Process]]:
    """Such a process, and its child."""
    process = Process(tmp_path / "one")
    process.run(TWO)
    while process.first_words() != "up\n":
        os.sched_yield()
    running = process.running()
    assert running is not None
    (child,) = running.children()
    yield process, child
    process.stop()
    with contextlib.suppress(psutil.NoSuchProcess):
        child.kill()


def test_a_kill_reaches_a_supervisor_and_its_child_at_once(both: tuple[Process, psutil.Process]) -> None:
    process, child = both
    process.signal(signal.SIGKILL)
    assert process.wait_until_gone()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_the_child_alone_is_killed_also_while_both_are_paused(both: tuple[Process, psutil.Process]) -> None:
    process, child = both
    process.signal(signal.SIGSTOP)
    while not (process.is_paused() and child.status() == psutil.STATUS_STOPPED):
        os.sched_yield()
    process.kill_below_supervisor()
    assert process.wait_until_gone(), "a shell ends once its child has"
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_what_a_supervisor_that_was_killed_leaves_behind_is_waited_for(both: tuple[Process, psutil.Process]) -> None:
    process, child = both
    supervisor = process.running()
    assert supervisor is not None
    child.suspend()  # it can't end by itself
    supervisor.kill()
    gone = threading.Thread(target=process.wait_until_gone)
    gone.start()
    while process.running() is not None:
        os.sched_yield()
    assert gone.is_alive(), "its files are still in use"
    child.kill()
    gone.join()
