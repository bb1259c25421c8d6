"""A cluster whose nodes find the coordinator by gossip, with no proxy between them."""

import json
import subprocess
import sys

from leasehold.client.locate import KEY_FILE
from tests.netns.cluster import COORDINATOR, PORT, NetworkCluster
from tests.netns.hosts import IPV4
from tests.netns.remote import Failed, wait_until

EVERYWHERE = "node-2"


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
        here = self.hosts[name]
        all_of_it = f"{'0.0.0.0' if here.family is IPV4 else '[::]'}:{PORT}"
        everywhere = ["--listen", all_of_it, "--advertise", self.address(name)] if name == EVERYWHERE else []
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
