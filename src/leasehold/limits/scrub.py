"""Bounds of the scrub of segment files."""

from typing import Final

from leasehold.limits.units import SECOND_NS

SCRUB_EVERY_NS: Final = 7 * 24 * 3_600 * SECOND_NS
"""In which time a node reads each of its segment files once."""
SCRUB_EVERY_MIN_NS: Final = 60 * SECOND_NS
SCRUB_EVERY_MAX_NS: Final = 366 * 24 * 3_600 * SECOND_NS
SCRUB_POLL_NS: Final = SECOND_NS
"""How often the scrub looks for files that are suspected or due."""
SCRUB_COUNT_NS: Final = 60 * SECOND_NS
"""How often the scrub counts the files among which it divides its time."""
SCRUB_LATE_MAX_NS: Final = 60 * SECOND_NS
"""A scrub that is later than this, after a pause of the machine for example, does not catch up."""
SCRUB_PIECE_BYTES: Final = 8 * 1024 * 1024
SCRUB_BYTES_PER_SECOND: Final = 64 * 1024 * 1024
"""How fast a file is read, at most."""
SUSPECTS_MAX: Final = 65_536
"""Files that wait to be read since a reader failed over them."""
SCRUBS_MAX: Final = 1
"""Scrubs that administrators have asked one node for, at the same time."""
SCRUB_HEAL_NS: Final = 120 * SECOND_NS
"""How long such a scrub waits until damaged files are replaced."""
SCRUB_CALL_NS: Final = 7 * 24 * 3_600 * SECOND_NS
SCRUB_TOLD_MAX: Final = 100
"""Segments of one table that it names."""
SCRUB_NODES_AT_ONCE: Final = 16
