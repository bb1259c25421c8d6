"""A driver of its own that writes what it is asked to; `test_write_faults.py` runs it, and kills it or its executors.

Arguments: the cluster, the master, and settings of Spark as JSON. Each line of its input is a `Write`, as JSON. It says
"ready" when it has its session, and after each write what it was told, as JSON.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
import psutil

from leasehold.spark import session
from tests.e2e.spark.held_writes import Places, held_write
from tests.e2e.spark.replaced_days import Mode, Told
from tests.e2e.spark.stream_job import SETTINGS
from tests.e2e.waiting import wait_until


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A write of the rows with the ids from `begin` to `end`."""

    name: str
    mode: Mode
    begin: int
    end: int
    files: bool
    tasks: int
    folder: str
    holds: str = ""
    only: str = ""


def main(cluster: str, master: str, settings: str) -> None:
    spark = session("writes", cluster=cluster, master=master, **SETTINGS, **msgspec.json.decode(settings))
    say("ready")
    for line in sys.stdin:
        asked = msgspec.json.decode(line, type=Write)
        places = Places(Path(asked.folder), asked.holds, asked.only)
        new = range(asked.begin, asked.end)
        told = held_write(
            spark, Path(cluster), places, asked.name, asked.mode, new, files=asked.files, tasks=asked.tasks
        )
        say(msgspec.json.encode(told).decode())


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Driver:
    """The process that runs this program, with Java and the Python processes of Spark; a context manager that ends
    them all."""

    def __init__(self, log: Path, cluster: Path, master: str, **settings: str) -> None:
        self._log = log
        words = (str(cluster), master, msgspec.json.encode(settings).decode())
        environment = {key: value for key, value in os.environ.items() if key not in {"SPARK_REMOTE", "SPARK_HOME"}}
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.spark.write_job", *words],
                env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )

    def __enter__(self) -> Self:
        assert self._heard() == "ready", self.log()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def ask(self, write: Write) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(write) + b"\n")
        self._process.stdin.flush()

    def told(self) -> Told:
        line = self._heard()
        assert line, self.log()
        return msgspec.json.decode(line, type=Told)

    def kill(self) -> None:
        """SIGKILL for the driver alone: Java ends by itself, and then what Java has started."""
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """SIGKILL for all of them."""
        for one in self._alive():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()
        self.wait_until_gone()

    def wait_until_gone(self) -> None:
        wait_until(lambda: not self._alive())

    def log(self) -> str:
        return self._log.read_text()[-4_000:]

    def _heard(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def _alive(self) -> list[psutil.Process]:
        """The processes of its session, in the sense of the kernel."""
        found: list[psutil.Process] = []
        for one in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(one.pid) == self._process.pid and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found


if __name__ == "__main__":
    main(*sys.argv[1:])
