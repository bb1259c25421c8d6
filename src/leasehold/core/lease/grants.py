"""Events and effects of the grantor (theory in `core/lease/grantor.py`), and what it knows of each node."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, ReportProcessEnd, Surrender
from leasehold.core.words.records import NodeRecord, SettingsRecord, SettledHow
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import Incarnation, NodeId, Revision


class RenewalReceived(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal has been read from the transport; the clock was read after that."""

    renewal: Renewal


class SurrenderReceived(msgspec.Struct, frozen=True, kw_only=True):
    """A node says that it serves nothing any more."""

    surrender: Surrender


class EndReportReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor of a node's process says that the process has ended."""

    report: ReportProcessEnd


class IncarnationClosed(msgspec.Struct, frozen=True, kw_only=True):
    """A join found this incarnation's lease ended: nothing is granted to it again."""

    node: NodeId
    incarnation: Incarnation


class IncarnationJoined(msgspec.Struct, frozen=True, kw_only=True):
    """A join is durable: only this incarnation and session count from now on. It is no member yet."""

    node: NodeId
    incarnation: Incarnation
    session_hash: bytes
    end_hash: bytes = b""


class MemberEntered(msgspec.Struct, frozen=True, kw_only=True):
    """It is durable that this incarnation is in the logical topology; it gets grants once it has applied `required`."""

    node: NodeId
    incarnation: Incarnation
    required: Revision


class MemberLeft(msgspec.Struct, frozen=True, kw_only=True):
    """This incarnation is about to leave the logical topology: it gets no grant until it has entered again, even if the
    outcome of the write is unknown."""

    node: NodeId
    incarnation: Incarnation


class RemovalCommitted(msgspec.Struct, frozen=True, kw_only=True):
    """A node was removed after its lease had ended."""

    node: NodeId


class BarrierRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A change is durable at `revision`: wait until no older view can be served. At most until `give_up_ns`."""

    number: int
    revision: Revision
    give_up_ns: int | None = None


class SettingsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """These settings are durable at `revision`. Later grants follow them; bounds already noted stand.

    The floor rises to `revision` in this step. So a node that gets a longer lease has applied it, and can't hold up a
    statement of that revision or an older one: the bounds published for those stay true.
    """

    settings: SettingsRecord
    revision: Revision = Revision(0)


class LeadershipExtended(msgspec.Struct, frozen=True, kw_only=True):
    """The leader has renewed its record: it leads until `until_ns`, or for ever where a lock holds it (None)."""

    until_ns: int | None


class LeadershipEnded(msgspec.Struct, frozen=True, kw_only=True):
    """It is handed over, or lost: nothing is granted and no barrier proceeds any more."""


_OfNodes: TypeAlias = (
    RenewalReceived
    | SurrenderReceived
    | EndReportReceived
    | IncarnationClosed
    | IncarnationJoined
    | MemberEntered
    | MemberLeft
)
_OfLeader: TypeAlias = BarrierRequested | SettingsChanged | LeadershipExtended | LeadershipEnded | TimePassed
GrantorEvent: TypeAlias = _OfNodes | RemovalCommitted | _OfLeader


class SendGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Answer a renewal; its bound is noted already."""

    node: NodeId
    grant: Grant


class RefuseRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """Answer a renewal with the reason why there is no grant."""

    refused: RenewalRefused


class AcceptSurrender(msgspec.Struct, frozen=True, kw_only=True):
    """Answer the node that its incarnation is closed."""


class AcceptEndReport(msgspec.Struct, frozen=True, kw_only=True):
    """Answer the supervisor that the incarnation is closed."""


class ReportVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A barrier has ended."""

    number: int
    verdict: Proceed | Fail


GrantorEffect: TypeAlias = SendGrant | RefuseRenewal | AcceptSurrender | AcceptEndReport | ReportVerdict


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the meta storage has it when a leader is elected."""

    incarnation: Incarnation
    session_hash: bytes | None
    member: bool
    end_hash: bytes = b""


def registrations(nodes: Iterable[NodeRecord]) -> dict[NodeId, Registered]:
    """What a new leader's grantor begins with."""
    return {
        one.id: Registered(
            incarnation=one.incarnation, session_hash=one.session_hash, member=one.member, end_hash=one.end_hash
        )
        for one in nodes
        if not one.removed
    }


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """What the grantor knows of a node's lease. `applied` is what this incarnation reported to this leader, `required`
    what it has to have applied before it gets a grant; None while it is not in the logical topology."""

    incarnation: Incarnation
    session_hash: bytes | None
    bound_ns: int
    applied: Revision | None
    closed: SettledHow | None
    required: Revision | None = None
    end_hash: bytes = b""

    @property
    def admitted(self) -> bool:
        """Whether it is a member and has applied what was required of it."""
        return self.required is not None and self.applied is not None and self.applied >= self.required
