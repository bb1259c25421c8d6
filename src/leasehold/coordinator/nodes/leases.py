"""Leases at the leader: feeds the grantor, sends what it says, and turns barriers into something to await."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import assert_never

import msgspec

from leasehold.coordinator.nodes.seals import Seals
from leasehold.core.lease.barrier import Fail, KeepWaiting, Proceed
from leasehold.core.lease.grantor import (
    AcceptSurrender,
    BarrierRequested,
    Grantor,
    GrantorEvent,
    IncarnationJoined,
    RefuseRenewal,
    RemovalCommitted,
    RenewalReceived,
    ReportVerdict,
    SendGrant,
    SettingsChanged,
)
from leasehold.core.words.messages import Message, Renewal, RenewalRefused, SurrenderAccepted
from leasehold.core.words.records import BarrierReceipt, SettingsRecord
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.ids import Incarnation, LineageHash, NodeId, Revision
from leasehold.limits.lease import LINEAGES_KEPT
from leasehold.wire.deadline import DeadlineTimer
from leasehold.wire.ports import Clock

Reply = Callable[[Message], None]
"""Hands a message to the stream that a node's own came on."""


def _nobody(message: Message) -> None:
    raise AssertionError(f"nobody asked for a {type(message).__name__}")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a barrier waits for, and how much longer at most."""

    nodes: tuple[NodeId, ...]
    at_most_ns: int


class RunningBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """One that was asked for; `number` to look at it while it runs, None if it waits for nobody."""

    revision: Revision
    give_up_ns: int | None
    number: int | None
    verdict: "asyncio.Future[Proceed | Fail]"


class Leasing:
    """One leader's leases. Answers to a node's message go to the stream that it came on, and to no other."""

    def __init__(self, grantor: Grantor, clock: Clock) -> None:
        self._grantor = grantor
        self._clock = clock
        self._deadline = DeadlineTimer(clock, lambda: self.step(TimePassed()))
        self._barriers: dict[int, RunningBarrier] = {}
        self._next_barrier = 1
        self._lineages: OrderedDict[Revision, LineageHash] = OrderedDict()
        self._known = Revision(0)
        self._newest: BarrierReceipt | None = None
        self._lease_ends: dict[NodeId, int] = {}
        self.seals = Seals(clock)
        """What is known of the live incarnations' seals."""

    @property
    def grantor(self) -> Grantor:
        """The state machine, to look at; events go through `step`."""
        return self._grantor

    @property
    def settled(self) -> Revision:
        """Nothing older than this is served any more."""
        return Revision(0) if self._newest is None else self._newest.revision

    def step(self, event: GrantorEvent, reply: Reply = _nobody) -> None:
        """Feeds one event; the clock is read here, after the event came in. `reply` takes the answer to a message."""
        now_ns = self._clock.now_ns()
        if isinstance(event, IncarnationJoined | RemovalCommitted):
            self._lease_ends.pop(event.node, None)
        for effect in self._grantor.step(event, now_ns):
            match effect:
                case SendGrant(node=node, grant=grant):
                    self._lease_ends[node] = max(self._lease_ends.get(node, 0), now_ns + grant.duration_ns)
                    reply(grant)
                case RefuseRenewal(refused=refused):
                    reply(refused)
                case AcceptSurrender():
                    reply(SurrenderAccepted())
                case ReportVerdict(number=number, verdict=verdict):
                    self._end(self._barriers.pop(number), verdict)
                case _:
                    assert_never(effect)
        self._deadline.set(self._grantor.next_deadline_ns())

    def renew(self, renewal: Renewal, reply: Reply) -> None:
        """A renewal from an open session; one whose history differs from ours is refused for good.

        A node can be ahead of this leader by what is being committed this moment, no more: a revision that is not
        known here settles nothing, whatever a node says of it.
        """
        if renewal.applied > self._known:
            renewal = msgspec.structs.replace(renewal, applied=self._known, lineage=self._lineages[self._known])
        expected = self._lineages.get(renewal.applied)
        if expected is not None and expected != renewal.lineage:
            text = f"another history than the cluster's at revision {renewal.applied}"
            reply(RenewalRefused(request=renewal.request, code=ErrorCode.DIVERGED, text=text))
            return
        self.step(RenewalReceived(renewal=renewal), reply)

    def committed(self, revision: Revision, lineage: LineageHash) -> None:
        """Remembers the hash of a revision, to compare renewals with."""
        self._known = revision
        self._lineages[revision] = lineage
        if len(self._lineages) > LINEAGES_KEPT:
            self._lineages.popitem(last=False)

    def follow(self, settings: SettingsRecord | None, revision: Revision) -> None:
        """Grants by these settings from here on, if they are not those already; they are durable at `revision`."""
        if settings is not None and settings != self._grantor.settings:
            self.step(SettingsChanged(settings=settings, revision=revision))

    def lease_end_ns(self, node: NodeId) -> int:
        """About when the lease of a node's incarnation ends, on this clock: for people, no proof of anything."""
        return self._lease_ends.get(node, 0)

    def live_incarnations(self, nodes: list[NodeId]) -> dict[NodeId, Incarnation]:
        """The incarnation heard from now on, of each node that has not closed it."""
        live: dict[NodeId, Incarnation] = {}
        for node in nodes:
            held = self._grantor.held(node)
            if held is not None and held.closed is None:
                live[node] = held.incarnation
        return live

    def ask(self, revision: Revision, *, give_up_ns: int | None = None) -> RunningBarrier:
        """Begins to wait until nothing older than `revision` can be served, at most until `give_up_ns`.

        It has proceeded at once if a later barrier has proved it. Those who ask alike share one.
        """
        newest = self._newest
        if newest is not None and revision <= newest.revision:
            # Settled before it was asked for, so it waits for nobody.
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
        self.step(BarrierRequested(number=number, revision=revision, give_up_ns=give_up_ns))
        return barrier

    def waiting(self, number: int | None) -> Waiting | None:
        """Whom a running barrier waits for; None once it has ended."""
        if number is None or number not in self._barriers:
            return None
        now_ns = self._clock.now_ns()
        verdict = self._grantor.verdict(number, now_ns)
        if isinstance(verdict, KeepWaiting):
            return Waiting(nodes=verdict.pending, at_most_ns=max(0, verdict.until_ns - now_ns))
        return None

    def stop(self) -> None:
        """Takes the timer back; barriers that run are cancelled with those who await them."""
        self._deadline.cancel()

    def _end(self, barrier: RunningBarrier, verdict: Proceed | Fail) -> None:
        if isinstance(verdict, Proceed) and self.settled < barrier.revision:
            self._newest = verdict.receipt
        if not barrier.verdict.done():
            barrier.verdict.set_result(verdict)
