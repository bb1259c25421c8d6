"""Gossip between machines: nodes that know one seed alone find the coordinator, and a dead machine is noticed."""

from collections.abc import Iterator

import pytest

from tests.netns.cluster import CLIENT, COORDINATOR, PORT, NetworkCluster
from tests.netns.remote import Failed, wait_until

pytestmark = pytest.mark.processes

EVERYWHERE, LOST = "node-2", "node-3"


class GossipingCluster(NetworkCluster):
    """Nodes that know a seed, and no address of a coordinator. One of them listens at all addresses of its machine."""

    scanned = ()
    beside = ()

    def _start_beside(self) -> None:
        pass

    def _heal_beside(self) -> None:
        pass

    def _words(self, name: str) -> list[str]:
        if name == COORDINATOR:
            return []
        everywhere = ["--listen", f"0.0.0.0:{PORT}", "--advertise", self.address(name)] if name == EVERYWHERE else []
        return ["--name", name, "--seed", self.address(COORDINATOR), *everywhere]

    def seen(self) -> dict[str, str]:
        """How the leader's process sees each node; empty while nobody answers."""
        try:
            return {one.name: one.seen for one in self.status().nodes}
        except Failed:
            return {}

    def wait_until_seen(self, **seen: str) -> None:
        expected = dict.fromkeys(self.nodes, "ALIVE") | {name.replace("_", "-"): state for name, state in seen.items()}
        wait_until(lambda: self.seen() == expected, said=self.seen, seconds=60)


@pytest.fixture(scope="module")
def gossiping(namespaces_available: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GossipingCluster]:
    with GossipingCluster(tmp_path_factory.mktemp("gossiping") / "cluster") as cluster:
        yield cluster


def test_nodes_find_each_other_and_notice_a_machine_that_is_cut_off(gossiping: GossipingCluster) -> None:
    gossiping.wait_until_seen()
    others = [name for name in (COORDINATOR, *gossiping.nodes, CLIENT) if name != LOST]
    for name in others:
        gossiping.hosts.cut_both_ways(LOST, name)
    gossiping.wait_until_seen(node_3="DEAD")
    gossiping.hosts.heal()
    gossiping.wait_until_seen()


def test_a_node_that_the_coordinator_alone_does_not_reach_stays_alive(gossiping: GossipingCluster) -> None:
    """The others reach it, and ping it for the coordinator."""
    gossiping.wait_until_seen()
    gossiping.hosts.cut_both_ways(COORDINATOR, LOST)
    wait_until(lambda: gossiping.node(LOST).state != "ACTIVE", seconds=60)  # its lease has ended: a while has passed
    assert gossiping.seen()[LOST] in {"ALIVE", "SUSPECT"}
    gossiping.hosts.heal()
