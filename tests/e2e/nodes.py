"""Single node processes, each in a directory of its own, beside a cluster: started and ended as a supervisor would."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from leasehold.client.locate import KEY_FILE
from leasehold.core.words.messages import NodeStatus
from leasehold.core.words.operations import StoredProjection
from leasehold.core.words.records import IdentityRecord
from leasehold.limits.clients import RETRY_PAUSE_NS
from leasehold.local.files import ADDRESS_FILE, GOSSIP_FILE, read_address
from leasehold.local.wait import wait_until_active
from leasehold.vault.lock import LOCK_NAME
from leasehold.vault.store import FILE_NAME, SqliteVault
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran
from tests.e2e.template import Child, template

END_LIMIT_S = 60


BESIDE: Final = Path(KEY_FILE)
"""The key of the cluster that a node is started for, in its directory."""


class Node:
    """One process at a time on one directory; a context manager, so that none outlives its test."""

    def __init__(
        self,
        directory: Path,
        cluster: RunningCluster,
        *,
        name: str | None = None,
        logs: Path | None = None,
        key: Path | None = BESIDE,
    ) -> None:
        self._key = key
        self.directory = directory
        self.name = name or directory.name
        self._log = (logs or directory.parent) / f"{directory.name}.log"
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | Child | None = None
        self._address_before: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self.runs():
            self._process.kill()
            self._process.wait()

    def start(self, *, preexec: Callable[[], Any] | None = None, coordinator: str | None = None, **env: str) -> Self:
        """Begins a process; what it says goes to a log beside the directory."""
        address = coordinator or read_address(self._cluster.local.coordinator.directory)
        assert address is not None
        self._address_before = self._address_written()
        words = ["node", "start", "--name", self.name, "--dir", str(self.directory), "--coordinator", address]
        words += ["--listen", "127.0.0.1:0"]
        if self._key is not None:
            words += ["--cluster-key", str(self._cluster.directory / self._key)]
        with self._log.open("w") as log:
            if preexec is None:
                self._process = template().start(words, log, log, os.environ | env)
                return self
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leasehold.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | env,
                preexec_fn=preexec,  # noqa: PLW1509 no thread of the tests holds a lock then
            )
        return self

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ended(self) -> Ran:
        """How it ended by itself."""
        assert self._process is not None
        code = self._process.wait(END_LIMIT_S)
        return Ran(code, "", self.said())

    def said(self) -> str:
        return self._log.read_text()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> None:
        """In order: the lease is given back."""
        self.signal(signal.SIGTERM)
        assert self.ended().code == 0, self.said()

    def serves(self) -> Self:
        """Returns once it holds a lease under the address it listens on now."""
        while self._address_written() == self._address_before:
            self._check_runs()
        address = read_address(self.directory)
        assert address is not None
        with self._cluster.connect() as cluster:
            wait_until_active(cluster, {self.name: address}, lambda _: self._check_runs())
        return self

    def status(self) -> NodeStatus:
        """As the leader sees it."""
        with self._cluster.connect() as cluster:
            return next(one for one in cluster.status().nodes if one.name == self.name)

    def _address_written(self) -> tuple[int, int] | None:
        """Which file says where it listens: each process writes it anew."""
        file = self.directory / ADDRESS_FILE
        return (file.stat().st_ino, file.stat().st_mtime_ns) if file.exists() else None

    def _check_runs(self) -> None:
        """A pause, if it runs."""
        assert self._process is not None
        assert self._process.poll() is None, self.said()
        sleep_ns(RETRY_PAUSE_NS)


async def identity(directory: Path) -> IdentityRecord | None:
    """What a directory that nobody uses durably holds."""
    vault = await SqliteVault.open(directory)
    try:
        return await vault.identity()
    finally:
        await vault.close()


async def projection(directory: Path) -> StoredProjection:
    """What it has of the catalog."""
    vault = await SqliteVault.open(directory)
    try:
        return await vault.projection()
    finally:
        await vault.close()


def contents(directory: Path) -> dict[str, str]:
    """The hash of every file below it, but for those that say who looked last, and where it listened."""
    passing = {LOCK_NAME, ADDRESS_FILE, GOSSIP_FILE, f"{FILE_NAME}-shm"}
    files = (path for path in sorted(directory.rglob("*")) if path.is_file() and path.name not in passing)
    found = {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    if found.get(f"{FILE_NAME}-wal") == hashlib.sha256(b"").hexdigest():
        del found[f"{FILE_NAME}-wal"]  # SQLite's log, with nothing in it
    return found
