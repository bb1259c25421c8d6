"""Bounds of a node's recovery and of snapshots."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

CATCH_UP_DIFFERENCE: Final = 100
"""Revisions that a recovering node may lack when it asks to enter the logical topology."""
CATCH_UP_DIFFERENCE_MAX: Final = 1_000_000
SNAPSHOT_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
SNAPSHOT_TIMEOUT_NS: Final = 600 * SECOND_NS
RECOVERY_PROGRESS_NS: Final = 500 * MILLISECOND_NS
"""How often a recovering node reports progress."""
SNAPSHOTS_AT_ONCE: Final = 4
"""Nodes that take a snapshot from a leader at the same time; others are refused as BUSY and ask again."""
BACKUPS_AT_ONCE: Final = 2
"""Clients that take a backup from a coordinator at the same time; others are refused as BUSY."""
BACKUP_TRIES_MAX: Final = 3
"""How often a client begins a backup that is overtaken by compaction."""
RECOVERY_WHY_CHARACTERS_MAX: Final = 200
"""Of the reason that a node gives for its recovery case, as it is shown."""
RECOVERY_LEFT_MAX_NS: Final = 7 * 24 * 3600 * SECOND_NS
"""A longer guess of the remaining time is not shown."""
FETCH_STALLED_NS: Final = 10 * SECOND_NS
"""After this time without a segment there is no guess of the remaining time."""
RECOVERY_LOG_NS: Final = 5 * SECOND_NS
"""How often the log of a recovering node shows progress."""
BAD_SNAPSHOTS_MAX: Final = 3
"""Bad snapshots in a row that end a node."""
SNAPSHOT_BUSY_REST_NS: Final = SECOND_NS
"""How long a node waits before it asks a leader again that was BUSY."""
COMPARISON_POLL_NS: Final = 20 * MILLISECOND_NS
"""How often a node that starts looks whether its disk can be compared."""
RECOVERY_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""After this time without an answer a node repeats that its recovery is finished."""
