"""Removing nodes: waits for a node's lease, then writes its tombstone (decided in `core/membership/removal.py`).

A removal that has begun goes on even if its client disconnects. A client that sends the same request again waits for
the same removal. Once the tombstone is durable, the leader ends the node's session with REMOVED. After a removal that
is refused halfway, the node is still a member: it opens a new session and gets a lease again.

A census on a thread counts the node's segments. The tombstone is decided on that, and on the few records that have
changed since. If many have changed, or another node was removed meanwhile, there is a new census.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.upkeep.receipts import insist
from leasehold.coordinator.writer import Writer, changed_nodes
from leasehold.core.access.certified_names import certified_later
from leasehold.core.access.request_rights import check_request
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grants import IncarnationClosed, MemberLeft
from leasehold.core.lease.grants import RemovalCommitted as RemovalDurable
from leasehold.core.membership.removal import check_allowed, find_node, tombstone
from leasehold.core.replicas.census import Census, ChangesSince, census, recounted
from leasehold.core.words.messages import NodeRemoved, RemoveNode, WaitingFor
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, NotLeader, Refused, Unreachable
from leasehold.ids import NodeId, StatementId
from leasehold.limits.membership import RECOUNTED_MAX, REMOVAL_CENSUSES_MAX, REMOVALS_MAX
from leasehold.limits.statements import PROGRESS_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Clock, Threads

log = logging.getLogger(__name__)


class Removal:
    """The removals of one leader. `end_session` tells a connected process of a node why it must end, `wall_us` the time
    in microseconds since 1970 UTC."""

    def __init__(
        self,
        writer: Writer,
        leasing: Leasing,
        clock: Clock,
        threads: Threads,
        group: asyncio.TaskGroup,
        *,
        end_session: Callable[[NodeId, LeaseholdError], None],
        wall_us: Callable[[], int],
        recounted_max: int = RECOUNTED_MAX,
    ) -> None:
        self._writer = writer
        self._leasing = leasing
        self._clock = clock
        self._threads = threads
        self._group = group
        self._end_session = end_session
        self._wall_us = wall_us
        self._recounted_max = recounted_max
        self._running: dict[NodeId, asyncio.Future[NodeRemoved]] = {}
        self._leaving: set[NodeId] = set()
        self._since: dict[NodeId, ChangesSince] = {}

    def leaving(self, node: NodeId) -> bool:
        """Whether a node is being removed, so that it must not enter the logical topology."""
        return node in self._leaving

    def all_leaving(self) -> frozenset[NodeId]:
        return frozenset(self._leaving)

    async def stream(self, request: RemoveNode) -> AsyncGenerator[WaitingFor | NodeRemoved, None]:
        """Removes a node: progress first, then the answer; also if it was removed before."""
        catalog = self._writer.catalog
        node = find_node(request.name, request.node, catalog)
        if node.removed:
            yield NodeRemoved(node=node.id, name=node.name, revision=catalog.revision, buckets=0, lost=0, already=True)
            return
        answer = self._running.get(node.id) or self._begin(node.id, request)
        while not answer.done():
            await asyncio.wait([answer], timeout=PROGRESS_INTERVAL_NS / SECOND_NS)
            left_ns = self._lease_left_ns(node.id)
            if left_ns and not answer.done():
                yield WaitingFor(statement_id=StatementId(""), nodes=(node.name,), at_most_ns=left_ns)
        if answer.cancelled():
            raise Indefinite("the coordinator stopped during the removal", hint="ask again: the next leader answers")
        yield answer.result()

    def committed(self, batch: RevisionChanges, catalog: Catalog) -> None:
        """Ends the lease and the session of a node as soon as its tombstone is durable."""
        for since in self._since.values():
            since.hear((change.key for change in batch.changes), catalog)
        for node in changed_nodes(batch, catalog):
            if node.removed and self._leasing.grantor.held(node.id) is not None:
                self._leasing.step(RemovalDurable(node=node.id))
                self._end_session(node.id, _removed(node))

    def _begin(self, node: NodeId, request: RemoveNode) -> "asyncio.Future[NodeRemoved]":
        if len(self._running) >= REMOVALS_MAX:
            text = f"{REMOVALS_MAX} nodes are being removed"
            raise Refused(text, code=ErrorCode.BUSY, hint="try again in a moment")
        answer: asyncio.Future[NodeRemoved] = asyncio.get_running_loop().create_future()
        work = self._run(node, request, answer)
        try:
            task = self._group.create_task(work)
        except RuntimeError as error:  # the group is ending: so is this leader
            work.close()
            raise NotLeader(
                "this coordinator is ending its leadership", hint="ask another coordinator, or try again in a moment"
            ) from error
        self._running[node] = answer
        # A task that is cancelled before its first step does not even run its `finally`.
        task.add_done_callback(lambda _: (answer.cancel(), self._running.pop(node, None)))
        return answer

    async def _run(self, node: NodeId, request: RemoveNode, answer: "asyncio.Future[NodeRemoved]") -> None:
        try:
            removed = await self._remove(node, request)
        except LeaseholdError as error:
            if node in self._leaving:
                self._leaving.discard(node)
                # A new session, since what the node asked meanwhile was not answered.
                self._end_session(node, _being_removed(self._writer.catalog.nodes[node]))
            answer.set_exception(error)
            answer.exception()  # its client may be gone
        else:
            self._leaving.discard(node)
            answer.set_result(removed)
        finally:
            self._since.pop(node, None)

    async def _remove(self, node: NodeId, request: RemoveNode) -> NodeRemoved:
        found = await self._count(node)
        check_allowed(found, self._writer.catalog, force=request.force)
        self._leaving.add(node)
        self._leasing.step(MemberLeft(node=node, incarnation=self._writer.catalog.nodes[node].incarnation))
        lost: Census | None = None

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            nonlocal lost
            check_request(request, catalog)
            record = catalog.nodes[node]
            if record.removed or self._lease_left_ns(node):  # a new process has got a lease meanwhile
                return ()
            since = self._since[node].with_more(self._writer.drafted, catalog)
            if since.is_too_much:
                return ()
            lost = recounted(found, since.touched, catalog)
            check_allowed(lost, catalog, force=request.force)
            held = self._leasing.grantor.held(node)
            if held is not None and held.closed is None:
                # Before the write, so that no commit counts on it even if the outcome of the write is unknown.
                self._leasing.step(IncarnationClosed(node=node, incarnation=held.incarnation))
                # A new session will tell it that it was removed.
                self._end_session(node, _being_removed(record))
            return (*tombstone(record, catalog), certified_later(record.name, catalog, self._wall_us()))

        for _ in range(REMOVAL_CENSUSES_MAX):
            await self._until_lease_ended(node)
            if self._since[node].is_too_much:
                found = await self._count(node)
            # Its incarnation is closed by now and never serves again. So this insists until the store has room.
            revision = await insist(self._writer, self._clock, decide, f"the removal of node {node}")
            record = self._writer.catalog.nodes[node]
            if record.removed:
                break
        else:
            text = f"the tables of node {node} change faster than its segments can be counted"
            raise Refused(text, code=ErrorCode.BUSY, hint="try again when fewer rows are written")
        counted = lost or found
        log.info("node %d (%s) was removed at revision %d", node, record.name, revision)
        return NodeRemoved(
            node=node, name=record.name, revision=revision, buckets=len(counted.buckets), lost=counted.lost
        )

    async def _count(self, node: NodeId) -> Census:
        """A census as of now; changes from here on are noted."""
        self._since[node] = ChangesSince(self._recounted_max)
        # Up to all buckets and their segments: not on the loop that grants leases.
        return await self._threads.run(partial(census, node, self._writer.catalog))

    async def _until_lease_ended(self, node: NodeId) -> None:
        while left_ns := self._lease_left_ns(node):
            await self._clock.sleep_until(self._clock.now_ns() + left_ns)

    def _lease_left_ns(self, node: NodeId) -> int:
        """How long a process of the node may still serve."""
        held = self._leasing.grantor.held(node)
        return 0 if held is None or held.closed is not None else max(0, held.bound_ns - self._clock.now_ns())


def _being_removed(node: NodeRecord) -> Unreachable:
    return Unreachable(f"node {node.id} ({node.name}) is being removed", hint="the node asks again")


def _removed(node: NodeRecord) -> Refused:
    return Refused(
        f"node {node.id} ({node.name}) is removed from the cluster",
        code=ErrorCode.REMOVED,
        hint="move this directory away and start with an empty one: the machine joins as a new node",
    )
