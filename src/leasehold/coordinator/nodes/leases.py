"""Leases at the leader: feeds the grantor, sends its answers, and makes barriers awaitable."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from leasehold.coordinator.nodes.seals import Seals
from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.settings import largest_lease_lowered
from leasehold.core.lease import grants
from leasehold.core.lease.barrier import Fail, KeepWaiting, Proceed
from leasehold.core.lease.drift import lasts_ns
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import GrantorEvent
from leasehold.core.words.messages import Message, ProcessEndReported, Renewal, RenewalRefused, SurrenderAccepted
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BarrierReceipt
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.ids import Incarnation, LineageHash, NodeId, Revision
from leasehold.limits.lease import BOUND_SLACK_NS, LINEAGES_KEPT
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.deadline import DeadlineTimer
from leasehold.wire.ports import Clock

Reply = Callable[[Message], None]
"""Sends a message to the stream that the node's message came on."""

_TENTH_NS = 100 * MILLISECOND_NS


def _nobody(message: Message) -> None:
    raise AssertionError(f"nobody asked for a {type(message).__name__}")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a barrier waits for, and how much longer at most."""

    nodes: tuple[NodeId, ...]
    at_most_ns: int


class RunningBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """A barrier that was asked for; `number` is None if it waits for no node."""

    revision: Revision
    give_up_ns: int | None
    number: int | None
    verdict: "asyncio.Future[Proceed | Fail]"


class Leasing:
    """One leader's leases. The answer to a node's message goes only to the stream that the message came on."""

    def __init__(self, grantor: Grantor, clock: Clock) -> None:
        self.grantor: Final = grantor
        """The state machine, to look at; events go through `step`."""
        self._clock = clock
        self._deadline = DeadlineTimer(clock, lambda: self.step(TimePassed()))
        self._barriers: dict[int, RunningBarrier] = {}
        self._next_barrier = 1
        self._lineages: OrderedDict[Revision, LineageHash] = OrderedDict()
        self._known = Revision(0)
        self._newest: BarrierReceipt | None = None
        self._lease_ends: dict[NodeId, int] = {}
        self.seals = Seals(clock)

    @property
    def settled(self) -> Revision:
        """No node serves an older revision any more."""
        return Revision(0) if self._newest is None else self._newest.revision

    def step(self, event: GrantorEvent, reply: Reply = _nobody) -> None:
        """Feeds one event; the clock is read after the event came in. `reply` takes the answer to a message."""
        now_ns = self._clock.now_ns()
        if isinstance(event, grants.IncarnationJoined | grants.RemovalCommitted):
            self._lease_ends.pop(event.node, None)
        for effect in self.grantor.step(event, now_ns):
            match effect:
                case grants.SendGrant(node=node, grant=grant):
                    self._lease_ends[node] = max(self._lease_ends.get(node, 0), now_ns + grant.duration_ns)
                    reply(grant)
                case grants.RefuseRenewal(refused=refused):
                    reply(refused)
                case grants.AcceptSurrender():
                    reply(SurrenderAccepted())
                case grants.AcceptEndReport():
                    reply(ProcessEndReported())
                case grants.ReportVerdict(number=number, verdict=verdict):
                    self._end(self._barriers.pop(number), verdict)
                case _:
                    assert_never(effect)
        self._deadline.set(self.grantor.next_deadline_ns())

    def renew(self, renewal: Renewal, reply: Reply) -> None:
        """Takes a renewal from an open session; one with another history is refused for good. A node can be ahead of
        this leader only by a commit that is not answered yet: a revision that is not known here settles nothing."""
        if renewal.applied > self._known:
            renewal = msgspec.structs.replace(renewal, applied=self._known, lineage=self._lineages[self._known])
        expected = self._lineages.get(renewal.applied)
        if expected is not None and expected != renewal.lineage:
            text = f"another history than the cluster's at revision {renewal.applied}"
            reply(RenewalRefused(request=renewal.request, code=ErrorCode.DIVERGED, text=text))
            return
        self.step(grants.RenewalReceived(renewal=renewal), reply)

    def committed(self, catalog: Catalog) -> None:
        """Remembers the hash of a durable revision, to compare renewals with, and grants by its settings."""
        self._known = catalog.revision
        self._lineages[catalog.revision] = catalog.lineage
        if len(self._lineages) > LINEAGES_KEPT:
            self._lineages.popitem(last=False)
        if catalog.settings is not None and catalog.settings != self.grantor.settings:
            self.step(grants.SettingsChanged(settings=catalog.settings, revision=catalog.revision))

    def published_bound_ns(self) -> int:
        """The published bound of a statement that is decided now, in whole tenths of a second, rounded up. It counts
        the leases that are out: a shorter duration shortens it once the last longer lease has ended."""
        longest_ns = self.grantor.longest_wait_ns(self._clock.now_ns())
        bound_ns = lasts_ns(longest_ns, self.grantor.settings.drift_ppm) + BOUND_SLACK_NS
        return -(-bound_ns // _TENTH_NS) * _TENTH_NS

    async def lower_largest_lease(self, writer: Writer) -> None:
        """Lowers the largest lease that later leaders count, once every older, longer grant has ended (L10)."""

        def decide(catalog: Catalog) -> tuple[Change, ...]:
            # The grantor may not have heard of these settings yet: then its grants still go by the older ones.
            if catalog.settings != self.grantor.settings or self._clock.now_ns() < self.grantor.older_until_ns:
                return ()
            return largest_lease_lowered(catalog)

        if largest_lease_lowered(writer.catalog):
            await writer.submit(decide)

    def lease_end_ns(self, node: NodeId) -> int:
        """About when the lease of a node's incarnation ends, on this clock: for people, not a proof."""
        return self._lease_ends.get(node, 0)

    def leased(self) -> frozenset[NodeId]:
        """The nodes whose lease has not ended, by `lease_end_ns`."""
        now_ns = self._clock.now_ns()
        return frozenset(node for node, end_ns in self._lease_ends.items() if now_ns < end_ns)

    def live_incarnations(self, nodes: list[NodeId]) -> dict[NodeId, Incarnation]:
        live: dict[NodeId, Incarnation] = {}
        for node in nodes:
            held = self.grantor.held(node)
            if held is not None and held.closed is None:
                live[node] = held.incarnation
        return live

    def ask(self, revision: Revision, *, give_up_ns: int | None = None) -> RunningBarrier:
        """Begins to wait until no node can serve an older revision, at most until `give_up_ns`. It has proceeded
        already if a later barrier has. The same question again gets the same barrier."""
        newest = self._newest
        if newest is not None and revision <= newest.revision:
            settled = tuple(msgspec.structs.replace(one, after_ns=0) for one in newest.settled)
            answer: asyncio.Future[Proceed | Fail] = asyncio.get_running_loop().create_future()
            answer.set_result(Proceed(receipt=msgspec.structs.replace(newest, revision=revision, settled=settled)))
            return RunningBarrier(revision=revision, give_up_ns=give_up_ns, number=None, verdict=answer)
        for running in self._barriers.values():
            if (running.revision, running.give_up_ns) == (revision, give_up_ns):
                return running
        number = self._next_barrier
        self._next_barrier += 1
        verdict: asyncio.Future[Proceed | Fail] = asyncio.get_running_loop().create_future()
        barrier = RunningBarrier(revision=revision, give_up_ns=give_up_ns, number=number, verdict=verdict)
        self._barriers[number] = barrier
        self.step(grants.BarrierRequested(number=number, revision=revision, give_up_ns=give_up_ns))
        return barrier

    def waiting(self, number: int | None) -> Waiting | None:
        """The nodes that a running barrier waits for; None once it has ended."""
        if number is None or number not in self._barriers:
            return None
        now_ns = self._clock.now_ns()
        verdict = self.grantor.verdict(number, now_ns)
        if isinstance(verdict, KeepWaiting):
            return Waiting(nodes=verdict.pending, at_most_ns=max(0, verdict.until_ns - now_ns))
        return None

    def stop(self) -> None:
        """Cancels the timer. Tasks that await a barrier end with the leader's other tasks."""
        self._deadline.cancel()

    def _end(self, barrier: RunningBarrier, verdict: Proceed | Fail) -> None:
        if isinstance(verdict, Proceed) and self.settled < barrier.revision:
            self._newest = verdict.receipt
        if not barrier.verdict.done():
            barrier.verdict.set_result(verdict)
