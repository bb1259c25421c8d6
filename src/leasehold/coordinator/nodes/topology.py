"""The logical topology at the leader: nodes enter and leave it (decided in `core/membership/topology.py`)."""

import asyncio
import logging
from collections.abc import Callable

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.upkeep.receipts import insist
from leasehold.coordinator.writer import Writer, changed_nodes
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grants import MemberEntered, MemberLeft
from leasehold.core.membership.topology import Enter, Entrance, decide_entrance, has_to_leave, left
from leasehold.core.questions.nodes import reported_recovery
from leasehold.core.words import messages
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import NodeRecord
from leasehold.errors import Definite
from leasehold.ids import Incarnation, NodeId, Revision
from leasehold.limits.membership import TOPOLOGY_LOOK_NS
from leasehold.wire.ports import Clock
from leasehold.wire.tasks import until_set_or_due

log = logging.getLogger(__name__)


class Topology:
    """The logical topology of one leader. `absent_since_ns` tells since when no session of a node is open, None while
    one is."""

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
        self._progress: dict[NodeId, tuple[Incarnation, messages.NodeRecovery]] = {}
        self._due = asyncio.Event()

    async def finish(
        self, message: messages.RecoveryFinished
    ) -> messages.RecoveryAccepted | messages.RecoveryBehind | None:
        """Lets a node in that has recovered, retrying while the store declines. No answer to a process that was
        replaced or that has given its lease back."""
        decided: list[Entrance] = []

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            node = catalog.nodes.get(message.node)
            held = self._leasing.grantor.held(message.node)
            if node is None or self._is_being_removed(message.node):
                decided.append(None)
                return ()
            decision = decide_entrance(catalog, node, message.incarnation, message.applied, held)
            decided.append(decision)
            if isinstance(decision, messages.RecoveryAccepted):
                self._enter(node, decision.required)
            return decision.changes if isinstance(decision, Enter) else ()

        revision = await insist(self._writer, self._clock, decide, f"the admission of node {message.node}")
        decision = decided[-1]
        return messages.RecoveryAccepted(required=revision) if isinstance(decision, Enter) else decision

    def _enter(self, node: NodeRecord, required: Revision) -> None:
        self._leasing.step(MemberEntered(node=node.id, incarnation=node.incarnation, required=required))

    def has_entered(self, node: NodeId) -> bool:
        """Whether the newest process of a node may get a lease, once it has applied what is required."""
        held = self._leasing.grantor.held(node)
        return held is not None and held.required is not None

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Tells the grantor which nodes have entered with a revision: they need it for a lease."""
        for node in changed_nodes(batch, catalog):
            held = self._leasing.grantor.held(node.id)
            if self._is_being_removed(node.id):
                continue
            if node.member and held is not None and held.required is None:
                log.info("node %d (%s) enters the logical topology at revision %d", node.id, node.name, batch.revision)
                self._enter(node, batch.revision)

    def closed(self) -> None:
        """The incarnation of a node is closed: checks now for members that are gone."""
        self._due.set()

    async def run(self) -> None:
        """Takes members that are gone out of the topology, until cancelled; each TOPOLOGY_LOOK_NS."""
        while True:
            await until_set_or_due(self._due, self._clock.now_ns() + TOPOLOGY_LOOK_NS, self._clock)
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
            if not self._has_to_leave(node):
                return ()
            log.info("node %d (%s) leaves the logical topology", node.id, node.name)
            # Before the write, so that it gets no more grant even if the outcome of the write is unknown.
            self._leasing.step(MemberLeft(node=node.id, incarnation=node.incarnation))
            return left(node, catalog)

        await self._writer.submit(decide)

    def progressed(self, message: messages.RecoveryProgress) -> None:
        """Keeps the newest progress of a node's recovery, for people."""
        if self._leasing.live_incarnations([message.node]).get(message.node) == message.incarnation:
            self._progress[message.node] = (message.incarnation, reported_recovery(message))

    def recovery(self, node: NodeRecord) -> messages.NodeRecovery | None:
        """The progress that the newest process of a node has reported to this leader, if any."""
        incarnation, told = self._progress.get(node.id, (Incarnation(0), None))
        return told if incarnation == node.incarnation else None
