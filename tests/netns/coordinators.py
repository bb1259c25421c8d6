"""Three coordinators that share an etcd, and two nodes, each on a host of its own; the etcd has a host too."""

from typing import Any

from tests.etcd_cluster import etcd_program
from tests.netns.cluster import PORT, NetworkCluster
from tests.netns.remote import Failed, wait_until

STORE = "store"
STORE_PORT = 7401


class CoordinatorsNetwork(NetworkCluster):
    """A context manager."""

    coordinators = ("coordinator-1", "coordinator-2", "coordinator-3")
    nodes = ("node-1", "node-2")
    scanned = ("node-1",)
    beside = (STORE,)
    moved: frozenset[str] = frozenset()
    """Nodes that listen at another port than at first."""

    def address(self, name: str) -> str:
        return f"{self.hosts[name].address}:{PORT + 10 if name in self.moved else PORT}"

    def _start_beside(self) -> None:
        self.start(STORE)

    def start(self, name: str) -> None:
        if name != STORE:
            super().start(name)
            return
        url, peer = (f"http://{self.hosts[STORE].address}:{port}" for port in (STORE_PORT, STORE_PORT + 1))
        self._spawn(
            STORE,
            etcd_program(),
            *("--name", STORE, "--data-dir", str(self.directory / STORE), "--log-level", "warn"),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"{STORE}={peer}",
            ),
        )

    def _words(self, name: str) -> list[str]:
        if name in self.coordinators:
            return ["--meta", f"etcd://{self.hosts[STORE].address}:{STORE_PORT}/net"]
        # One is enough: it learns of the others.
        return ["--name", name, "--coordinator", self.address(self.coordinators[0])]

    def _heal_beside(self) -> None:
        pass

    def move(self, node: str) -> None:
        """A node that does not run listens at another address from now on."""
        self.moved ^= {node}

    def roles(self) -> dict[str, Any]:
        """Name to role, as the leader sees them; empty while nobody answers."""
        try:
            return {row[0]: row[2] for row in self.query("SHOW COORDINATORS")}  # pyright: ignore[reportReturnType]
        except Failed:
            return {}

    def wait_until_whole(self) -> None:
        """Until one leads, the others follow, and the nodes serve."""
        wait_until(
            lambda: sorted(self.roles().values()) == ["FOLLOWER", "FOLLOWER", "LEADER"], said=self.roles, seconds=60
        )
        super().wait_until_whole()

    def leader(self) -> str:
        """Who leads, by what the leader itself says; waits for one."""
        return wait_until(lambda: next((name for name, role in self.roles().items() if role == "LEADER"), None))
