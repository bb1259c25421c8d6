"""Bounds of the vault."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

VAULT_BATCH_REVISIONS_MAX: Final = 10_000
"""Revisions that the vault applies in one transaction."""
VAULT_FULL_RETRY_NS: Final = SECOND_NS
"""How often a vault whose disk is full tries whether there is space again."""
VAULT_DELAY_NS: Final = 30 * MILLISECOND_NS
"""How long applied revisions wait for more before the vault writes them, out of the way of the renewal they cause."""
VAULT_FORMAT_VERSION: Final = 2
"""Of the vault's file; 2 keeps a hash beside each item."""
VAULT_STAGED_KEYS_MAX: Final = 16_000_000
"""Of a snapshot that a vault takes in for a leap."""
VAULT_WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A vault of up to so many bytes is checked whole when it is opened."""
VAULT_BUCKETS_CACHED_MAX: Final = 65_536
"""Buckets whose segments a process has read from its vault and keeps decoded: of those that it reads again, it decodes
what has changed."""
BUCKET_PATCH_KEYS_MAX: Final = 256
"""Segments of a bucket that change before a leader decodes the bucket by itself; they are kept apart until then."""
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
"""That an integrity check lists."""
VAULT_BUSY_WAIT_MS: Final = 2_000
"""How long a write of the vault waits for another program that has its file open."""
VAULT_SYNCS_PER_CHECKPOINT: Final = 64
"""After so many syncs the log is moved into the file: a log that is lost takes no more than these."""
