"""The lease: how a node may serve from its own copy of the catalog, and how a leader knows when it can't any more.

Theory of operation (docs/design.md, "Lease"). The **holder** stamps a renewal at local time `s` before the renewal
leaves. A grant that echoes the renewal sets the deadline to at most `s + duration`. Before it answers, the **grantor**
notes its bound: its own receive time, plus the duration as the fastest clock would count it, plus a margin. It received
after `s`, so in real time its bound is later than the holder's deadline. Late, lost, doubled or reordered messages only
shorten a lease (INV-LEASE-1).

No holder behind the floor gets a grant (INV-LEASE-2). A **barrier** raises the floor to R and freezes the bounds noted
until then. Once each holder has reported R or its frozen bound has passed, no view older than R is served again
(INV-BARRIER-1). A new leader counts every registered node as granted at its election (INV-LEASE-3).

This file is the holder and its guard; the leader's side is `core/lease/grantor.py`, its wait `core/lease/barrier.py`.

| holder       | event           | next         |
| no lease     | grant           | leased       |
| leased       | grant           | leased       |
| leased       | deadline passes | no lease     |
| either       | surrender asked | surrendering |
| surrendering | drained         | surrendered  |
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar, assert_never

import msgspec

from leasehold.core.words.messages import Grant, Renewal, Surrender
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import Incarnation, LineageHash, NodeId, RequestNumber, Revision, Sequence, Session, Term
from leasehold.limits.lease import LEASE_DURATION_MAX_NS, RENEWALS_OUTSTANDING_MAX


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to serve while the local clock is before `deadline_ns`; replaced whole by one assignment."""

    term: Term
    sequence: Sequence
    deadline_ns: int


NO_LEASE = Lease(term=Term(0), sequence=Sequence(0), deadline_ns=-1)
"""What a node starts with and what it publishes when it surrenders: ended at every instant."""


View_co = TypeVar("View_co", covariant=True)
"""Whatever is published as a view: an immutable object that shows one revision."""


class PublishedView(Protocol[View_co]):
    """Where a node publishes its view and its lease, each by a single assignment."""

    @property
    def view(self) -> View_co: ...

    @property
    def lease(self) -> Lease: ...


class Pass(msgspec.Struct, Generic[View_co], frozen=True, gc=False):
    """A guard that passed: what may be released, under which lease, and the release instant."""

    view: View_co
    lease: Lease
    released_ns: int


def guard(published: PublishedView[View_co], now_ns: Callable[[], int]) -> Pass[View_co] | None:
    """Reads the deadline, then the clock, then the view, then once more the lease; None when fenced.

    A view read before the clock could be one that a barrier had left behind by the time the clock was read
    (INV-BARRIER-1). A surrendered lease still runs by the clock, so the lease is read again at the end.
    """
    lease = published.lease
    instant_ns = now_ns()
    if instant_ns >= lease.deadline_ns:
        return None
    view = published.view
    if published.lease is NO_LEASE:
        return None
    return Pass(view, lease, instant_ns)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The node has published the view of a revision. `urgent`: a statement may be waiting for it."""

    revision: Revision
    lineage: LineageHash
    urgent: bool


class GrantReceived(msgspec.Struct, frozen=True, kw_only=True):
    """A grant has arrived, whenever it was sent."""

    grant: Grant


class SessionEstablished(msgspec.Struct, frozen=True, kw_only=True):
    """A stream to the leader of `term` is open: renew on it at once."""

    term: Term


class SurrenderRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The process is about to stop in order."""


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is being served any more."""


HolderEvent: TypeAlias = Applied | GrantReceived | SessionEstablished | TimePassed | SurrenderRequested | Drained


class SendRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """Hand this renewal to the transport, now: its time is already running."""

    renewal: Renewal


class PublishLease(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the published lease."""

    lease: Lease


class SendSurrender(msgspec.Struct, frozen=True, kw_only=True):
    """Send the last message of this incarnation."""

    surrender: Surrender


HolderEffect: TypeAlias = SendRenewal | PublishLease | SendSurrender


class Holder:
    """The node's side. One per incarnation and session; `step` is its only door."""

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: Incarnation,
        session: Session,
        applied: Revision,
        lineage: LineageHash,
        renew_every_ns: int,
    ) -> None:
        assert incarnation > 0, "a lease belongs to a joined incarnation"
        assert renew_every_ns > 0
        self._node = node
        self._incarnation = incarnation
        self._session = session
        self._applied = applied
        self._lineage = lineage
        self._renew_every_ns = renew_every_ns
        self._lease = NO_LEASE
        self._term = Term(0)
        self._next_request = RequestNumber(1)
        self._stamps: dict[RequestNumber, int] = {}
        self._renew_at_ns: int | None = None
        self._stopping = False

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def term(self) -> Term:
        return self._term

    @property
    def applied(self) -> Revision:
        return self._applied

    def awaits(self, request: RequestNumber) -> bool:
        """Whether this renewal was sent and has not been answered, as far as is remembered."""
        return request in self._stamps

    def next_deadline_ns(self) -> int | None:
        """When to call with `TimePassed`; None until a session is established."""
        return self._renew_at_ns

    def step(self, event: HolderEvent, now_ns: int) -> tuple[HolderEffect, ...]:
        """Takes one event; `now_ns` must have been read before anything it leads to is sent."""
        match event:
            case Applied():
                return self._on_applied(event, now_ns)
            case GrantReceived(grant=grant):
                return self._on_grant(grant)
            case SessionEstablished(term=term):
                # A stream to an older leader is useless: its grants would be ignored.
                return self._renew(now_ns) if term >= self._term and not self._stopping else ()
            case TimePassed():
                due = self._renew_at_ns is not None and now_ns >= self._renew_at_ns
                return self._renew(now_ns) if due else ()
            case SurrenderRequested():
                self._stopping = True
                self._renew_at_ns = None
                self._stamps.clear()
                self._lease = NO_LEASE
                return (PublishLease(lease=NO_LEASE),)
            case Drained():
                assert self._stopping, "drained before the surrender was asked for"
                surrender = Surrender(node=self._node, incarnation=self._incarnation, session=self._session)
                return (SendSurrender(surrender=surrender),)
            case _:
                assert_never(event)

    def _on_applied(self, event: Applied, now_ns: int) -> tuple[HolderEffect, ...]:
        assert event.revision > self._applied, "a view never goes back (INV-BARRIER-1)"
        self._applied = event.revision
        self._lineage = event.lineage
        if event.urgent and self._renew_at_ns is not None:
            # Beside the regular ones: all nodes apply a revision at once, and would renew in step from then on.
            return self._ask(now_ns)
        return ()

    def _renew(self, now_ns: int) -> tuple[HolderEffect, ...]:
        self._renew_at_ns = now_ns + self._renew_every_ns
        return self._ask(now_ns)

    def _ask(self, now_ns: int) -> tuple[HolderEffect, ...]:
        request = self._next_request
        self._next_request = RequestNumber(request + 1)
        self._stamps[request] = now_ns
        if len(self._stamps) > RENEWALS_OUTSTANDING_MAX:
            del self._stamps[min(self._stamps)]
        renewal = Renewal(
            node=self._node,
            incarnation=self._incarnation,
            session=self._session,
            request=request,
            applied=self._applied,
            lineage=self._lineage,
        )
        return (SendRenewal(renewal=renewal),)

    def _on_grant(self, grant: Grant) -> tuple[HolderEffect, ...]:
        stamp_ns = self._stamps.pop(grant.request, None)
        if stamp_ns is None or self._stopping:
            return ()  # doubled, very late, or never asked for
        if (grant.term, grant.sequence) <= (self._lease.term, self._lease.sequence) or grant.term < self._term:
            return ()  # an older leader, or an older grant that was overtaken
        if grant.duration_ns > LEASE_DURATION_MAX_NS:
            return ()  # no setting allows it
        if grant.floor > self._applied:
            return ()  # a sound leader never sends this (INV-LEASE-2); a holder does not rely on it
        self._term = grant.term
        self._lease = Lease(
            term=grant.term,
            sequence=grant.sequence,
            # Deadlines move only forward: an earlier grant is not taken back by a shorter one.
            deadline_ns=max(self._lease.deadline_ns, stamp_ns + grant.duration_ns),
        )
        return (PublishLease(lease=self._lease),)
