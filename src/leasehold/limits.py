"""Every bound of the system, named, with its unit at the end; relations between them are asserted.

Durations are integers of nanoseconds, sizes are bytes.
"""

from typing import Final

MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000

# Lease (DESIGN section 7).
DRIFT_PPM: Final = 10_000
"""A clock gains or loses at most this many parts in a million (1 %)."""
LEASE_DURATION_NS: Final = 3 * SECOND_NS
LEASE_MARGIN_NS: Final = 500 * MILLISECOND_NS
RENEWAL_INTERVAL_NS: Final = 500 * MILLISECOND_NS
BOUND_SLACK_NS: Final = 400 * MILLISECOND_NS
"""What the published bound allows for transactions, round trips and scheduling."""
LEASE_DURATION_MIN_NS: Final = 200 * MILLISECOND_NS
LEASE_DURATION_MAX_NS: Final = 600 * SECOND_NS
RENEWALS_OUTSTANDING_MAX: Final = 64
"""A grant for a renewal older than the last so many is ignored."""

assert LEASE_DURATION_MIN_NS < LEASE_DURATION_NS < LEASE_DURATION_MAX_NS
assert RENEWAL_INTERVAL_NS * 3 < LEASE_DURATION_NS, "a lease must outlast two lost renewals"

# Names and statements.
IDENTIFIER_CHARACTERS_MAX: Final = 128
STATEMENT_CHARACTERS_MAX: Final = 1_000_000
COLUMNS_MAX: Final = 2_000
BUCKETS_MAX: Final = 1_024
REPLICATION_MAX: Final = 7
DECIMAL_PRECISION_MAX: Final = 38
NODES_MAX: Final = 1_024
PROPERTY_CHARACTERS_MAX: Final = 1_024

# Messages and queues.
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
VALUE_BYTES_MAX: Final = 1024 * 1024
KEY_BYTES_MAX: Final = 1024
TRANSACTION_OPERATIONS_MAX: Final = 10_000
RANGE_PAGE_MAX: Final = 1_000
WATCH_QUEUE_REVISIONS_MAX: Final = 10_000
COMMAND_QUEUE_MAX: Final = 4_096
COMMANDS_PER_TRANSACTION_MAX: Final = 256
STATEMENTS_KEPT: Final = 10_000
"""Finished statements whose outcome can still be asked for by id."""
TRANSACTIONS_KEPT: Final = 10_000
"""Ended write transactions whose idempotency key is still known."""

assert VALUE_BYTES_MAX < MESSAGE_BYTES_MAX

# Data.
BATCH_ROWS: Final = 65_536
SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
ROW_GROUP_ROWS: Final = 1_048_576
SEGMENTS_PER_COMMIT_MAX: Final = 4_096
TRANSACTION_TTL_NS: Final = 600 * SECOND_NS
"""An open write transaction is aborted after so long without an end."""
SCHEMA_WAIT_NS: Final = 2 * SECOND_NS
"""How long a node waits for a revision that the client has already seen."""
SERVE_LOG_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SERVE_LOG_FILES_MAX: Final = 4
FORWARD_CHUNK_BYTES: Final = 1024 * 1024

# Client.
CONNECT_TIMEOUT_NS: Final = 5 * SECOND_NS
CALL_TIMEOUT_NS: Final = 30 * SECOND_NS
STATEMENT_RESOLVE_NS: Final = 30 * SECOND_NS
"""How long a client asks by statement id before it says that the outcome is unknown."""

FORMAT_VERSION: Final = 1
"""Of a data directory; a newer one is refused."""
PROTOCOL_VERSION: Final = 1
