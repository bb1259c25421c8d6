"""Bounds of a node's directory: serve log, trash, a full disk, standalone mode, repairs."""

from typing import Final

from leasehold.limits.units import SECOND_NS

SERVE_LOG_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SERVE_LOG_FILES_MAX: Final = 4
SERVE_RECORD_BYTES_MAX: Final = 4_096
SERVE_LOG_PIECES_MAX: Final = 64
"""Files of one serve log where restarts left small ones; in bytes they stay below SERVE_LOG_FILES_MAX full ones."""
TRASH_ROUND_FILES_MAX: Final = 64
"""Trashed files deleted per round: deleting gives way to serving."""
DISK_TRIAL_NS: Final = SECOND_NS
"""How often a node whose disk is full tries whether there is space again."""
DISK_TRIAL_BYTES: Final = 64 * 1024
CHECK_PROGRESS_NS: Final = SECOND_NS
"""How often a check of all segments tells how far it is."""
SEGMENTS_LISTED_MAX: Final = 1_000
"""Segments that standalone mode lists of each kind; all are counted."""
RESETS_MAX: Final = 1_000
"""Folders of earlier resets that a node's directory keeps, and of earlier adoptions."""
RESET_MARKER_BYTES_MAX: Final = 64
TRASH_FILES_PER_SECOND: Final = 128
TRASH_BYTES_PER_SECOND: Final = 256 * 1024 * 1024
"""What a node deletes of its trash for good: so much on average, whatever waits there."""
FOLDER_TICK_NS: Final = 2 * SECOND_NS
"""No file system counts the times of its folders more coarsely."""
REPAIRS_MAX: Final = 1_000
"""Folders of what repairs have moved, in one directory: a person deletes them."""
