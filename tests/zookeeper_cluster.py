"""Real members of ZooKeeper on loopback, for tests."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kazoo.client import KazooClient

from leasehold.errors import BadSettings
from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_TRY_NS
from leasehold.local.engine import LocalMember
from leasehold.local.ports import lasting_ports
from leasehold.local.zookeeper import CONFIGURATION, find_jars, write_member, zookeeper_command
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.zookeeper.client import ZooKeeperClient
from leasehold.metastorage.zookeeper.layout import Layout
from leasehold.metastorage.zookeeper.store import ZooKeeperStore
from leasehold.wire.clock import BoottimeClock
from tests.conformance.store_words import until_it_answers
from tests.needs import lacking
from tests.store_server import StoreServer

ROOT = Path(__file__).parents[1]


@cache
def jars() -> list[Path]:
    """Those of ZooKeeper; where they or Java are missing see `lacking`."""
    java = subprocess.run(["sh", ROOT / "tools/ensure-java"], capture_output=True, text=True, check=False)
    if java.returncode:
        lacking(f"NO JAVA: {java.stderr}")
    try:
        return find_jars()
    except BadSettings as error:
        lacking(f"NO ZOOKEEPER: {error.text}")


class ZooKeeperCluster:
    """Members that know each other; `settings` are for each of them. Secure ones speak TLS with clients."""

    def __init__(
        self,
        folder: Path,
        count: int,
        settings: Mapping[str, str] | None = None,
        *,
        is_secure: bool = False,
        more_jars: Sequence[Path] = (),
    ) -> None:
        ports = iter(lasting_ports(3 * count))
        members = {
            f"m{number}": LocalMember(client=next(ports), peer=next(ports), election=next(ports))
            for number in range(1, count + 1)
        }
        self.servers: dict[str, StoreServer] = {}
        for name, member in members.items():
            write_member(folder / name, members, settings)
            if is_secure:
                configuration = folder / name / CONFIGURATION
                configuration.write_text(configuration.read_text().replace("clientPort", "secureClientPort"))
            command = zookeeper_command(folder / name, [*jars(), *more_jars])
            address = f"127.0.0.1:{member.client}"
            self.servers[address] = StoreServer(address, command, folder / f"{name}.log")

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(self.servers)

    def start(self) -> None:
        """Returns once most of them work together."""
        self.start_members()
        asyncio.run(self._answer())

    def start_members(self) -> None:
        for server in self.servers.values():
            server.start()

    async def _answer(self) -> None:
        store = self.store("waited-for")
        await until_it_answers(store)
        await store.close()

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
    ) -> ZooKeeperStore:
        layout = Layout(prefix)
        access = access or StoreAccess(endpoints=self.endpoints)
        client = ZooKeeperClient(access, layout.root, BoottimeClock(), try_ns=try_ns)
        return ZooKeeperStore(client, layout, quota_bytes=quota_bytes)


@contextmanager
def administrator(cluster: ZooKeeperCluster) -> Iterator[KazooClient]:
    kazoo = KazooClient(hosts=",".join(cluster.endpoints), timeout=60)
    kazoo.start(timeout=60)
    try:
        yield kazoo
    finally:
        kazoo.stop()
        kazoo.close()
