"""Compaction by others: as with a period of etcd's own, by somebody who knows nothing of what recovering nodes hold.

So a node that is away, or takes a snapshot, may be overtaken at any time (R3).
"""

from collections import deque
from typing import Final

from leasehold.ids import Revision
from leasehold.limits.units import SECOND_NS
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import MemoryStore

HISTORY_KEPT_NS: Final = 2 * SECOND_NS
"""What is compacted is older than that: what a leader reads is still there."""
SAMPLES_MAX: Final = 1_000


class Compacting:
    """Of one store; it knows how old a revision is by looking now and then."""

    def __init__(self, loop: VirtualLoop, store: MemoryStore) -> None:
        self._loop = loop
        self._store = store
        self._samples: deque[tuple[int, Revision]] = deque(maxlen=SAMPLES_MAX)

    def look(self) -> None:
        """Notes which revision is the newest one now."""
        self._samples.append((self._loop.now_ns(), self._store.newest))

    async def compact(self) -> str | None:
        """Compacts what is old enough, as far as every watch was told of it; None if there is nothing."""
        now_ns = self._loop.now_ns()
        old = [revision for at_ns, revision in self._samples if at_ns <= now_ns - HISTORY_KEPT_NS]
        before = min(max(old, default=Revision(0)), self._store.heard_by_all)
        if before <= self._store.minimum:
            return None
        self._store.compact(before)
        return f"the history before revision {before} is compacted"
