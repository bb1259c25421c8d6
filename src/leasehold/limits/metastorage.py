"""Bounds of the meta storage: transactions, ranges, compaction, retention of revisions."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

TRANSACTION_OPERATIONS_MAX: Final = 100_000
RANGE_PAGE_MAX: Final = 1_000
META_STORAGE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
TRANSACTION_BYTES_MAX: Final = 15 * 1024 * 1024
"""Of the keys and values of one branch, each change's framing included: a revision travels whole in one message."""
CHANGE_FRAMING_BYTES: Final = 32
RANGE_PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A page ends early once it holds so much."""
RANGE_VERSIONS_PER_KEY: Final = 4
"""A range reads so many versions for each key of a page one after the other; where there are more it goes from key to
key, which takes four times as long for each."""
REPLAY_REVISIONS_MAX: Final = 1_000
"""How many revisions one read of the history spans."""
REPLAY_BYTES_MAX: Final = 8 * 1024 * 1024
COMPACTION_SLICE_ROWS: Final = 1_000
"""Compaction deletes in slices of so many rows, so that no transaction waits long behind it."""
COMPACTION_PAUSE_NS: Final = 5 * MILLISECOND_NS
"""So long nobody asks for anything before a slice, unless there was a transaction since the last one."""
CHECKPOINT_COMMITS: Final = 256
"""The write-ahead log is folded into the file after so many commits, between two answers."""
CHECKPOINT_PAGES_MAX: Final = 10_000
"""It is folded at once when it has grown to so many pages."""
QUICK_CHECK_BYTES_MAX: Final = 16 * 1024 * 1024
"""A file up to this size is checked whole when it is opened."""
RETENTION_NS: Final = 3600 * SECOND_NS
RETENTION_MIN_NS: Final = SECOND_NS
RETENTION_MAX_NS: Final = 30 * 24 * 3600 * SECOND_NS
RETENTION_REVISIONS: Final = 200_000
RETENTION_REVISIONS_MIN: Final = 100
RETENTION_REVISIONS_MAX: Final = 100_000_000
RETENTION_HOLD_NS: Final = 60 * SECOND_NS
"""A node that takes a snapshot holds the revisions after it for so long from its last page on."""
RETENTION_HOLDS_MAX: Final = NODES_MAX
COMPACTION_INTERVAL_NS: Final = 5 * SECOND_NS
"""How often a leader looks whether there is something to forget."""
RETENTION_SAMPLES_MAX: Final = 1_024
"""What a leader remembers of when each revision was the newest."""
