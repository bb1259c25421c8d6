"""What happens to a member of the physical topology, and what it wants done."""

from typing import TypeAlias

import msgspec

from leasehold.core.swim.messages import Datagram, Member, State
from leasehold.core.words.time_passed import TimePassed


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The process runs and can be reached: look for others."""


class DatagramReceived(msgspec.Struct, frozen=True, kw_only=True):
    """An authentic datagram of this cluster has arrived from that address, whenever it was sent."""

    source: str
    datagram: Datagram


class LeaveRequested(msgspec.Struct, frozen=True, kw_only=True):
    """The process is about to stop in order."""


SwimEvent: TypeAlias = Started | DatagramReceived | TimePassed | LeaveRequested


class SendDatagram(msgspec.Struct, frozen=True, kw_only=True):
    """Hand this to the network; it may be lost."""

    address: str
    datagram: Datagram


class MemberChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A member was found, is seen in another state, or says something else of itself."""

    member: Member
    state: State


class MemberForgotten(msgspec.Struct, frozen=True, kw_only=True):
    """It has been dead, or has left, for long."""

    member: Member


class LeaveFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The member has left; nothing follows."""


SwimEffect: TypeAlias = SendDatagram | MemberChanged | MemberForgotten | LeaveFinished
