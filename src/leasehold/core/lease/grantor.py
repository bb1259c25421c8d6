"""The grantor: the leader's side of the lease (theory in `core/lease/holder.py`), for one term.

| a node's lease | event                    | next                 |
| granted        | renewal at the floor     | granted, later bound |
| granted        | renewal below the floor  | granted, same bound  |
| granted        | its bound passes         | ended                |
| ended          | renewal at the floor     | granted, later bound |
| any            | surrender, or a join     | closed               |
| any            | report of its end        | closed               |
| closed         | the join is durable      | ended                |
| any but granted | removal                 | forgotten            |

Only a member of the logical topology gets a grant, and only once it has applied what was required of it when it
entered (INV-REC-3); what others report counts for barriers all the same.
"""

from collections.abc import Callable, Mapping
from typing import Final, assert_never

import msgspec

from leasehold.core.lease import grants
from leasehold.core.lease.barrier import Barrier, Pending, Verdict
from leasehold.core.lease.drift import grant_bound_ns
from leasehold.core.lease.grants import GrantorEffect, GrantorEvent, HeldLease, Registered
from leasehold.core.lease.process_end import proves_end
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, ReportProcessEnd, Surrender
from leasehold.core.words.records import SettingsRecord, SettledHow
from leasehold.core.words.time_passed import TimePassed
from leasehold.error_codes import ErrorCode
from leasehold.ids import STRANGERS, Incarnation, NodeId, Revision, Sequence, Session, Term


class Grantor:
    """The leader's side of the lease. `hash_session` turns a session into what records hold of it. With `strangers`,
    nodes that are not registered may hold leases from before (`core.membership.generations`)."""

    def __init__(
        self,
        *,
        term: Term,
        floor: Revision,
        settings: SettingsRecord,
        largest_outstanding_ns: int,
        registered: Mapping[NodeId, Registered],
        hash_session: Callable[[Session], bytes],
        leads_until_ns: int | None,
        now_ns: int,
        strangers: bool = False,
    ) -> None:
        self.term: Final = term
        self._floor = floor
        self._settings = settings
        self._hash_session = hash_session
        self._leads_until_ns = leads_until_ns
        self._over = False
        self._sequence = Sequence(0)
        self._barriers: dict[int, Barrier] = {}
        bound_ns = now_ns + grant_bound_ns(settings, max(largest_outstanding_ns, settings.lease_duration_ns))
        self._older_until_ns = bound_ns
        self._strangers_until_ns = bound_ns if strangers else now_ns
        self._held = {
            node: HeldLease(
                incarnation=one.incarnation,
                session_hash=one.session_hash,
                bound_ns=bound_ns,
                applied=None,
                closed=None,
                required=Revision(0) if one.member else None,  # the floor is LM
                end_hash=one.end_hash,
            )
            for node, one in sorted(registered.items())
            if one.incarnation > 0
        }

    @property
    def floor(self) -> Revision:
        """The revision that a holder must have applied to get a grant."""
        return self._floor

    @property
    def sequence(self) -> Sequence:
        """The number of the last grant of this term."""
        return self._sequence

    @property
    def settings(self) -> SettingsRecord:
        return self._settings

    @property
    def older_until_ns(self) -> int:
        """When every grant has ended that was given under other settings, by this leader or an older one."""
        return self._older_until_ns

    def longest_wait_ns(self, now_ns: int) -> int:
        """How long the barrier of a change that is decided now can wait at most.

        Settings that become durable with that change, or after it, don't count: see `SettingsChanged`.
        """
        longest_ns = grant_bound_ns(self._settings, self._settings.lease_duration_ns)
        return max(longest_ns, self._older_until_ns - now_ns)

    def held(self, node: NodeId) -> HeldLease | None:
        """The lease of a node, None if it has never joined."""
        return self._held.get(node)

    def verdict(self, number: int, now_ns: int) -> Verdict:
        """Where a running barrier stands; once the leadership is over, it only ever waits (INV-LEASE-3)."""
        barrier = self._barriers[number]
        return barrier.judge(now_ns) if self._leads(now_ns) else barrier.waits()

    def next_deadline_ns(self) -> int | None:
        """When to call with `TimePassed`: the earliest instant at which a barrier could end by itself."""
        if self._over:
            return None  # no verdict will come of it, however often it is asked
        return min((one.next_deadline_ns() for one in self._barriers.values()), default=None)

    def step(self, event: GrantorEvent, now_ns: int) -> tuple[GrantorEffect, ...]:
        """Takes one event; `now_ns` must have been read after the event's message was received."""
        effects: list[GrantorEffect] = []
        match event:
            case grants.RenewalReceived(renewal=renewal):
                effects.append(self._on_renewal(renewal, now_ns))
            case grants.SurrenderReceived() | grants.EndReportReceived():
                effects.extend(self._on_end(event, now_ns))
            case grants.IncarnationClosed(node=node, incarnation=incarnation):
                self._on_closed(node, incarnation, now_ns)
            case grants.IncarnationJoined():
                self._on_joined(event, now_ns)
            case grants.MemberEntered() | grants.MemberLeft():
                self._on_membership(event)
            case grants.RemovalCommitted(node=node):
                self._on_removed(node, now_ns)
            case grants.BarrierRequested():
                self._on_barrier(event, now_ns)
            case grants.SettingsChanged():
                self._on_settings(event, now_ns)
            case grants.LeadershipExtended(until_ns=until_ns):
                if self._leads(now_ns):  # one that has ended meanwhile is over for good
                    self._leads_until_ns = until_ns
            case grants.LeadershipEnded():
                self._leads_until_ns = now_ns
            case TimePassed():
                pass
            case _:
                assert_never(event)
        if self._leads(now_ns):
            effects.extend(self._verdicts(now_ns))
        else:
            self._over = True
        return tuple(effects)

    def _leads(self, now_ns: int) -> bool:
        return self._leads_until_ns is None or now_ns < self._leads_until_ns

    def _on_renewal(self, renewal: Renewal, now_ns: int) -> GrantorEffect:
        held = self._held.get(renewal.node)
        refusal = self._refusal(renewal, held, now_ns)
        if refusal is not None or held is None:
            code, text = refusal or (ErrorCode.NOT_JOINED, "this node has not joined")
            return grants.RefuseRenewal(refused=RenewalRefused(request=renewal.request, code=code, text=text))
        for barrier in self._barriers.values():
            barrier.reported(renewal.node, renewal.incarnation, renewal.applied, now_ns)
        applied = renewal.applied if held.applied is None else max(held.applied, renewal.applied)
        refusal = self._not_yet(renewal, held)
        if refusal is not None:
            self._held[renewal.node] = msgspec.structs.replace(held, applied=applied)
            code, text = refusal
            return grants.RefuseRenewal(refused=RenewalRefused(request=renewal.request, code=code, text=text))
        duration_ns = self._settings.lease_duration_ns
        bound_ns = now_ns + grant_bound_ns(self._settings, duration_ns)
        self._held[renewal.node] = msgspec.structs.replace(held, applied=applied, bound_ns=max(held.bound_ns, bound_ns))
        self._sequence = Sequence(self._sequence + 1)
        grant = Grant(
            request=renewal.request,
            term=self.term,
            sequence=self._sequence,
            duration_ns=duration_ns,
            floor=self._floor,
        )
        return grants.SendGrant(node=renewal.node, grant=grant)

    def _refusal(self, renewal: Renewal, held: HeldLease | None, now_ns: int) -> tuple[ErrorCode, str] | None:
        """Why this renewal is ignored, if it is (INV-ID-2, INV-LEASE-3)."""
        if not self._leads(now_ns):
            return ErrorCode.NOT_LEADER, f"the leadership of term {self.term} has ended"
        if held is None or renewal.incarnation > held.incarnation:
            return ErrorCode.NOT_JOINED, f"incarnation {renewal.incarnation} has not joined"
        if renewal.incarnation < held.incarnation:
            return ErrorCode.SUPERSEDED, f"incarnation {held.incarnation} has joined since"
        if self._hash_session(renewal.session) != held.session_hash:
            return ErrorCode.SUPERSEDED, f"incarnation {held.incarnation} belongs to another session"
        if held.closed is not None:
            return ErrorCode.SUPERSEDED, f"incarnation {held.incarnation} is closed ({held.closed})"
        return None

    def _not_yet(self, renewal: Renewal, held: HeldLease) -> tuple[ErrorCode, str] | None:
        """Why this renewal counts for barriers but gets no grant, if so (INV-LEASE-2, INV-REC-3)."""
        if held.required is None:
            return ErrorCode.RECOVERING, f"incarnation {renewal.incarnation} is not in the logical topology"
        if renewal.applied < held.required:
            return ErrorCode.RECOVERING, f"applied {renewal.applied}, {held.required} was required"
        if renewal.applied < self._floor:
            return ErrorCode.BEHIND, f"applied {renewal.applied}, the floor is {self._floor}"
        return None

    def _on_end(
        self, event: grants.SurrenderReceived | grants.EndReportReceived, now_ns: int
    ) -> tuple[GrantorEffect, ...]:
        if isinstance(event, grants.SurrenderReceived):
            return self._on_surrender(event.surrender, now_ns)
        return self._on_end_reported(event.report, now_ns)

    def _on_surrender(self, surrender: Surrender, now_ns: int) -> tuple[GrantorEffect, ...]:
        held = self._held.get(surrender.node)
        if held is None or surrender.incarnation != held.incarnation:
            return ()  # an old or doubled one says nothing about the incarnation that lives now
        if self._hash_session(surrender.session) != held.session_hash:
            return ()
        self._close(surrender.node, held, SettledHow.SURRENDERED, now_ns)
        return (grants.AcceptSurrender(),)

    def _on_end_reported(self, report: ReportProcessEnd, now_ns: int) -> tuple[GrantorEffect, ...]:
        """Sound because of what the supervisor waits for before it reports (`core/lease/process_end.py`)."""
        held = self._held.get(report.node)
        if held is None or report.incarnation != held.incarnation or not proves_end(report.proof, held.end_hash):
            return ()  # an old or late one says nothing about the process that lives now
        if not self._leads(now_ns):
            return ()  # the next leader has to hear it
        self._close(report.node, held, SettledHow.ENDED, now_ns)
        return (grants.AcceptEndReport(),)

    def _close(self, node: NodeId, held: HeldLease, how: SettledHow, now_ns: int) -> None:
        """Nothing is granted to this incarnation again, and no barrier waits for it."""
        if held.closed is None:
            self._held[node] = msgspec.structs.replace(held, closed=how)
            for barrier in self._barriers.values():
                barrier.closed(node, held.incarnation, how, now_ns)

    def _on_closed(self, node: NodeId, incarnation: Incarnation, now_ns: int) -> None:
        held = self._held[node]
        assert held.incarnation == incarnation, "only the newest incarnation can be closed by a join"
        assert held.closed is not None or now_ns >= held.bound_ns, "a join waits for the lease to end"
        self._close(node, held, SettledHow.FENCED, now_ns)

    def _on_settings(self, event: grants.SettingsChanged, now_ns: int) -> None:
        self._floor = max(self._floor, event.revision)
        longest_ns = grant_bound_ns(self._settings, self._settings.lease_duration_ns)
        self._older_until_ns = max(self._older_until_ns, now_ns + longest_ns)
        self._settings = event.settings

    def _on_joined(self, event: grants.IncarnationJoined, now_ns: int) -> None:
        held = self._held.get(event.node)
        if held is not None:
            assert event.incarnation > held.incarnation, "incarnations only rise (INV-ID-2)"
            assert held.closed is not None, "one live session per id"
        # Nothing of the older incarnation's bound or reports counts for this one.
        self._held[event.node] = HeldLease(
            incarnation=event.incarnation,
            session_hash=event.session_hash,
            bound_ns=now_ns,
            applied=None,
            closed=None,
            end_hash=event.end_hash,
        )

    def _on_membership(self, event: grants.MemberEntered | grants.MemberLeft) -> None:
        held = self._held.get(event.node)
        if held is not None and held.incarnation == event.incarnation:  # else it has been superseded, or removed
            required = event.required if isinstance(event, grants.MemberEntered) else None
            self._held[event.node] = msgspec.structs.replace(held, required=required)

    def _on_removed(self, node: NodeId, now_ns: int) -> None:
        held = self._held[node]
        assert held.closed is not None or now_ns >= held.bound_ns, "removal waits for the lease to end"
        del self._held[node]
        for barrier in self._barriers.values():
            barrier.closed(node, held.incarnation, SettledHow.REMOVED, now_ns)

    def _on_barrier(self, event: grants.BarrierRequested, now_ns: int) -> None:
        assert event.number not in self._barriers
        self._floor = max(self._floor, event.revision)
        pending = [
            Pending(node=node, incarnation=held.incarnation, bound_ns=held.bound_ns)
            for node, held in self._held.items()
            if held.closed is None
        ]
        if now_ns < self._strangers_until_ns:
            pending.append(Pending(node=STRANGERS, incarnation=Incarnation(0), bound_ns=self._strangers_until_ns))
        barrier = Barrier(
            revision=event.revision,
            term=self.term,
            sequence=self._sequence,
            pending=pending,
            give_up_ns=event.give_up_ns,
            now_ns=now_ns,
        )
        for node, held in self._held.items():
            if held.applied is not None and held.closed is None:
                barrier.reported(node, held.incarnation, held.applied, now_ns)
        self._barriers[event.number] = barrier

    def _verdicts(self, now_ns: int) -> list[GrantorEffect]:
        effects: list[GrantorEffect] = []
        for number, barrier in list(self._barriers.items()):
            verdict = barrier.ended(now_ns)
            if verdict is not None:
                del self._barriers[number]
                effects.append(grants.ReportVerdict(number=number, verdict=verdict))
        return effects
