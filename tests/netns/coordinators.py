"""Three coordinators that share a store of three members, and two nodes, each on a host of its own."""

from pathlib import Path
from typing import Any

from leasehold.core.questions.coordinators import COLUMNS
from leasehold.local.engine import LocalMember
from leasehold.local.zookeeper import write_member, zookeeper_command
from tests.etcd_cluster import etcd_program
from tests.netns.cluster import CLIENT, PORT, NetworkCluster
from tests.netns.remote import Failed, wait_until
from tests.zookeeper_cluster import jars

STORES = ("store-1", "store-2", "store-3")
STORE_PORT = 7401
MEMBER = LocalMember(client=STORE_PORT, peer=STORE_PORT + 1, election=STORE_PORT + 2)
ENGINES = ("etcd", "zookeeper")


class CoordinatorsNetwork(NetworkCluster):
    """A context manager."""

    coordinators = ("coordinator-1", "coordinator-2", "coordinator-3")
    nodes = ("node-1", "node-2")
    scanned = ("node-1",)
    beside = STORES
    moved: frozenset[str] = frozenset()
    """Nodes that listen at another port than at first."""

    def __init__(self, directory: Path, engine: str) -> None:
        super().__init__(directory)
        assert engine in ENGINES
        self.engine = engine

    def address(self, name: str) -> str:
        return f"{self.hosts[name].address}:{PORT + 10 if name in self.moved else PORT}"

    def _start_beside(self) -> None:
        for name in STORES:
            self.start(name)

    def start(self, name: str) -> None:
        if name not in STORES:
            super().start(name)
        elif self.engine == "etcd":
            self._spawn(name, *self._etcd(name))
        else:
            self._spawn(name, *self._zookeeper(name))

    def _etcd(self, name: str) -> list[str]:
        urls = {one: f"http://{self.hosts[one].address}:{MEMBER.peer}" for one in STORES}
        client = f"http://{self.hosts[name].address}:{MEMBER.client}"
        return [
            etcd_program(),
            *("--name", name, "--data-dir", str(self.directory / name), "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", urls[name], "--initial-advertise-peer-urls", urls[name]),
            *("--initial-cluster", ",".join(f"{one}={url}" for one, url in urls.items())),
        ]

    def _zookeeper(self, name: str) -> list[str]:
        here = {
            f"server.{number}": f"{self.hosts[one].address}:{MEMBER.peer}:{MEMBER.election}"
            for number, one in enumerate(STORES, 1)
        }
        here["clientPortAddress"] = self.hosts[name].address
        write_member(self.directory / name, dict.fromkeys(STORES, MEMBER), here)
        return zookeeper_command(self.directory / name, jars())

    def _words(self, name: str) -> list[str]:
        if name in self.coordinators:
            number = self.coordinators.index(name)
            return ["--meta", self.meta(*STORES[number:], *STORES[:number])]  # each asks another one first
        # One is enough: it learns of the others.
        return ["--name", name, "--coordinator", self.address(self.coordinators[0])]

    def meta(self, *members: str) -> str:
        """Where the log is: members in the order in which they are asked."""
        return f"{self.engine}://{','.join(map(self.member_address, members))}/net"

    def member_address(self, store: str) -> str:
        """Where a member of the store listens for coordinators."""
        return f"{self.hosts[store].address}:{MEMBER.client}"

    def _heal_beside(self) -> None:
        pass

    def move(self, node: str) -> None:
        """A node that does not run listens at another address from now on."""
        self.moved ^= {node}

    def cut_store_off(self, name: str, *, to: bool = True, back: bool = True) -> None:
        """Nothing passes from `name` to any member of the store, nor back, as it is said."""
        for member in STORES:
            if to:
                self.hosts.cut(name, member)
            if back:
                self.hosts.cut(member, name)

    def shown(self) -> dict[Any, dict[str, Any]]:
        """SHOW COORDINATORS by name; empty while nobody answers."""
        try:
            rows = self.query("SHOW COORDINATORS")
        except Failed:
            return {}
        return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows}

    def roles(self) -> dict[str, str]:
        """Name to role, as the leader sees them; empty while nobody answers."""
        return {name: row["role"] for name, row in self.shown().items()}

    def member_of(self, coordinator: str) -> str | None:
        """The member of the store that a coordinator asks first; None while nobody tells."""
        told = self.shown().get(coordinator, {}).get("store_member")
        return next((one for one in STORES if self.member_address(one) == told), None)

    def leading_member(self) -> str | None:
        """The member of the store that leads it, once all say the same."""
        found = self._remotes[CLIENT].call("leading_members", meta=self.meta(*STORES))
        return next((one for one in STORES if [self.member_address(one)] == found), None)

    def wait_until_whole(self) -> None:
        """Until one leads, the others follow, and the nodes serve."""
        wait_until(
            lambda: sorted(self.roles().values()) == ["FOLLOWER", "FOLLOWER", "LEADER"], said=self.roles, seconds=60
        )
        super().wait_until_whole()

    def leader(self) -> str:
        """Who leads, by what the leader itself says; waits for one."""
        return wait_until(lambda: next((name for name, role in self.roles().items() if role == "LEADER"), None))
