"""The keys by which a leader checks the seals of nodes (`core/data/seals.py`); nodes bring them with their sessions."""

from collections.abc import Iterable, Mapping

from leasehold.core.data.seals import SealKeys
from leasehold.core.words.messages import StagedSegment
from leasehold.ids import Incarnation, NodeId
from leasehold.limits.segments import SEAL_POLL_NS, SEALS_WAIT_NS
from leasehold.wire.ports import Clock


class Seals:
    """The keys of one leader."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patient_until_ns = clock.now_ns() + SEALS_WAIT_NS
        self.keys = SealKeys()

    async def hear_of(self, segments: Iterable[StagedSegment], live: Mapping[NodeId, Incarnation]) -> None:
        """Waits until the living holders of segments have opened their sessions, but only during the first
        SEALS_WAIT_NS of this leader: a node that serves has found it by then."""
        named = tuple(segments)
        while self.keys.unheard(named, live) and self._clock.now_ns() < self._patient_until_ns:
            await self._clock.sleep_until(self._clock.now_ns() + SEAL_POLL_NS)
