"""Bounds of a node's recovery and of snapshots."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

CATCH_UP_DIFFERENCE: Final = 100
"""A recovering node may lag so many revisions behind when it asks to be let into the logical topology."""
CATCH_UP_DIFFERENCE_MAX: Final = 1_000_000
SNAPSHOT_PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
SNAPSHOT_TIMEOUT_NS: Final = 600 * SECOND_NS
RECOVERY_PROGRESS_NS: Final = 500 * MILLISECOND_NS
"""How often a recovering node tells how far it is."""
SNAPSHOTS_AT_ONCE: Final = 4
"""Nodes that take a snapshot from a leader at the same time; more are refused as BUSY and ask again."""
RECOVERY_WHY_CHARACTERS_MAX: Final = 200
"""Of what a node says of its recovery, as it is shown."""
RECOVERY_LEFT_MAX_NS: Final = 7 * 24 * 3600 * SECOND_NS
"""A guess of more time than this is none."""
FETCH_STALLED_NS: Final = 10 * SECOND_NS
"""Where no segment has come for so long, what has come before tells nothing of when the next one does."""
RECOVERY_LOG_NS: Final = 5 * SECOND_NS
"""How often the log of a recovering node says how far it is."""
BAD_SNAPSHOTS_MAX: Final = 3
"""So many snapshots in a row that were not what their sender counted end a node."""
SNAPSHOT_BUSY_REST_NS: Final = SECOND_NS
"""A leader that sends as many snapshots as it can is asked again after so long."""
COMPARISON_POLL_NS: Final = 20 * MILLISECOND_NS
"""How often a node that starts looks whether its disk can be compared already."""
RECOVERY_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""A node that has said that its recovery is finished says it again after so long without an answer."""
