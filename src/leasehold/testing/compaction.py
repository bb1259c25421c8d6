"""Compaction by somebody who does not know what recovering nodes hold, through the leader where there is a log.

So the history that a node needs may be compacted while it is away, or takes a snapshot (R3).
"""

import asyncio
from collections import deque
from typing import Final

from leasehold.core.words.operations import LedBy
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster

HISTORY_KEPT_NS: Final = 2 * SECOND_NS
"""Only older history is compacted, so that a leader still finds what it reads."""
PATIENCE_S: Final = 2.0
SAMPLES_MAX: Final = 1_000


class Compacting:
    """Compacts the store of one cluster; samples tell how old a revision is."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._samples: deque[tuple[int, Revision]] = deque(maxlen=SAMPLES_MAX)

    def look(self) -> None:
        """Takes a sample: the newest revision now."""
        self._samples.append((self._cluster.loop.now_ns(), self._cluster.store.newest))

    async def compact(self) -> str | None:
        """Compacts what is old enough and known to every watch; None if there is nothing."""
        now_ns, store = self._cluster.loop.now_ns(), self._cluster.store
        old = [revision for at_ns, revision in self._samples if at_ns <= now_ns - HISTORY_KEPT_NS]
        before = min(max(old, default=Revision(0)), store.heard_by_all)
        if before <= store.minimum or not await compacted(self._cluster, before):
            return None
        return f"the history before revision {before} is compacted"


async def compacted(cluster: SimulatedCluster, before: Revision) -> bool:
    """Compacts a store; a log only where a leader can do it."""
    if len(cluster.coordinators) == 1:
        cluster.store.compact(before)
        return True
    leading = cluster.leading
    if leading is None or leading.storage is None or leading.leader is None:
        return False
    try:
        async with asyncio.timeout(PATIENCE_S):
            await leading.storage.compact(before, (LedBy(leading.leader.grantor.term),))
    except (LeaseholdError, TimeoutError):
        return False
    return True
