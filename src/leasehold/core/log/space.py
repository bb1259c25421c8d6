"""Space in the store of a log: when the leader makes room, and when it lets nothing grow any more.

A store that has reached its quota takes no beat, so nobody could lead. So the leader trims the log early, and keeps the
last part of the quota for what has to go on.

| room | used | then |
| --- | --- | --- |
| ample | below `STORE_SCARCE_PERCENT` | a checkpoint once the log below MM is larger than the last one |
| scarce | up to `STORE_NEARLY_FULL_PERCENT` | a checkpoint earlier; the engine gives up old versions of keys |
| nearly full | above | also: statements and writes that need more space are refused |

A checkpoint is written beside the one before it. One that does not fit is not begun.
"""

from enum import Enum, auto

from leasehold.limits.log import (
    CHECKPOINT_SCARCE_BYTES_MIN,
    CHECKPOINT_SCARCE_PART,
    STORE_NEARLY_FULL_PERCENT,
    STORE_SCARCE_PERCENT,
)


class Room(Enum):
    """How much of the quota is left."""

    AMPLE = auto()
    SCARCE = auto()
    NEARLY_FULL = auto()


def room_of(*, used_bytes: int, quota_bytes: int | None, is_full: bool) -> Room:
    """The room in a store; ample in one without a quota unless it says that it is full."""
    used_percent = 0 if quota_bytes is None else used_bytes * 100 // quota_bytes
    if is_full or used_percent >= STORE_NEARLY_FULL_PERCENT:
        return Room.NEARLY_FULL
    return Room.SCARCE if used_percent >= STORE_SCARCE_PERCENT else Room.AMPLE


def is_checkpoint_due(*, below_bytes: int, last_bytes: int, room: Room, log_bytes_min: int) -> bool:
    """Whether to write a checkpoint at MM: `below_bytes` of the log lie below it, the last checkpoint has
    `last_bytes`."""
    if room is Room.AMPLE:
        return below_bytes > max(log_bytes_min, last_bytes)
    return below_bytes > max(min(log_bytes_min, CHECKPOINT_SCARCE_BYTES_MIN), last_bytes // CHECKPOINT_SCARCE_PART)


def checkpoint_fits(*, bytes_max: int, used_bytes: int, quota_bytes: int | None) -> bool:
    """Whether a checkpoint that has at most `bytes_max` has space beside the last one."""
    return quota_bytes is None or used_bytes + bytes_max <= quota_bytes
