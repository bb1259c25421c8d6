"""Nodes that have been away for so long that their buckets get other replicas.

A leader notes at each look which nodes hold a lease. A node is **away** once it has held none for as long as the
cluster says (`replace_after`), counted from the first look at which it held none. A process that starts again and again
without a lease is no less away, nor is one that is connected and fenced. A leader remembers this only in memory, and a
new one begins to count at its first look. So a node may be replaced later, and never earlier. Nothing else rests on it:
no replica goes before others are in sync.
"""

from collections.abc import Collection, Iterable

from leasehold.ids import NodeId


class Absences:
    """The nodes of one leader, and since when each has held no lease."""

    def __init__(self) -> None:
        self._since_ns: dict[NodeId, int | None] = {}
        """The first look at which it held none; None while it holds one."""

    def look(self, present: Iterable[NodeId], leased: Collection[NodeId], now_ns: int) -> None:
        """Notes which of the nodes that are there hold a lease."""
        before = {node: now_ns if since_ns is None else since_ns for node, since_ns in self._since_ns.items()}
        self._since_ns = {node: None if node in leased else before.get(node, now_ns) for node in present}

    def counts_from_ns(self, node: NodeId, now_ns: int) -> int:
        """From when on the absence of a node counts."""
        since_ns = self._since_ns.get(node)
        return now_ns if since_ns is None else since_ns

    def away(self, after_ns: int, now_ns: int) -> frozenset[NodeId]:
        """The nodes that have held no lease for `after_ns`; none if that is 0."""
        if not after_ns:
            return frozenset()
        return frozenset(
            node for node, since_ns in self._since_ns.items() if since_ns is not None and now_ns - since_ns >= after_ns
        )
