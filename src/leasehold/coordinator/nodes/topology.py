"""The logical topology at the leader: who enters it, who has to leave it (decided in `core/membership/topology.py`)."""

import asyncio
import logging
from collections.abc import Callable
from typing import assert_never

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.upkeep.receipts import insist
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import MemberEntered, MemberLeft
from leasehold.core.membership.topology import (
    Enter,
    Entrance,
    NotHeard,
    Require,
    TooFarBehind,
    decide_entrance,
    has_to_leave,
    left,
)
from leasehold.core.questions.nodes import reported_recovery
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    NodeRecovery,
    RecoveryAccepted,
    RecoveryBehind,
    RecoveryFinished,
    RecoveryProgress,
)
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import NodeRecord
from leasehold.errors import Definite
from leasehold.ids import Incarnation, NodeId, Revision
from leasehold.limits.membership import TOPOLOGY_LOOK_NS
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class Topology:
    """Of one leader. It hears of each revision, and looks now and then for members that are gone. `absent_since_ns`
    tells since when no session of a node is open, None while one is."""

    def __init__(
        self,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        absent_since_ns: Callable[[NodeId], int | None],
        is_being_removed: Callable[[NodeId], bool] = lambda _: False,
    ) -> None:
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._absent_since_ns = absent_since_ns
        self._is_being_removed = is_being_removed
        self._progress: dict[NodeId, tuple[Incarnation, NodeRecovery]] = {}
        self._due = asyncio.Event()

    # ------------------------------------------------------------ entering

    async def finish(self, message: RecoveryFinished) -> RecoveryAccepted | RecoveryBehind | None:
        """A node has recovered. What the store declines is tried again; no answer if another lives by now, or this one
        has given its lease back."""
        decided: list[Entrance] = []

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            node = catalog.nodes.get(message.node)
            held = self._leasing.grantor.held(message.node)
            if node is None or self._is_being_removed(message.node):
                decided.append(NotHeard())
                return ()
            decision = decide_entrance(catalog, node, message.incarnation, message.applied, held)
            decided.append(decision)
            if isinstance(decision, Require):
                self._enter(node, decision.required)
            return decision.changes if isinstance(decision, Enter) else ()

        revision = await insist(self._writer, self._clock, decide, f"the admission of node {message.node}")
        decision = decided[-1]
        match decision:
            case Enter():
                return RecoveryAccepted(required=revision)
            case Require(required=required):
                return RecoveryAccepted(required=required)
            case TooFarBehind(latest=latest, catch_up_difference=difference):
                return RecoveryBehind(latest=latest, catch_up_difference=difference)
            case NotHeard():
                return None
            case _:
                assert_never(decision)

    def _enter(self, node: NodeRecord, required: Revision) -> None:
        self._leasing.step(MemberEntered(node=node.id, incarnation=node.incarnation, required=required))

    def has_entered(self, node: NodeId) -> bool:
        """Whether its newest process is told what it needs for a lease."""
        held = self._leasing.grantor.held(node)
        return held is not None and held.required is not None

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Hears of a revision: whoever has entered with it needs it for a lease."""
        for change in batch.changes:
            if not change.key.startswith(keys.NODES):
                continue
            node = catalog.nodes[NodeId(int(change.key.removeprefix(keys.NODES)))]
            held = self._leasing.grantor.held(node.id)
            if self._is_being_removed(node.id):
                continue
            if node.member and held is not None and held.required is None:
                log.info("node %d (%s) enters the logical topology at revision %d", node.id, node.name, batch.revision)
                self._enter(node, batch.revision)

    # ------------------------------------------------------------ leaving

    def surrendered(self) -> None:
        """Somebody has given a lease back: not only at the next look."""
        self._due.set()

    async def run(self) -> None:
        """Looks until cancelled. What the store declines is due again at the next look."""
        while True:
            timer = self._clock.call_at(self._clock.now_ns() + TOPOLOGY_LOOK_NS, self._due.set)
            await self._due.wait()
            timer.cancel()
            self._due.clear()
            due = [one for one in self._writer.catalog.nodes.values() if self._has_to_leave(one)]
            try:
                await asyncio.gather(*(self._leave(one.id) for one in sorted(due, key=lambda one: one.id)))
            except Definite as error:
                log.warning("the logical topology: %s", error)

    def _has_to_leave(self, node: NodeRecord) -> bool:
        held = self._leasing.grantor.held(node.id)
        return has_to_leave(node, held, self._absent_since_ns(node.id), self._clock.now_ns())

    async def _leave(self, node_id: NodeId) -> None:
        def decide(catalog: Catalog) -> tuple[Change, ...]:
            node = catalog.nodes[node_id]
            if not self._has_to_leave(node):  # it has come back meanwhile, or joined again
                return ()
            log.info("node %d (%s) leaves the logical topology", node.id, node.name)
            # In this same step, so that nothing is granted to it any more even if the write is unclear.
            self._leasing.step(MemberLeft(node=node.id, incarnation=node.incarnation))
            return left(node, catalog)

        await self._writer.submit(decide)

    # ------------------------------------------------------------ what nodes tell of their recovery

    def progressed(self, message: RecoveryProgress) -> None:
        """Keeps what a node told last, for people."""
        if self._leasing.live_incarnations([message.node]).get(message.node) == message.incarnation:
            self._progress[message.node] = (message.incarnation, reported_recovery(message))

    def recovery(self, node: NodeRecord) -> NodeRecovery | None:
        """What the newest process of a node told last, None if nothing to this leader."""
        incarnation, told = self._progress.get(node.id, (Incarnation(0), None))
        return told if incarnation == node.incarnation else None
