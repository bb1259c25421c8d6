"""Ids and joins at the leader (decided in `core/membership/admission.py`)."""

import contextlib
import logging
from collections.abc import Callable

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.proofs import Membership
from leasehold.coordinator.upkeep.retention import reading_the_store
from leasehold.coordinator.writer import Decide, StoreDeclined, Writer, changed_nodes
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.lease.drift import grant_bound_ns
from leasehold.core.lease.grants import IncarnationClosed, IncarnationJoined
from leasehold.core.membership import admission
from leasehold.core.membership.rejections import Reject
from leasehold.core.membership.removal import tombstone
from leasehold.core.membership.topology import counted
from leasehold.core.words import keys
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.messages import (
    Allocate,
    AllocateAnswer,
    AskIncarnation,
    Join,
    JoinAnswer,
    JoinWait,
    NewestIncarnation,
)
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import Definite, Indefinite, Refused
from leasehold.ids import Incarnation, LineageHash, NodeId, Nonce, Revision
from leasehold.limits.membership import ADOPT_FORGET_NS, ADOPT_POLL_NS, JOIN_ASK_AGAIN_NS, UNJOINED_KEPT_NS
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


def _alive_after_ns(catalog: Catalog) -> int:
    """A lease whose bound moves by more than this has a living process. Renewals of a dead one may come late, one after
    the other, each within its bound."""
    assert catalog.settings is not None
    assert catalog.largest_lease is not None
    longest_ns = max(catalog.settings.lease_duration_ns, catalog.largest_lease.duration_ns)
    return 2 * grant_bound_ns(catalog.settings, longest_ns)


class Registration:
    """Answers `Allocate`, `Join` and `AskIncarnation` once their effect is durable. `connected` tells whether a session
    of a node is open."""

    def __init__(
        self,
        storage: MetaStorage,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        connected: Callable[[NodeId], bool] = lambda _: False,
        *,
        membership: Membership | None = None,
    ) -> None:
        self._membership = membership or Membership(None)
        self._storage = storage
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._connected = connected
        self._first_bounds: dict[NodeId, tuple[Nonce, int]] = {}
        self._waiting: dict[NodeId, tuple[int, int]] = {}
        """The nodes whose process has to wait for its join: when it asked last, and until when it waits."""
        self._adopting: dict[NodeId, tuple[admission.AdoptAsked, int]] = {}
        """The nodes that a directory asks to continue as: the first request, and the time of the last."""
        now_ns = clock.now_ns()
        self._unjoined = {node.id: now_ns for node in writer.catalog.nodes.values() if admission.has_never_joined(node)}
        """The nodes that have never joined: when they last asked, or when this leader first saw them."""

    async def allocate(self, request: Allocate) -> AllocateAnswer:
        """Answers the id of a token, the same one every time (INV-ID-1)."""
        self._membership.check(request)
        node = NodeId(0)

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal node
            assert catalog.cluster is not None
            assert catalog.counters is not None
            decision = admission.decide_allocate(request, catalog.cluster, catalog.counters, catalog.nodes.values())
            match decision:
                case Reject():
                    raise _refused(decision)
                case admission.KnownToken():
                    node = decision.node
                    self._asked(node)
                    return ()
                case admission.Fresh():
                    node = decision.node.id
                    record = put(keys.node(node), decision.node)
                    return (record, put(keys.COUNTERS, decision.counters))

        await self._submit(decide)
        return AllocateAnswer(node=node)

    async def join(self, request: Join) -> JoinAnswer | JoinWait:
        """Lets a process in as the next incarnation, or answers how long the previous one may still serve."""
        self._membership.check(request)
        lineage = await self._lineage_at(request)
        answer: JoinAnswer | JoinWait | None = None

        def joined(incarnation: Incarnation) -> JoinAnswer:
            protocol = admission.spoken_protocol(request)
            assert protocol is not None, "validated before"
            return JoinAnswer(incarnation=incarnation, history_known=lineage is not None, protocol=protocol)

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal answer
            now_ns = self._clock.now_ns()
            held = self._leasing.grantor.held(request.node)
            assert catalog.cluster is not None
            nonce, first_bound_ns = self._first_bounds.get(request.node, (None, None))
            decision = admission.decide_join(
                request,
                cluster=catalog.cluster,
                nodes=catalog.nodes.values(),
                history=admission.JoinerHistory(latest=catalog.revision, lineage_at_applied=lineage),
                held=held,
                first_bound_ns=first_bound_ns if nonce == request.nonce else None,
                alive_after_ns=_alive_after_ns(catalog),
                now_ns=now_ns,
            )
            self._waiting.pop(request.node, None)
            match decision:
                case Reject():
                    self._first_bounds.pop(request.node, None)
                    raise _refused(decision)
                case admission.Same(incarnation=incarnation):
                    answer = joined(incarnation)
                    return ()
                case admission.WaitUntil(bound_ns=bound_ns):
                    if nonce != request.nonce:
                        self._first_bounds[request.node] = (request.nonce, bound_ns)
                    self._waiting[request.node] = (now_ns, bound_ns)
                    self._asked(request.node)
                    answer = JoinWait(wait_ns=bound_ns - now_ns)
                    return ()
                case admission.Admit(node=admitted, previous=previous):
                    if admission.closing(held):
                        # Before the write, so that it gets no more grant even if the outcome of the write is unknown.
                        self._leasing.step(IncarnationClosed(node=previous.id, incarnation=previous.incarnation))
                    self._first_bounds.pop(request.node, None)
                    answer = joined(admitted.incarnation)
                    record = put(keys.node(admitted.id), admitted)
                    return (record, counted(catalog)) if previous.member else (record,)

        await self._submit(decide)
        assert answer is not None
        return answer

    def _asked(self, node: NodeId) -> None:
        """Its process lives and may be about to join: its id is kept."""
        if node in self._unjoined:
            self._unjoined[node] = self._clock.now_ns()

    async def give_up(self) -> None:
        """Gives up ids of nodes that never joined (`decide_give_up`)."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            due = admission.decide_give_up(catalog.nodes, self._unjoined, self._clock.now_ns())
            return tuple(change for node in due for change in tombstone(node, catalog))

        if any(self._clock.now_ns() - since_ns >= UNJOINED_KEPT_NS for since_ns in self._unjoined.values()):
            await self._writer.submit(decide)

    def join_wait_ns(self, node: NodeId, now_ns: int) -> int:
        """How long at most a process of the node waits for its join; 0 if none does."""
        asked_ns, until_ns = self._waiting.get(node, (0, 0))
        return max(0, until_ns - now_ns) if now_ns - asked_ns < 2 * JOIN_ASK_AGAIN_NS else 0

    async def newest_incarnation(self, request: AskIncarnation) -> NewestIncarnation | JoinWait:
        """The incarnation that an older copy of a directory may take, once no process of the node lives."""
        self._membership.check(request)
        answer: NewestIncarnation | JoinWait | None = None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal answer
            now_ns = self._clock.now_ns()
            assert catalog.cluster is not None
            first = self._first_asked(request.node, now_ns)
            decision = admission.decide_adopt(
                request,
                cluster=catalog.cluster,
                node=catalog.nodes.get(request.node),
                held=self._leasing.grantor.held(request.node),
                connected=self._connected(request.node),
                first=first,
                alive_after_ns=_alive_after_ns(catalog),
                now_ns=now_ns,
            )
            match decision:
                case Reject():
                    self._adopting.pop(request.node, None)
                    raise _refused(decision)
                case admission.WaitUntil(bound_ns=bound_ns):
                    asked = first or admission.AdoptAsked(since_ns=now_ns, bound_ns=bound_ns)
                    self._adopting[request.node] = (asked, now_ns)
                    answer = JoinWait(wait_ns=max(ADOPT_POLL_NS, bound_ns - now_ns))
                case admission.Adopt(node=node):
                    self._adopting.pop(request.node, None)
                    answer = NewestIncarnation(incarnation=node.incarnation, name=node.name)
            return ()

        await self._submit(decide)
        assert answer is not None
        return answer

    def _first_asked(self, node: NodeId, now_ns: int) -> admission.AdoptAsked | None:
        known = self._adopting.get(node)
        return None if known is None or now_ns - known[1] > ADOPT_FORGET_NS else known[0]

    async def _submit(self, decide: Decide) -> None:
        """A store that declines says nothing about this node: it asks again."""
        try:
            await self._writer.submit(decide)
        except StoreDeclined as error:
            raise Indefinite(f"the meta storage refuses: {error.text}", hint="the node asks again") from error

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Tells the grantor of new incarnations as soon as they are durable: the process that asked may have given up,
        and the next command may be a second join of the same node."""
        for node in changed_nodes(batch, catalog):
            held = self._leasing.grantor.held(node.id)
            if admission.has_never_joined(node):
                self._unjoined.setdefault(node.id, self._clock.now_ns())
            elif self._unjoined.pop(node.id, None) is not None and node.removed:
                log.warning("node %d (%s) has never joined: its id is released", node.id, node.name)
            if node.removed:
                continue
            if node.session_hash is not None and node.incarnation > (0 if held is None else held.incarnation):
                log.info(
                    "node %d (%s) joins as incarnation %d at %s", node.id, node.name, node.incarnation, node.address
                )
                self._leasing.step(
                    IncarnationJoined(
                        node=node.id,
                        incarnation=node.incarnation,
                        session_hash=node.session_hash,
                        end_hash=node.end_hash,
                    )
                )

    async def _lineage_at(self, request: Join) -> LineageHash | None:
        """The cluster's hash at the joiner's applied revision; None if it is compacted, or not written yet."""
        if request.applied == 0:
            return GENESIS
        if request.applied > self._writer.catalog.revision:
            return None
        try:
            with reading_the_store():
                found = await self._storage.get(keys.LINEAGE, request.applied)
        except Compacted as error:
            return await self._lineage_before(error.minimum, request)
        if found is None or found.modified != request.applied:
            return _not_the_joiners(request)
        return LineageHash(found.value)

    async def _lineage_before(self, minimum: Revision, request: Join) -> LineageHash | None:
        """The hash below MM, if it is still known: the key's own value if that has not changed since; at MM - 1, the
        joiner's hash if the changes of revision MM lead from it to the hash there."""
        try:
            with reading_the_store():
                found = await self._storage.get(keys.LINEAGE, minimum)
            if found is None or found.modified < request.applied:
                return _not_the_joiners(request)
            if found.modified == request.applied:
                return LineageHash(found.value)
            if request.applied != minimum - 1:
                return None
            with reading_the_store():
                watch = self._storage.watch(keys.WATCH_START, keys.WATCH_END, minimum)
                async with contextlib.aclosing(watch) as batches:
                    first = await anext(batches)
        except Compacted:
            return None
        assert first.revision == minimum, "the lineage was written there"
        follows = next_lineage(request.lineage, first.changes) == found.value
        return request.lineage if follows else _not_the_joiners(request)


def _not_the_joiners(request: Join) -> LineageHash:
    """For a revision that no node of this history can have applied, or whose hash is only known to be another one."""
    return LineageHash(b"not " + request.lineage)


def _refused(decision: Reject) -> Definite:
    return Refused(decision.text, code=decision.code, hint=decision.hint)
