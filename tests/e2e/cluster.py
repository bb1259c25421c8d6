"""A real cluster for tests: the processes that `leasehold up` starts, below a temporary directory."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import psutil

from leasehold.client.cluster import Cluster, connect
from leasehold.errors import Refused
from leasehold.local.process import Process
from leasehold.local.processes import LocalCluster


class RunningCluster:
    """A coordinator and its nodes, as processes; a context manager that ends them all."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.directory = local.directory

    @classmethod
    def start(cls, directory: Path, nodes: int = 3) -> Self:
        """Starts them and waits until every node holds a lease."""
        running = cls(LocalCluster(directory))
        try:
            running._command("up", "--nodes", str(nodes), "--detach")
        except BaseException:
            with contextlib.suppress(subprocess.CalledProcessError):
                running.stop()
            raise
        return running

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs, at once: an orderly stop takes a second, and tests that are about it ask for it."""
        processes = [self.local.coordinator, *(Process(one) for one in self.directory.glob("node-*") if one.is_dir())]
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
        self.local.node(name).signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.local.node(name).signal(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Starts a process that was killed, and waits until it serves again."""
        self._command("chaos", "start", name)
        self.wait_until_active()

    def stop(self) -> None:
        """In order: the leases are given back."""
        self._command("down")

    def _command(self, *words: str) -> None:
        """As a person would type it; the processes it starts are not children of the tests."""
        command = [sys.executable, "-m", "leasehold.cli.main", *words, "--dir", str(self.directory)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
