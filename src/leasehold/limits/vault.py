"""Bounds of the vault."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

VAULT_BATCH_REVISIONS_MAX: Final = 10_000
"""Revisions that the vault applies in one transaction."""
VAULT_FULL_RETRY_NS: Final = SECOND_NS
"""How often a vault whose disk is full looks for space."""
VAULT_DELAY_NS: Final = 30 * MILLISECOND_NS
"""How long applied revisions wait for more before the vault writes them, out of the way of the renewal they cause."""
VAULT_FORMAT_VERSION: Final = 2
"""Of the vault's file; 2 keeps a hash beside each item."""
VAULT_STAGED_KEYS_MAX: Final = 16_000_000
"""Of a snapshot that a vault takes in for a leap."""
VAULT_WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A vault up to this size is checked whole when it is opened."""
VAULT_BUCKETS_CACHED_MAX: Final = 65_536
"""Buckets of the vault that a process keeps decoded: when it reads one again, it decodes only what has changed."""
BUCKET_PATCH_KEYS_MAX: Final = 256
"""Changed segments of a bucket that are kept apart before a leader decodes the bucket."""
VAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Of the vault's file that its database keeps in memory: keys of segments and transactions are random."""
VAULT_LOG_PAGES: Final = 4_096
"""Of the log (16 MiB) that a writer leaves before it moves them into the file; a start after a kill moves them."""
VAULT_SCRUB_ROWS: Final = 500
"""Items that one step of the check in the background reads."""
VAULT_SCRUB_INTERVAL_NS: Final = 500 * MILLISECOND_NS
"""Between two steps: a million keys take a quarter of an hour, and less than a hundredth of a core."""
VAULT_SCRUB_REST_NS: Final = 6 * 3600 * SECOND_NS
"""Between a whole check in the background and the next."""
VAULT_FINDINGS_MAX: Final = 100
"""Findings that an integrity check lists."""
VAULT_BUSY_WAIT_MS: Final = 2_000
"""How long a write of the vault waits for another program that has its file open."""
VAULT_SYNCS_PER_CHECKPOINT: Final = 64
"""After this many syncs the log is moved into the file: a lost log takes no more than these."""
