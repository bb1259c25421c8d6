"""Real members of etcd on loopback, for tests."""

import os
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_TRY_NS
from leasehold.local.ports import lasting_ports
from leasehold.metastorage.etcd.client import EtcdAccess, EtcdClient
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.wire.clock import BoottimeClock

ROOT = Path(__file__).parents[1]


@cache
def etcd_program() -> str:
    """The path of etcd; where there is none the test is skipped."""
    found = subprocess.run(["sh", ROOT / "tools/ensure-etcd"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"NO ETCD: {found.stderr}")
    return found.stdout.strip()


class EtcdServer:
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
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


class EtcdCluster:
    """Members that know each other; `arguments` are for each of them."""

    def __init__(self, folder: Path, count: int, arguments: Sequence[str] = (), *, scheme: str = "http") -> None:
        folder.mkdir(exist_ok=True)
        ports = lasting_ports(2 * count)
        peers = {f"m{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(ports[count:], 1)}
        self.servers: dict[str, EtcdServer] = {}
        for (name, peer), port in zip(peers.items(), ports[:count], strict=True):
            address = f"127.0.0.1:{port}"
            url = f"{scheme}://{address}"
            command = [
                etcd_program(),
                *("--name", name, "--data-dir", str(folder / name), "--initial-cluster-token", folder.name),
                *("--initial-cluster", ",".join(f"{one}={at}" for one, at in peers.items())),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--listen-client-urls", url, "--advertise-client-urls", url),
                *("--log-level", "warn"),
                *arguments,
            ]
            self.servers[name] = EtcdServer(address, command, folder / f"{name}.log")

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(one.address for one in self.servers.values())

    def start(self) -> None:
        for server in self.servers.values():
            server.start()

    def kill(self) -> None:
        for server in self.servers.values():
            server.kill()

    def store(
        self,
        prefix: str = "test",
        access: EtcdAccess | None = None,
        *,
        try_ns: int = STORE_TRY_NS,
        quota_bytes: int = STORE_QUOTA_BYTES,
    ) -> EtcdStore:
        clock = BoottimeClock()
        client = EtcdClient(access or EtcdAccess(endpoints=self.endpoints), clock, try_ns=try_ns)
        return EtcdStore(client, prefix, clock, quota_bytes=quota_bytes)
