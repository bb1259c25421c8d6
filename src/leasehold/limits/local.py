"""Bounds of local opens: segment files that a node hands to a reader on its own file system."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

LOCAL_OPENS_MAX: Final = 256
"""Opens of one node."""
LOCAL_OPENS_PER_USER_MAX: Final = 128
LOCAL_SEGMENTS_MAX: Final = 4096
"""Segments of one open: its ticket names each of them."""
LOCAL_GROUPS_MAX: Final = 64
"""Groups of one open."""
LOCAL_MAKING_MAX: Final = 4
"""Opens that a node makes at once: each may read files whole, to hold them against their hash."""
LOCAL_ENDS_KEPT_MAX: Final = 1024
"""Opens that have ended and of which a node still knows why."""
LOCAL_SWEEP_NS: Final = SECOND_NS
"""How often a node looks for sub-leases that have ended."""

LOCAL_RENEW_NS: Final = SECOND_NS
"""How often a reader renews its sub-leases."""
LOCAL_END_AHEAD_NS: Final = 200 * MILLISECOND_NS
"""How long before its deadline a reader begins to remove the links: a thread may wake up late."""
LOCAL_OPEN_CALL_NS: Final = 30 * SECOND_NS
"""For one open. A later one goes on where this one was cut off: a file is held against its hash once."""
LOCAL_RENEW_CALL_NS: Final = 300 * MILLISECOND_NS
"""For one renewal: a node that hangs must not keep the thread from the others."""
LOCAL_CALL_MIN_NS: Final = 50 * MILLISECOND_NS
"""For a renewal of which another sub-lease is almost over; well within LOCAL_END_AHEAD_NS."""
LOCAL_PROOF_CALL_NS: Final = SECOND_NS
LOCAL_FRAMES_LOOK_NS: Final = 10 * SECOND_NS
"""How often a driver of Spark looks which of its frames are not used any more."""
LOCAL_FRAMES_MANY: Final = LOCAL_OPENS_PER_USER_MAX // 2
"""At so many frames the driver has Java collect garbage: only then does it learn which frames nobody uses."""
JOINED_FILES_MIN: Final = 16
"""So many small files of a folder become one for Spark."""
JOINED_FILE_BYTES_MAX: Final = 32 * 1024
"""A larger file is not small: to read and write its rows takes as long as what Spark saves."""
JOINED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of small files that are joined for one frame."""
LOCAL_ELSEWHERE_NS: Final = 60 * SECOND_NS
"""For how long a reader takes a node for one of another machine."""
