"""The keys by which this leader checks the seals of nodes (`core/data/seals.py`), once it has heard of the nodes."""

from collections.abc import Iterable, Mapping

from leasehold.core.data.seals import SealKeys
from leasehold.core.words.messages import StagedSegment
from leasehold.ids import Incarnation, NodeId
from leasehold.limits.segments import SEAL_POLL_NS, SEALS_WAIT_NS
from leasehold.wire.ports import Clock


class Seals:
    """Of one leader, from its start on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patient_until_ns = clock.now_ns() + SEALS_WAIT_NS
        self.keys = SealKeys()
        """Those that were brought so far."""

    async def hear_of(self, segments: Iterable[StagedSegment], live: Mapping[NodeId, Incarnation]) -> None:
        """Waits until the living holders of segments have opened their sessions, if this leader has only just begun.

        Later it is of no use: whoever serves has found its leader, and the keys of the rest may never come.
        """
        named = tuple(segments)
        while self.keys.unheard(named, live) and self._clock.now_ns() < self._patient_until_ns:
            await self._clock.sleep_until(self._clock.now_ns() + SEAL_POLL_NS)
