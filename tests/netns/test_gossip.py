"""Gossip between machines: nodes that know one seed alone find the coordinator, and a dead machine is noticed."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from leasehold.client.locate import KEY_FILE
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

    def doctor(self, name: str) -> list[str]:
        """What `leasehold doctor` finds wrong on the host of a node that runs."""
        values = {
            "dir": str(self.directory / name),
            "listen": self.address(name),
            "seeds": [self.address(COORDINATOR)],
            "coordinators": [self.address(COORDINATOR)],
            "cluster_key": str(self.directory / KEY_FILE),
            "tls": self._certificates.words(name)[1],
        }
        file = self.directory / f"{name}.toml"
        file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        words = [sys.executable, "-m", "leasehold.cli.main", "doctor", "--config", str(file)]
        ran = subprocess.run(self.hosts[name].command(*words), capture_output=True, text=True, check=False)
        wrong = [line for line in ran.stdout.splitlines() if not line.startswith("ok")]
        assert ran.returncode == bool(wrong), ran.stderr
        return wrong

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


def test_the_doctor_tells_which_machine_is_not_reached(gossiping: GossipingCluster) -> None:
    gossiping.wait_until_seen()
    assert gossiping.doctor(LOST) == []
    gossiping.hosts.cut("node-1", LOST)
    wrong = gossiping.doctor(LOST)
    gossiping.hosts.heal()
    assert [line.partition(";")[0] for line in wrong] == [
        f"wrong  gossip with node-1 at {gossiping.address('node-1')}: no answer",
        f"wrong  node node-1 at {gossiping.address('node-1')}: no answer in time",
    ]
