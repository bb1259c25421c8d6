"""Real members of etcd on loopback, for tests."""

import subprocess
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_TRY_NS
from leasehold.local.ports import lasting_ports
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.wire.clock import BoottimeClock
from tests.needs import lacking
from tests.store_server import StoreServer

ROOT = Path(__file__).parents[1]


@cache
def etcd_program(name: str = "etcd") -> str:
    """The path of etcd, or of its tool `etcdctl`; where there is none see `lacking`."""
    found = subprocess.run(["sh", ROOT / "tools/ensure-etcd", name], capture_output=True, text=True, check=False)
    if found.returncode:
        lacking(f"NO {name.upper()}: {found.stderr}")
    return found.stdout.strip()


class EtcdCluster:
    """Members that know each other; `arguments` are for each of them."""

    def __init__(self, folder: Path, count: int, arguments: Sequence[str] = (), *, scheme: str = "http") -> None:
        folder.mkdir(exist_ok=True)
        ports = lasting_ports(2 * count)
        peers = {f"m{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(ports[count:], 1)}
        self.servers: dict[str, StoreServer] = {}
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
            self.servers[name] = StoreServer(address, command, folder / f"{name}.log")

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
        access: StoreAccess | None = None,
        *,
        try_ns: int = STORE_TRY_NS,
        quota_bytes: int = STORE_QUOTA_BYTES,
    ) -> EtcdStore:
        client = EtcdClient(access or StoreAccess(endpoints=self.endpoints), BoottimeClock(), try_ns=try_ns)
        return EtcdStore(client, prefix, quota_bytes=quota_bytes)


def one_and_three_members(*, marks_of_one: pytest.MarkDecorator | Collection[pytest.MarkDecorator] = ()):
    """A fixture for the `cluster` of a module: one member, then three. The marks are for the tests with one member."""
    counts = [pytest.param(1, id="one-member", marks=marks_of_one), pytest.param(3, id="three-members")]

    @pytest.fixture(scope="module", params=counts)
    def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
        cluster = EtcdCluster(tmp_path_factory.mktemp("etcd"), request.param)
        cluster.start()
        yield cluster
        cluster.kill()

    return cluster
