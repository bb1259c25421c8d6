"""Replaces machines of a simulated cluster: a machine loses its segments and keeps its identity (I7), is removed for
good, and a new one takes its name, or is lost with everything on it, and an empty one comes under another name. Or its
disk fails until it is exchanged.

Only once in a run, since a commit is promised to survive the loss of (min_in_sync - 1) nodes. Two machines are lost at
once only where other disks hold every segment.
"""

from collections.abc import Sequence
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

from leasehold.core.data.node_removal import remove_node
from leasehold.core.words.records import SegmentRecord
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
        self.has_lost = False
        """Whether a machine was lost whose id nobody has removed: its buckets need `replace_after`."""

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
        self._exchange(node)
        return f"{node.name} is removed, and an empty machine takes its name"

    def lose(self, node: SimulatedNode) -> None:
        """A machine is lost for good; an empty one under another name takes its place in the network."""
        assert node.task is None, "its process has ended for good"
        self.has_lost = True
        self._exchange(node)
        node.calls_itself = f"{node.name}-anew"

    def victims(self, random: Random) -> list[SimulatedNode]:
        """One or two machines that may be lost now, none if it can't be."""
        count = 2 if len(self._cluster.nodes) > 3 and random.random() < 0.5 else 1
        nodes = random.sample(self._cluster.nodes, count)
        return nodes if self._can_lose(nodes) else []

    async def fail_a_disk(self, random: Random) -> str | None:
        """The disk of a machine can neither be read nor written from now on."""
        node = random.choice(self._cluster.nodes)
        if not self._can_lose([node]):
            return None
        self._exchanged += 1
        node.data.disk.failing = True
        self._oracle.disk_lost(node.name)
        return f"the disk of {node.name} fails"

    def _can_lose(self, nodes: Sequence[SimulatedNode]) -> bool:
        """Whether these run, none was lost, and other disks hold every committed segment."""
        if not self.is_due or any(one.task is None for one in nodes):
            return False
        others = [one.data.disk for one in self._cluster.nodes if one not in nodes]
        records = self._oracle.history.records.values()
        segments = [one for one in records if isinstance(one, SegmentRecord)]
        return all(any(disk.holds(one.table, one.bucket, one.id) for disk in others) for one in segments)

    def _exchange(self, node: SimulatedNode) -> None:
        self.wipe(node)
        node.disk = VaultDisk(node.disk.latency_ns)
        self._oracle.nodes.pop(node.name, None)
        if self._cluster.watch is not None:
            self._cluster.watch.vault(node.name, node.disk)
