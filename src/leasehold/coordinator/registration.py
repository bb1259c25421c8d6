"""Registration at the leader: ids, joins, the wait for a previous incarnation (decided in `core/admission.py`)."""

import logging

from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.writer import Decide, StoreDeclined, Writer
from leasehold.core import keys
from leasehold.core.admission import Admit, Fresh, History, Known, Reject, Same, WaitUntil, closing
from leasehold.core.admission import decide_allocate as allocate_decision
from leasehold.core.admission import decide_join as join_decision
from leasehold.core.catalog import Catalog
from leasehold.core.drift import grant_bound_ns
from leasehold.core.grantor import IncarnationClosed, IncarnationJoined
from leasehold.core.lineage import GENESIS
from leasehold.core.messages import Allocate, AllocateAnswer, Join, JoinAnswer, JoinWait
from leasehold.core.operations import Change, RevisionChanges
from leasehold.core.plan import put
from leasehold.errors import Corrupt, Definite, Indefinite, Refused
from leasehold.ids import LineageHash, NodeId, Nonce
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


def _longest_ns(catalog: Catalog) -> int:
    assert catalog.settings is not None
    assert catalog.largest_lease is not None
    return max(catalog.settings.lease_duration_ns, catalog.largest_lease.duration_ns)


class Registration:
    """Answers `Allocate` and `Join`, after what they decide is durable."""

    def __init__(self, storage: MetaStorage, writer: Writer, leasing: Leasing, clock: Clock) -> None:
        self._storage = storage
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._first_bounds: dict[NodeId, tuple[Nonce, int]] = {}

    async def allocate(self, request: Allocate) -> AllocateAnswer:
        """The id of a token, the same one every time (INV-ID-1)."""
        node = NodeId(0)

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal node
            assert catalog.cluster is not None
            assert catalog.counters is not None
            decision = allocate_decision(request, catalog.cluster, catalog.counters, catalog.nodes.values())
            match decision:
                case Reject():
                    raise _refused(decision)
                case Known():
                    node = decision.node
                    return ()
                case Fresh():
                    node = decision.node.id
                    record = put(keys.node(node), decision.node)
                    return (record, put(keys.COUNTERS, decision.counters))

        await self._submit(decide)
        return AllocateAnswer(node=node)

    async def join(self, request: Join) -> JoinAnswer | JoinWait:
        """Lets a process in as the next incarnation, or says how long the previous one may still serve."""
        lineage = await self._lineage_at(request)
        answer: JoinAnswer | JoinWait | None = None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal answer
            now_ns = self._clock.now_ns()
            held = self._leasing.grantor.held(request.node)
            assert catalog.cluster is not None
            assert catalog.settings is not None
            nonce, first_bound_ns = self._first_bounds.get(request.node, (None, None))
            decision = join_decision(
                request,
                cluster=catalog.cluster,
                nodes=catalog.nodes.values(),
                history=History(latest=catalog.revision, lineage_at_applied=lineage),
                held=held,
                first_bound_ns=first_bound_ns if nonce == request.nonce else None,
                # Renewals of a dead process may come late, one after the other, each within its bound.
                alive_after_ns=2 * grant_bound_ns(catalog.settings, _longest_ns(catalog)),
                now_ns=now_ns,
            )
            match decision:
                case Reject():
                    self._first_bounds.pop(request.node, None)
                    raise _refused(decision)
                case Same(incarnation=incarnation):
                    answer = JoinAnswer(incarnation=incarnation)
                    return ()
                case WaitUntil(bound_ns=bound_ns):
                    if nonce != request.nonce:
                        self._first_bounds[request.node] = (request.nonce, bound_ns)
                    answer = JoinWait(wait_ns=bound_ns - now_ns)
                    return ()
                case Admit(node=admitted, previous=previous):
                    if closing(held):
                        # In this same step, so that nothing is granted to it again even if the write is unclear.
                        self._leasing.step(IncarnationClosed(node=previous.id, incarnation=previous.incarnation))
                    self._first_bounds.pop(request.node, None)
                    answer = JoinAnswer(incarnation=admitted.incarnation)
                    return (put(keys.node(admitted.id), admitted),)

        await self._submit(decide)
        assert answer is not None
        return answer

    async def _submit(self, decide: Decide) -> None:
        """What the store declines is not about this node: it asks again."""
        try:
            await self._writer.submit(decide)
        except StoreDeclined as error:
            raise Indefinite(f"the meta storage declines: {error.text}", hint="the node asks again") from error

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Hears a new incarnation from the instant its join is durable: who asked may have given up meanwhile, and
        the next command may be a second join of the same node."""
        for change in batch.changes:
            if not change.key.startswith(keys.NODES):
                continue
            node = catalog.nodes[NodeId(int(change.key.removeprefix(keys.NODES)))]
            held = self._leasing.grantor.held(node.id)
            if node.session_hash is not None and node.incarnation > (0 if held is None else held.incarnation):
                log.info(
                    "node %d (%s) joins as incarnation %d at %s", node.id, node.name, node.incarnation, node.address
                )
                self._leasing.step(
                    IncarnationJoined(node=node.id, incarnation=node.incarnation, session_hash=node.session_hash)
                )

    async def _lineage_at(self, request: Join) -> LineageHash | None:
        """The cluster's hash at the joiner's applied revision; None where it can't be read any more, or not yet."""
        if request.applied == 0:
            return GENESIS
        if request.applied > self._writer.catalog.revision:
            return None
        try:
            found = await self._storage.get(keys.LINEAGE, request.applied)
        except Compacted:
            return None
        except Definite as error:  # a store that has failed says so definitely, but not about this node
            raise Indefinite(f"the meta storage can't be read: {error.text}", hint="the node asks again") from error
        if found is None or found.modified != request.applied:
            raise Corrupt(
                f"revision {request.applied} is not one that a node could have applied",
                code="DIVERGED",
                hint="restore this node's own directory, or start with an empty one and another --name",
            )
        return LineageHash(found.value)


def _refused(decision: Reject) -> Definite:
    return Refused(decision.text, code=decision.code, hint=decision.hint)
