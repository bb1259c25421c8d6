"""Bounds of SELECTs and of the queries of Spark."""

from typing import Final

from leasehold.limits.units import SECOND_NS

QUERIES_MAX: Final = 10_000
"""Queries of Spark, for each table that they read, whose cutoff is kept."""
USER_QUERIES_MAX: Final = 2_500
"""The same of one user."""
QUERY_KEPT_NS: Final = 3_600 * SECOND_NS
"""How long the cutoff of a query is kept after its last task has asked for it."""
QUERIES_AT_ONCE: Final = 1_000
"""Cutoffs that one transaction forgets."""
READ_GROUPS_MAX: Final = 64
"""Groups of a plan whose files are read without a node: each is a read of its own."""
QUERY_MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""What DuckDB may hold for one SELECT unless the caller says otherwise."""
QUERY_PROCESS_BYTES_MAX: Final = 3 * QUERY_MEMORY_BYTES
"""What the process of `leasehold sql` may hold for a SELECT: DuckDB does not count the values that its functions make,
which may have gigabytes each."""
CHANGES_MEMORY_BYTES: Final = 256 * 1024 * 1024
"""What DuckDB may hold to compare the rows before and after a commit; more lies in temporary files."""
CHANGES_THREADS: Final = 2
QUERY_THREADS_MAX: Final = 4
QUERY_BATCHES_AHEAD: Final = 1
"""Batches of an answer that wait for their reader; DuckDB holds some MiB more."""
QUERY_STOP_NS: Final = 2 * SECOND_NS
"""How long the end of a query waits for its thread."""
QUERY_ROWS_SHOWN_MAX: Final = 200
"""Of an answer that is shown as a table."""
