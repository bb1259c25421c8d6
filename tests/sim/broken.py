"""Worlds broken on purpose, one rule each: what proves that the invariants would fire."""

from typing import NamedTuple

import msgspec

from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import AcceptEndReport, RefuseRenewal, RenewalReceived, SurrenderReceived
from leasehold.core.lease.holder import NO_LEASE, GrantReceived, Holder, Pass, PublishLease
from leasehold.core.words.messages import Renewal, RenewalRefused
from leasehold.core.words.records import SettledHow
from leasehold.core.words.time_passed import TimePassed
from leasehold.testing.leases.ground import SETTINGS, Parts


def refused_wrongly(renewal: Renewal, code: str) -> RefuseRenewal:
    """A refusal that ends the process, for no reason."""
    return RefuseRenewal(refused=RenewalRefused(request=renewal.request, code=code, text="wrongly"))


class StampsOnReceipt(Holder):
    """Deadline from the receive time."""

    def step(self, event, now_ns):
        if isinstance(event, GrantReceived) and event.grant.request in self._stamps:
            self._stamps[event.grant.request] = now_ns
        return super().step(event, now_ns)


class NoFloor(Grantor):
    """The floor never rises above zero."""

    def step(self, event, now_ns):
        self._floor = 0
        effects = super().step(event, now_ns)
        self._floor = 0
        return effects


class FloorOfElectionOnly(Grantor):
    """The floor of the election stays; barriers don't raise it."""

    def _on_barrier(self, event, now_ns):
        floor = self._floor
        super()._on_barrier(event, now_ns)
        self._floor = floor


class DoesNotWait(Grantor):
    """A new leader counts nobody as granted by its predecessors."""

    def __init__(self, *, now_ns, **rest):
        super().__init__(now_ns=now_ns, **rest)
        self._held = {node: msgspec.structs.replace(one, bound_ns=now_ns) for node, one in self._held.items()}


class ForgetsLongerDurations(Grantor):
    """A new leader counts its own duration, not the largest outstanding one."""

    def __init__(self, *, largest_outstanding_ns, **rest):
        super().__init__(largest_outstanding_ns=0, **rest)


class GrantsForEver(Grantor):
    """Grants and proceeds although its leadership has ended."""

    def _leads(self, now_ns):
        return True


class HearsOldIncarnations(Grantor):
    """Takes every renewal for one of the newest incarnation."""

    def step(self, event, now_ns):
        if isinstance(event, RenewalReceived):
            held = self._held.get(event.renewal.node)
            if held is not None and held.session_hash is not None:
                session = held.session_hash.decode()
                renewal = msgspec.structs.replace(event.renewal, incarnation=held.incarnation, session=session)
                event = RenewalReceived(renewal=renewal)
        return super().step(event, now_ns)


class HearsOldSurrenders(Grantor):
    """Takes every surrender for one of the newest incarnation."""

    def step(self, event, now_ns):
        if isinstance(event, SurrenderReceived):
            held = self._held.get(event.surrender.node)
            if held is not None and held.session_hash is not None:
                session = held.session_hash.decode()
                surrender = msgspec.structs.replace(event.surrender, incarnation=held.incarnation, session=session)
                event = SurrenderReceived(surrender=surrender)
        return super().step(event, now_ns)


class BelievesEveryEndReport(Grantor):
    """Takes every report of an end for one of the newest process."""

    def _on_end_reported(self, report, now_ns):
        held = self._held.get(report.node)
        if held is None:
            return ()
        self._close(report.node, held, SettledHow.ENDED, now_ns)
        return (AcceptEndReport(),)


class FollowsTheBound(Grantor):
    """Barriers judge by bounds that are not frozen, and forget what nodes held before the floor rose."""

    def _on_barrier(self, event, now_ns):
        held = self._held
        self._held = {node: msgspec.structs.replace(one, bound_ns=now_ns) for node, one in held.items()}
        super()._on_barrier(event, now_ns)
        self._held = held


class KeepsReports(Grantor):
    """What an older incarnation reported counts for the newer one."""

    def _on_joined(self, event, now_ns):
        before = self._held.get(event.node)
        super()._on_joined(event, now_ns)
        if before is not None:
            joined = self._held[event.node]
            self._held[event.node] = msgspec.structs.replace(joined, applied=before.applied)


class RaisesAFlag(Holder):
    """The fence is a flag that a timer puts up: the lease is published as ended only when the timer runs."""

    def step(self, event, now_ns):
        effects = super().step(event, now_ns)
        if isinstance(event, TimePassed) and now_ns >= self._lease.deadline_ns and self._lease is not NO_LEASE:
            self._lease = NO_LEASE
            return (*effects, PublishLease(lease=NO_LEASE))
        return effects


def guard_by_flag(published, now_ns):
    lease = published.lease
    if lease is NO_LEASE:
        return None
    return Pass(published.view, lease, now_ns())


def guard_view_first(published, now_ns):
    view = published.view
    lease = published.lease
    instant_ns = now_ns()
    return None if instant_ns >= lease.deadline_ns else Pass(view, lease, instant_ns)


def guard_that_never_looks_back(published, now_ns):
    """Trusts the deadline alone: a lease given back while it was paused still runs by the clock."""
    lease = published.lease
    instant_ns = now_ns()
    return Pass(published.view, lease, instant_ns) if instant_ns < lease.deadline_ns else None


def guard_view_between(published, now_ns):
    lease = published.lease
    view = published.view
    instant_ns = now_ns()
    return None if instant_ns >= lease.deadline_ns else Pass(view, lease, instant_ns)


class Break(NamedTuple):
    """A broken world, and the invariant that must notice."""

    invariant: str
    parts: Parts


NO_MARGIN = msgspec.structs.replace(SETTINGS, lease_margin_ns=0)

BREAKS = {
    "deadline from the receive time": Break("INV-LEASE-1", Parts(holder=StampsOnReceipt)),
    "no drift factor": Break("INV-LEASE-1", Parts(settings=msgspec.structs.replace(NO_MARGIN, drift_ppm=0))),
    "no floor": Break("INV-LEASE-2", Parts(grantor=NoFloor)),
    "barriers don't raise the floor": Break("INV-LEASE-2", Parts(grantor=FloorOfElectionOnly)),
    "no floor, seen by the barrier": Break("INV-BARRIER-1", Parts(grantor=NoFloor)),
    "a new leader that doesn't wait": Break("INV-LEASE-3", Parts(grantor=DoesNotWait)),
    "a leader past its leadership": Break("INV-LEASE-3", Parts(grantor=GrantsForEver)),
    "the bounds of a barrier ignored": Break("INV-BARRIER-1", Parts(grantor=FollowsTheBound)),
    "guard reads the view first": Break("INV-BARRIER-1", Parts(guard=guard_view_first)),
    "guard reads the view before the clock": Break("INV-BARRIER-1", Parts(guard=guard_view_between)),
    "guard by a flag": Break("INV-BARRIER-1", Parts(guard=guard_by_flag, holder=RaisesAFlag)),
    "serves by a flag": Break("INV-SERVE-1", Parts(guard=guard_by_flag, holder=RaisesAFlag)),
    "an old incarnation heard": Break("INV-ID-2", Parts(grantor=HearsOldIncarnations)),
    "an old surrender heard": Break("INV-ID-2", Parts(grantor=HearsOldSurrenders)),
    "an old report of an end heard": Break("INV-ID-2", Parts(grantor=BelievesEveryEndReport)),
    "an old report of an end ends a live lease": Break("INV-LEASE-1", Parts(grantor=BelievesEveryEndReport)),
    "an old report of an end lets a barrier proceed": Break("INV-BARRIER-1", Parts(grantor=BelievesEveryEndReport)),
    "an old surrender ends a live lease": Break("INV-LEASE-1", Parts(grantor=HearsOldSurrenders)),
}
