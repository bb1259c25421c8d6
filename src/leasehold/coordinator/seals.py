"""The keys by which this leader checks the seals of nodes (`core/seals.py`), as the nodes brought them."""

from collections.abc import Iterable, Mapping

from leasehold.core.messages import StagedSegment
from leasehold.ids import Incarnation, NodeId
from leasehold.limits.segments import SEAL_POLL_NS, SEALS_WAIT_NS
from leasehold.wire.ports import Clock


class Seals:
    """Of one leader, from its start on. A key stays known while its node is away: what it sealed before still holds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[NodeId, tuple[Incarnation, bytes]] = {}
        self._patient_until_ns = clock.now_ns() + SEALS_WAIT_NS

    def learn(self, node: NodeId, incarnation: Incarnation, key: bytes) -> None:
        """The newest process of a node has opened its session."""
        self._keys[node] = (incarnation, key)

    def keys(self, live: Mapping[NodeId, Incarnation]) -> dict[NodeId, bytes]:
        """Those of the incarnations that live."""
        return {node: key for node, (incarnation, key) in self._keys.items() if live.get(node) == incarnation}

    async def hear_of(self, segments: Iterable[StagedSegment], live: Mapping[NodeId, Incarnation]) -> None:
        """Waits until the living holders of segments have opened their sessions, if this leader has only just begun.

        Later it is of no use: whoever serves has found its leader, and the keys of the rest may never come.
        """
        named = {(one.node, one.incarnation) for segment in segments for one in segment.holders}
        unheard = {node for node, incarnation in named if live.get(node) == incarnation}
        while unheard - self._keys.keys() and self._clock.now_ns() < self._patient_until_ns:
            await self._clock.sleep_until(self._clock.now_ns() + SEAL_POLL_NS)
