"""What members of the physical topology say to each other: claims about members, and the datagrams that carry them.

Arrays instead of maps, since thousands of them travel; the tag carries the version. Names and addresses are checked
as they are decoded. No clock reading is among the fields.
"""

from enum import IntEnum
from typing import Annotated, NewType, TypeAlias

from msgspec import Meta, Struct

from leasehold.ids import NODE_ADDRESS, NODE_NAME, NodeId
from leasehold.limits.swim import SWIM_INCARNATION_MAX

SwimIncarnation = NewType("SwimIncarnation", int)
"""Counts what one member has said of itself; only that member raises it. Not the node's `Incarnation`."""

MemberName: TypeAlias = Annotated[str, Meta(pattern=rf"^(?:{NODE_NAME.pattern})\Z")]
MemberAddress: TypeAlias = Annotated[str, Meta(pattern=rf"^(?:{NODE_ADDRESS.pattern})\Z")]
Number: TypeAlias = Annotated[int, Meta(ge=0)]


class Role(IntEnum):
    """What a member is to the cluster."""

    COORDINATOR = 1
    NODE = 2


class State(IntEnum):
    """How a member is seen. Of two claims about one incarnation the one with the higher state holds."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class Member(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A member's name and addresses: its own statement, which changes only with its incarnation."""

    name: MemberName
    address: MemberAddress
    """Where it hears datagrams."""
    role: Role
    service: MemberAddress
    """Where it serves: gRPC of a coordinator, Flight of a node."""
    node: Annotated[NodeId, Meta(ge=0)]
    """0 for a coordinator, and for a node that has no id yet."""


class MemberClaim(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A statement about a member at one of its incarnations. `by`: the member that suspects it, else empty."""

    member: Member
    incarnation: Annotated[SwimIncarnation, Meta(ge=1, le=SWIM_INCARNATION_MAX)]
    state: State
    by: Annotated[str, Meta(pattern=rf"^(?:{NODE_NAME.pattern})?\Z")] = ""

    @property
    def rank(self) -> tuple[int, int]:
        """Claims about one member are totally ordered by it: the greater one holds, in whatever order they come."""
        return self.incarnation, self.state


class _Base(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    sender: MemberName
    claims: tuple[MemberClaim, ...] = ()


class Ping(_Base, frozen=True, kw_only=True, tag="swim-ping/1"):
    """Asks `target` for an `Ack` of the same number."""

    number: Number
    target: MemberName


class Ack(_Base, frozen=True, kw_only=True, tag="swim-ack/1"):
    """`target` lives: sent by itself, or by a member that pinged it for the receiver."""

    number: Number
    target: MemberName


class PingRequest(_Base, frozen=True, kw_only=True, tag="swim-ping-request/1"):
    """Ping `target` for me."""

    number: Number
    target: MemberName
    address: MemberAddress


class Nack(_Base, frozen=True, kw_only=True, tag="swim-nack/1"):
    """The target of a `PingRequest` has not answered in time, but the request arrived."""

    number: Number


class News(_Base, frozen=True, kw_only=True, tag="swim-news/1"):
    """Claims alone."""


class Sync(_Base, frozen=True, kw_only=True, tag="swim-sync/1"):
    """All that the sender knows adds up to `digest`: a receiver with another digest answers all it knows."""

    digest: Annotated[bytes, Meta(min_length=8, max_length=8)]


class MemberPage(_Base, frozen=True, kw_only=True, tag="swim-page/1"):
    """Part of all that the sender knows. `answer`: it asks the receiver for the same."""

    answer: bool


Datagram: TypeAlias = Ping | Ack | PingRequest | Nack | News | Sync | MemberPage
