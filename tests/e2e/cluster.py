"""A real cluster for tests: the processes that `leasehold up` starts, started here, below a temporary directory."""

import contextlib
import shutil
import signal
from pathlib import Path
from typing import Self

import psutil

from leasehold.client.cluster import Cluster, connect
from leasehold.errors import LeaseholdError, Refused
from leasehold.local.members import LocalMembers
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster
from tests.e2e.waiting import wait_until


def threads_of(process: psutil.Process) -> list[Path]:
    """Where the kernel tells of each thread of a process and of those below it."""
    below = [process, *process.children(recursive=True)]
    return [thread for one in below for thread in Path(f"/proc/{one.pid}/task").iterdir()]


def is_stopped(thread: Path) -> bool:
    """Also if it has ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in {"T", "Z"}
    except FileNotFoundError:
        return True


class RunningCluster:
    """Coordinators, what they share, and nodes, as processes; a context manager that ends them all."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.directory = local.directory

    @classmethod
    def start(
        cls, directory: Path, nodes: int = 3, coordinators: int = 1, meta: str | None = None, *, tls: bool = False
    ) -> Self:
        """Starts them and waits until every node holds a lease. Most tests do without TLS, which costs time."""
        running = cls(LocalCluster(directory))
        try:
            running.local.up(nodes, coordinators, meta, tls=tls)
            running.wait_until_active()
        except BaseException:
            with contextlib.suppress(LeaseholdError):
                running.stop()
            raise
        return running

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs, at once: an orderly stop takes a second, and tests that are about it ask for it."""
        processes = [Process(one.parent) for one in self.directory.glob("*/pid")]
        for process in processes:
            with contextlib.suppress(Refused, psutil.NoSuchProcess):
                process.signal(signal.SIGKILL)
        for process in processes:
            process.wait_until_gone()

    def connect(self) -> Cluster:
        return connect(self.directory)

    def names(self) -> list[str]:
        return [process.name for process in self.local.nodes()]

    def wait_until_active(self) -> None:
        """Until every node holds a lease."""
        self.local.wait_until_active()

    def kill(self, name: str) -> None:
        """SIGKILL; returns once the process is gone."""
        process = self.local.node(name)
        process.signal(signal.SIGKILL)
        process.wait_until_gone()

    def pause(self, name: str) -> None:
        """SIGSTOP; returns once each thread has stopped. The kernel hands the signal to one of them, and the others go
        on until that one has a processor."""
        process = self.local.node(name).running()
        self.local.node(name).signal(signal.SIGSTOP)
        assert process is not None, "it has just taken a signal"
        wait_until(lambda: all(map(is_stopped, threads_of(process))))

    def resume(self, name: str) -> None:
        self.local.node(name).signal(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Starts a process that was killed, and waits until it serves again."""
        self.local.start(name)
        self.wait_until_active()

    def begin_store_anew(self) -> None:
        """Deletes what the members of the store hold, and starts them as those of a new cluster, which hold nothing."""
        members = LocalMembers(self.directory)
        for process in members.processes():
            shutil.rmtree(process.directory / "data")
        for process in members.processes():
            members.start(process, is_new=True)

    def stop(self) -> None:
        """In order: the leases are given back."""
        self.local.down()
