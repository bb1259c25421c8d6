"""How fast each node gets the copies that it lacks, from the manifest: an entry that names another holder than before
says that a node has copied a segment.

The leader counts these bytes by second. The rate of a node is what it has copied in the last COPY_RATE_SECONDS.
"""

from collections import Counter
from collections.abc import Iterable

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import segment_of
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.ids import NodeId
from leasehold.limits.membership import COPY_RATE_SECONDS
from leasehold.limits.units import SECOND_NS


class CopiedBytes:
    """What has been copied lately, of one leader."""

    def __init__(self) -> None:
        self._seconds: dict[int, Counter[NodeId]] = {}

    def committed(self, changes: Iterable[Change], before: Catalog, after: Catalog, now_ns: int) -> None:
        """Notes the segments of a revision that nodes hold now and did not hold `before`, without new ones."""
        for change in changes:
            if change.value is None or not change.key.startswith(keys.SEGMENTS):
                continue
            bucket, name = keys.bucket_of(change.key), segment_of(change.key)
            old = before.segments.one(bucket, name)
            new = None if old is None else after.segments.one(bucket, name)  # most are new: nothing is copied
            if old is not None and new is not None:
                for node in set(new.holders) - set(old.holders):
                    self._second(now_ns)[node] += new.size_bytes

    def rates(self, now_ns: int) -> dict[NodeId, int]:
        """Bytes per second, of the nodes that have copied something lately."""
        self._forget(now_ns)
        total = Counter[NodeId]()
        for counted in self._seconds.values():
            total.update(counted)
        spans = {node: self._span(node, now_ns) for node in total}
        return {node: size_bytes // spans[node] for node, size_bytes in total.items()}

    def _span(self, node: NodeId, now_ns: int) -> int:
        """The seconds since a node began, the present one included."""
        began = min(second for second, counted in self._seconds.items() if node in counted)
        return now_ns // SECOND_NS - began + 1

    def _second(self, now_ns: int) -> Counter[NodeId]:
        self._forget(now_ns)
        return self._seconds.setdefault(now_ns // SECOND_NS, Counter())

    def _forget(self, now_ns: int) -> None:
        oldest = now_ns // SECOND_NS - COPY_RATE_SECONDS
        self._seconds = {second: counted for second, counted in self._seconds.items() if second > oldest}
