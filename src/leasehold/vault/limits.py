"""The bounds that an open vault keeps to."""

from typing import Final, NamedTuple

from leasehold.limits.vault import (
    VAULT_BUCKETS_CACHED_MAX,
    VAULT_BUSY_WAIT_MS,
    VAULT_FULL_RETRY_NS,
    VAULT_WHOLE_BYTES_MAX,
)


class VaultLimits(NamedTuple):
    """Bounds of what is checked at the start, waited for and kept in memory."""

    whole_bytes_max: int = VAULT_WHOLE_BYTES_MAX
    busy_wait_ms: int = VAULT_BUSY_WAIT_MS
    full_retry_ns: int = VAULT_FULL_RETRY_NS
    buckets_cached_max: int = VAULT_BUCKETS_CACHED_MAX


VAULT_LIMITS: Final = VaultLimits()
