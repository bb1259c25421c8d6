"""Nodes that have been away for so long that their buckets get other replicas.

A leader notes at each look which nodes hold a lease. A node is **away** once it has held none for as long as the
cluster says (`replace_after`). A process that starts again and again without a lease is no less away, nor is one that
is connected and fenced. A leader remembers this only in memory, and a new one begins to count at its first look. So a
node may be replaced later, and never earlier. Nothing else rests on it: no replica goes before others are in sync.
"""

from collections.abc import Collection, Iterable

from leasehold.ids import NodeId


class Absences:
    """The nodes of one leader, and when each held a lease last."""

    def __init__(self) -> None:
        self._leased_ns: dict[NodeId, int] = {}

    def look(self, present: Iterable[NodeId], leased: Collection[NodeId], now_ns: int) -> None:
        """Notes which of the nodes that are there hold a lease; one that is seen first is counted as if it did."""
        self._leased_ns = {node: now_ns if node in leased else self._leased_ns.get(node, now_ns) for node in present}

    def leased_ns(self, node: NodeId, now_ns: int) -> int:
        """From when on the absence of a node counts."""
        return self._leased_ns.get(node, now_ns)

    def away(self, after_ns: int, now_ns: int) -> frozenset[NodeId]:
        """The nodes that have held no lease for `after_ns`; none if that is 0."""
        if not after_ns:
            return frozenset()
        return frozenset(node for node, leased_ns in self._leased_ns.items() if now_ns - leased_ns >= after_ns)
