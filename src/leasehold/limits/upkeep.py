"""Bounds of what a leader does by itself: horizons, rewriting, records left behind, its wall clock."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

SMALL_SEGMENT_BYTES: Final = 16 * 1024 * 1024
SMALL_SEGMENTS_MIN: Final = 16
"""A compaction joins the smaller segments of a bucket that has this many of them, of about the same size."""
DELETES_MAX: Final = 64
"""DELETEs of one table that hide rows of its files; a rewrite makes room for more."""
DELETE_CHECKS_MAX: Final = 4_000
"""Checks of segments against DELETEs in one decision of a leader; further DELETEs count as concerning some, until
housekeeping has looked."""
REPLACED_KEPT_NS: Final = 600 * SECOND_NS
"""How long segments that were replaced stay, for scans that were planned before; longer where `change_retention` of
the table says so."""
CHANGE_RETENTION_NS_MAX: Final = 7 * 24 * 3600 * SECOND_NS
REWRITE_EXPIRED_PERCENT: Final = 10
"""A segment is rewritten once about this part of its rows has expired."""
REWRITE_PORTION_BYTES: Final = 512 * 1024 * 1024
"""Of segments that one write transaction of a rewrite replaces, or a single larger one."""
COMPACTED_BYTES: Final = 128 * 1024 * 1024
"""Of segments that become one new segment, or a single larger one."""
COMPACTIONS_MAX: Final = 4
"""New segments that a node writes at once from old ones; a single user has at most half of them."""
AUTO_SEGMENTS_MAX: Final = 32
"""A bucket with more small segments is compacted by itself, where its table says so."""
AUTO_LOOK_NS: Final = 5 * SECOND_NS
"""How often a node asks for a bucket to compact."""
AUTO_CALL_NS: Final = 10 * SECOND_NS
"""For how long it waits for an answer."""
AUTO_REST_NS: Final = 60 * SECOND_NS
"""After one that has failed it asks again so much later."""
COMPACT_TOLD_NS: Final = 100 * MILLISECOND_NS
"""How often a node tells that it goes on with one: before its client would ask another node."""
REWRITE_PORTION_SEGMENTS: Final = 256
REWRITE_PLAN_SEGMENTS_MAX: Final = 4_096
"""A larger rewrite is planned in several parts."""
REWRITE_PLANS_MAX: Final = 16
"""Parts of one rewrite. Nodes of an older version write segments that are worth rewriting again."""
REWRITE_ATTEMPTS: Final = 16
"""Plans in a row of a rewrite that replaced nothing, because the table changed meanwhile."""
REWRITE_WAIT_NS: Final = 60 * SECOND_NS
"""How long a rewrite that replaces nothing waits for statements that remove something."""
HOUSEKEEPING_INTERVAL_NS: Final = 5 * SECOND_NS
"""How often a leader looks for expired write transactions, for nodes that are away, and the like."""
REPAIR_GATHER_NS: Final = 250 * MILLISECOND_NS
"""So long after a repair the next one that a person waits for begins; what is due meanwhile is gathered."""
LEFTOVERS_AT_ONCE: Final = 1_024
"""Records that one transaction removes behind a DROP, a DROP USER or a rewrite."""
FOUND_INLINE_MAX: Final = 2_000
"""Records that housekeeping looks at on the loop that grants leases; more are looked at on a thread."""
HORIZONS_AT_ONCE: Final = 1_024
"""Expiry horizons that one decision looks at."""
CLOCK_STEP_NS: Final = 600 * SECOND_NS
"""How far the leader's wall clock may step ahead, by default, and still make rows expire."""
CLOCK_STEP_MIN_NS: Final = SECOND_NS
CLOCK_STEP_MAX_NS: Final = 36_500 * 24 * 3600 * SECOND_NS
CLOCK_DOWNTIME_MAX_NS: Final = 7 * 24 * 3600 * SECOND_NS
"""How long a cluster may have had no leader for the next one to believe its wall clock."""
UNREAD_CHECKED_AT_ONCE: Final = 1_000
"""Segments decoded in one step of their check, or those of one bucket: a few milliseconds on a thread."""
UNREAD_REST_NS: Final = 10 * MILLISECOND_NS
"""Between two steps: a million segments take a quarter of a minute."""
