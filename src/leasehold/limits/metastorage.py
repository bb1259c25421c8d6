"""Bounds of the meta storage: transactions, ranges, compaction, retention of revisions."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

TRANSACTION_OPERATIONS_MAX: Final = 100_000
RANGE_PAGE_MAX: Final = 1_000
META_STORAGE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
META_STORAGE_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Pages of the file that are kept in memory."""
NEWEST_KEYS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of the keys that are kept in memory with their newest values."""
TRANSACTION_BYTES_MAX: Final = 15 * 1024 * 1024
"""Of the keys and values of one branch, with each change's framing: one message carries a whole revision."""
CHANGE_FRAMING_BYTES: Final = 32
RANGE_PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A page ends early once it holds this much."""
RANGE_VERSIONS_PER_KEY: Final = 4
"""Versions that a range reads in order for each key of a page; where there are more it seeks each key, which takes four
times as long."""
REPLAY_REVISIONS_MAX: Final = 1_000
"""Revisions that one read of the history spans."""
REPLAY_BYTES_MAX: Final = 8 * 1024 * 1024
COMPACTION_SLICE_ROWS: Final = 1_000
"""Rows that compaction deletes at once, so that no transaction waits long."""
COMPACTION_PAUSE_NS: Final = 5 * MILLISECOND_NS
"""How long the store must be idle before a slice, unless there was a transaction since the last one."""
CHECKPOINT_COMMITS: Final = 256
"""Commits after which the write-ahead log is folded into the file, between two answers."""
CHECKPOINT_PAGES_MAX: Final = 10_000
"""Pages of the log at which it is folded at once."""
QUICK_CHECK_BYTES_MAX: Final = 16 * 1024 * 1024
"""A file up to this size is checked whole when it is opened."""
RETENTION_NS: Final = 3600 * SECOND_NS
RETENTION_MIN_NS: Final = SECOND_NS
RETENTION_MAX_NS: Final = 30 * 24 * 3600 * SECOND_NS
RETENTION_REVISIONS: Final = 200_000
RETENTION_REVISIONS_MIN: Final = 100
RETENTION_REVISIONS_MAX: Final = 100_000_000
RETENTION_BYTES: Final = 256 * 1024 * 1024
"""A shared store has a small quota, of which the history takes its part."""
RETENTION_BYTES_MIN: Final = 1024 * 1024
RETENTION_BYTES_MAX: Final = META_STORAGE_BYTES_MAX
RETENTION_HOLD_NS: Final = 60 * SECOND_NS
"""How long a node that takes a snapshot holds the revisions after it, from its last page on."""
RETENTION_HOLDS_MAX: Final = NODES_MAX
COMPACTION_INTERVAL_NS: Final = 5 * SECOND_NS
"""How often a leader looks for revisions to forget."""
RETENTION_SAMPLES_MAX: Final = 1_024
"""Instants at which a leader remembers the newest revision."""
HISTORY_SAMPLE_ROWS: Final = 1_000
"""Rows of the history that are measured to estimate its size."""
RETENTION_FOUND_STEPS: Final = 16
"""Of the history that a leader found: the steps in which it is forgotten."""
