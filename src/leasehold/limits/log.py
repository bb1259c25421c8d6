"""Bounds of the replicated log, and of the engine that keeps it."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

STORE_VALUE_BYTES_MAX: Final = 640 * 1024
"""Below the 1 MiB of a ZooKeeper node and the 1.5 MiB of an etcd request."""
STORE_SWAP_KEYS_MAX: Final = 32
"""Below the 128 operations of an etcd transaction."""
STORE_SWAP_BYTES_MAX: Final = 768 * 1024
STORE_TRY_NS: Final = 400 * MILLISECOND_NS
"""One try of a request at one member; then the next member is asked."""
STORE_REQUEST_NS: Final = 4 * SECOND_NS
"""How long members are asked in turn, until a request has no answer. The last try may end STORE_TRY_NS later."""
STORE_ROUND_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Before all members are asked again."""
STORE_WATCH_PAUSE_MIN_NS: Final = 100 * MILLISECOND_NS
STORE_WATCH_PAUSE_MAX_NS: Final = 2 * SECOND_NS
"""Before a watch that broke is opened again."""
STORE_PASSWORD_BYTES_MAX: Final = 1_024
LOG_ENTRY_INLINE_BYTES_MAX: Final = 512 * 1024
"""A larger body of an entry lies in parts of this size."""
LOG_HEAD_POLL_NS: Final = SECOND_NS
"""How often a replica reads the head, whatever its watch says."""
LOG_FORMAT_VERSION: Final = 1
LOG_READ_ENTRIES_MAX: Final = 500
"""Keys that are read at once."""
LOG_READ_PARTS_MAX: Final = 4
"""Parts that are read at once: each may have LOG_ENTRY_INLINE_BYTES_MAX, and a try has STORE_TRY_NS."""
LEADERSHIP_DURATION_NS: Final = 3 * SECOND_NS
LEADERSHIP_DURATION_MIN_NS: Final = 2 * SECOND_NS
LEADERSHIP_DURATION_MAX_NS: Final = 30 * SECOND_NS
LEADERSHIP_BEAT_NS: Final = 500 * MILLISECOND_NS
LEADERSHIP_MARGIN_NS: Final = 500 * MILLISECOND_NS
"""Added to a challenger's wait, for timers that fire late."""
LOG_RETRY_NS: Final = 20 * MILLISECOND_NS
"""The pause after a request of which nothing is known: its own try has already taken its time."""
LOG_UPKEEP_NS: Final = 10 * SECOND_NS
"""How often a leader looks at the size of the store, for parts that no entry names, and whether a checkpoint is due."""
LOG_PROGRESS_NS: Final = 3 * SECOND_NS
"""How often a replica that is far behind says how far it is."""
CHECKPOINT_LOG_BYTES_MIN: Final = 64 * 1024 * 1024
"""A checkpoint is due once more of the log lies below MM, and more than the last checkpoint has."""
CHECKPOINT_SCARCE_BYTES_MIN: Final = 1024 * 1024
CHECKPOINT_SCARCE_PART: Final = 8
"""In a scarce store: due once more lies below MM, and more than this part of the last checkpoint."""
STORE_SCARCE_PERCENT: Final = 70
STORE_NEARLY_FULL_PERCENT: Final = 85
CHECKPOINT_CHUNK_BYTES: Final = 384 * 1024
CHECKPOINT_ROWS_MAX: Final = 2_000
"""Of one chunk."""
STORE_ENDPOINTS_MAX: Final = 9
STORE_QUOTA_BYTES: Final = 2 * 1024**3
"""What etcd holds by default; releases before 3.6 do not tell it."""
STORE_QUOTA_MIN_BYTES: Final = 16 * 1024**2
STORE_QUOTA_MAX_BYTES: Final = 1024 * 1024**3
