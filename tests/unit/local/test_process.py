"""Whether a process on this machine runs."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

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
