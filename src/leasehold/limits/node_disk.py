"""Bounds of a node's directory: serve log, trash, a full disk, standalone mode, repairs."""

from typing import Final

from leasehold.limits.units import SECOND_NS

SERVE_LOG_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SERVE_LOG_FILES_MAX: Final = 4
SERVE_RECORD_BYTES_MAX: Final = 4_096
SERVE_LOG_PIECES_MAX: Final = 64
"""Files of one serve log after restarts that left small ones; no more bytes than SERVE_LOG_FILES_MAX full ones."""
TRASH_ROUND_FILES_MAX: Final = 64
"""Trashed files that are deleted in one round."""
DISK_TRIAL_NS: Final = SECOND_NS
"""How often a node whose disk is full looks for space."""
DISK_TRIAL_BYTES: Final = 64 * 1024
CHECK_PROGRESS_NS: Final = SECOND_NS
"""How often a check of all segments reports progress."""
SEGMENTS_LISTED_MAX: Final = 1_000
"""Segments of each kind that standalone mode lists; all are counted."""
RESETS_MAX: Final = 1_000
"""Folders of earlier resets, and of earlier adoptions, in a node's directory."""
RESET_MARKER_BYTES_MAX: Final = 64
TRASH_FILES_PER_SECOND: Final = 128
TRASH_BYTES_PER_SECOND: Final = 256 * 1024 * 1024
"""Trash that a node deletes for good, on average."""
FOLDER_TICK_NS: Final = 2 * SECOND_NS
"""The coarsest resolution of a folder's times in any file system."""
REPAIRS_MAX: Final = 1_000
"""Folders of files that repairs have moved, in one directory; a person deletes them."""
