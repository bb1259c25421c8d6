"""Machines that know each other by name, each with a folder of its own, for what people type on them."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from tests.netns.hosts import Hosts


class NamedHosts:
    """Hosts whose names all of them look up, below a directory with a folder for each; a context manager that ends what
    was started."""

    def __init__(self, directory: Path, *names: str) -> None:
        self._hosts = Hosts(*names)
        self._directory = directory
        self._names = names
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._hosts.__enter__()
        lines = [f"{self._hosts[name].address} {name}\n" for name in self._names]
        self._table.write_text("".join(["127.0.0.1 localhost\n", *lines]))
        for name in self._names:
            self.folder(name).mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._hosts.__exit__()

    @property
    def _table(self) -> Path:
        return self._directory / "hosts"

    def folder(self, name: str) -> Path:
        return self._directory / name

    def run(self, name: str, *command: str, variables: Mapping[str, str] | None = None) -> str:
        """What a command writes to stdout on this host, in its folder. It has to succeed."""
        done = subprocess.run(
            self._on(name, *command),
            cwd=self.folder(name),
            env=clean_environment() | dict(variables or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{name}: {command}\n{done.stdout}{done.stderr}{self._logs()}"
        return done.stdout

    def start(self, name: str, *command: str, variables: Mapping[str, str] | None = None) -> None:
        """Starts a process on this host, which has one at a time; its log is in the folder."""
        with (self.folder(name) / "log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                self._on(name, *command),
                cwd=self.folder(name),
                env=clean_environment() | dict(variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def popen(
        self, name: str, *command: str, variables: Mapping[str, str], stderr: IO[bytes]
    ) -> "subprocess.Popen[str]":
        """A command on this host that is talked to."""
        return subprocess.Popen(
            self._on(name, *command),
            cwd=self.folder(name),
            env=clean_environment() | dict(variables or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def _on(self, name: str, *command: str) -> list[str]:
        # `ip netns exec` gives each command mounts of its own, so this one ends with it.
        known = ("sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self._table))
        return self._hosts[name].command(*known, *command)

    def _logs(self) -> str:
        logs = sorted(self._directory.glob("*/log"))
        return "".join(f"\n{one.parent.name}: {one.read_text()[-2000:]}" for one in logs)


def clean_environment() -> dict[str, str]:
    """That of this process without what is of Leasehold."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("LEASEHOLD_", "ETCD_"))}
