"""Events, effects and stages of a recovery (`core/recovery/machine.py`)."""

from enum import Enum, auto
from typing import TypeAlias

import msgspec

from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import RequestNumber, Revision

# ---------------------------------------------------------------- events


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A stream is open and its watch has begun; the rest as the leader said after that."""

    latest: Revision
    minimum: Revision
    live_keys: int
    catch_up_difference: int
    member: bool


class Overtaken(msgspec.Struct, frozen=True, kw_only=True):
    """The watch can't go on: what comes next is compacted."""

    minimum: Revision


class SnapshotBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot at `revision` comes, of about `keys` keys; an earlier one is void."""

    revision: Revision
    keys: int


class PageTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The vault has taken `keys` keys more."""

    keys: int


class Leapt(msgspec.Struct, frozen=True, kw_only=True):
    """The vault and the view are at the revision of the snapshot."""

    revision: Revision


class RevisionShown(msgspec.Struct, frozen=True, kw_only=True):
    """The watch brought this revision, and the view shows it."""

    revision: Revision


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The vault holds this revision."""

    revision: Revision


class DiskCompared(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison is over; every missing segment was reported on this stream."""

    number: int
    kept: int
    missing: int


class SegmentsCounted(msgspec.Struct, frozen=True, kw_only=True):
    """Segments fetched and evicted since; `missing` is how many are missing now, if that is known."""

    fetched: int
    evicted: int
    missing: int | None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The leader let the node in; it gets a lease once it shows `required`."""

    required: Revision


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """The leader did not: the newest revision is further away than the difference."""

    latest: Revision
    catch_up_difference: int


class RenewalSent(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal left."""

    request: RequestNumber


class Excluded(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal was refused because its node is not a member, or has not applied what was required."""

    request: RequestNumber


class StreamBroken(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing comes of what was said on it and not answered."""


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    """The process gives its lease back, and wants no other one."""


OwnEvent: TypeAlias = RevisionShown | Stored | SegmentsCounted | RenewalSent | StreamBroken | Stopping
"""What this process itself has done."""
SnapshotEvent: TypeAlias = SnapshotBegun | PageTaken | Leapt
LeaderAnswer: TypeAlias = Accepted | Behind
Event: TypeAlias = OwnEvent | SnapshotEvent | LeaderAnswer | Opened | Overtaken | DiskCompared | Excluded | TimePassed


# ---------------------------------------------------------------- effects


class TakeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a snapshot; the watch of this stream is of no use any more."""


class SendFinished(msgspec.Struct, frozen=True, kw_only=True):
    """Send the leader that recovery is finished with the vault at `applied`."""

    applied: Revision


class RenewNow(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing stands against a lease any more: ask for one at once."""


class EndAhead(msgspec.Struct, frozen=True, kw_only=True):
    """Case d: this process must not go on."""

    applied: Revision
    latest: Revision


Effect: TypeAlias = TakeSnapshot | SendFinished | RenewNow | EndAhead


class Stage(Enum):
    """Where a process is on its way into the logical topology."""

    CONNECTING = auto()
    REPLAYING = auto()
    LEAPING = auto()
    ASKING = auto()
    ADMITTED = auto()
    MEMBER = auto()
    STOPPED = auto()


class DiskComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The disk is to be compared with a durable catalog of at least `revision`; `number` is said with its result."""

    number: int
    revision: Revision
