"""Replaces machines of a simulated cluster: a machine loses its segments and keeps its identity (I7), or is removed for
good, and a new one takes its name.

At most one machine of a run, since a commit is promised to survive the loss of (min_in_sync - 1) nodes.
"""

from leasehold.core.data.node_removal import remove_node
from leasehold.errors import Refused
from leasehold.ids import LoginToken
from leasehold.testing.cluster import AT_LENGTH, SimulatedCluster
from leasehold.testing.disk import SegmentDisk
from leasehold.testing.machines import SimulatedNode
from leasehold.testing.oracle import Oracle
from leasehold.testing.vault import VaultDisk


class Replacing:
    """Exchanges machines that no process runs on."""

    def __init__(self, cluster: SimulatedCluster, oracle: Oracle) -> None:
        self.login: LoginToken | None = None
        """The login of a user who may remove nodes, if users exist."""
        self._cluster = cluster
        self._oracle = oracle
        self._exchanged = 0

    @property
    def is_due(self) -> bool:
        """Whether a machine may still be replaced."""
        return not self._exchanged

    def wipe(self, node: SimulatedNode) -> None:
        """Removes its segments, but not its vault."""
        self._exchanged += 1
        disk = SegmentDisk(node.data.disk.latency_ns)
        node.data.disk = disk
        if self._cluster.watch is not None:
            self._cluster.watch.segments(node.name, disk)
        self._oracle.disk_lost(node.name)

    async def remove(self, node: SimulatedNode) -> str:
        """Removes a node by a client, which asks until there is an answer; says what happened. An empty machine gets
        the name, unless the removal was refused."""
        assert node.task is None, "its process has ended for good"
        try:
            await remove_node(self._cluster.client(token=self.login), node.calls_itself, AT_LENGTH)
        except Refused as error:
            return f"{node.name} is not removed: {error.text} ({error.code})"
        self.wipe(node)
        node.disk = VaultDisk(node.disk.latency_ns)
        self._oracle.nodes.pop(node.name, None)
        if self._cluster.watch is not None:
            self._cluster.watch.vault(node.name, node.disk)
        return f"{node.name} is removed, and an empty machine takes its name"
