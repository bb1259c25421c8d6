"""A process of an engine, for tests."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


class StoreServer:
    """One member's process."""

    def __init__(self, address: str, command: Sequence[str], log: Path) -> None:
        self.address = address
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None
        # What the shell sets for etcd is not for these.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Returns once no thread of it runs: on a busy machine that takes a while."""
        self.signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
