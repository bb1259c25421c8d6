"""Bounds of segments, commits and write transactions."""

from typing import Final

from leasehold.limits.units import DAY_NS, HOUR_NS, MILLISECOND_NS, SECOND_NS

BATCH_ROWS: Final = 65_536
BATCH_VALUES_MAX: Final = 32 * BATCH_ROWS
"""Of all columns of a batch that a scan decodes: a wide table is read in batches of fewer rows."""
SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
BATCH_ROWS_CROWDED: Final = 8_192
"""The same for a scan that begins while SCANS_FEW others are under way: so each of many takes little memory."""
SCANS_FEW: Final = 2
SCAN_FIRST_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a scan counts as until it has decoded its first batch: a batch with its pages, and not much more."""
SCAN_READ_BYTES: Final = 256 * 1024
"""A scan reads a column of a file in pieces of this size."""
ROW_GROUP_ROWS: Final = 131_072
"""A scan with conditions passes over whole row groups. Larger ones make no smaller files, and no faster scans."""
SEGMENTS_PER_COMMIT_MAX: Final = 4_096
COMMIT_SMALL_SEGMENTS: Final = 16
"""A leader decides on a commit of more segments on a thread first, in the turn of its user: some 60 us for each."""
COMMIT_SMALL_BOUNDS: Final = 32
"""So many columns with bounds count as a segment more."""
PLANNED_SEGMENT_BYTES_MIN: Final = 190
"""No segment takes less of a plan: where too many can't fit into one message, none is looked at."""
PLANNED_SEGMENT_BYTES_MAX: Final = 320
"""No segment takes more of a plan, without its statistics."""
TABLE_SEGMENTS_MAX: Final = 40_000
"""Segments of one table, so that a plan can name them all."""
TRANSACTION_TTL_NS: Final = 600 * SECOND_NS
"""An open write transaction is aborted after this time."""
SCHEMA_WAIT_NS: Final = 2 * SECOND_NS
"""How long a node waits for a revision that the client has already seen."""
SEALS_WAIT_NS: Final = 2 * SECOND_NS
"""A commit waits for unknown seal keys of nodes until its leader is this old."""
SEAL_POLL_NS: Final = 50 * MILLISECOND_NS
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Arrow data that the encoders of a node hold together before one of them writes a row group with fewer rows than
ROW_GROUP_ROWS."""
SORTED_BYTES: Final = 32 * 1024 * 1024
"""Rows that a compaction sorts at once."""
ROW_GROUP_BYTES_MIN: Final = 1024 * 1024
"""No encoder writes a smaller row group before its last one, however much the others hold."""
PLAIN_BYTES_MAX: Final = 16 * 1024
"""Rows that are no more are written as they are: compressed, in dictionaries or as differences they would cost every
reader more time than all else."""
PAGE_BYTES: Final = 1024 * 1024
"""Of a page of a column in a file, about: what Parquet's writer takes by default."""
WRITE_ROWS_MAX: Final = 1_024
"""Rows that Parquet's writer puts into a page before it looks at the size of the page: its own default."""
ENCODER_BATCHES_MAX: Final = 1_024
"""An encoder that holds more batches joins them, so that tiny batches cost no more memory than large ones."""
BATCH_COLUMN_BYTES: Final = 1024
"""What a column of a batch counts as at least: Arrow takes about 620 bytes for one, however few values it has."""
HELD_APART_BYTES: Final = 8 * 1024 * 1024
"""Batches that take more than twice as much, and mostly not for their values, are joined."""
DICTIONARY_SAMPLE_ROWS: Final = 8_192
"""Rows of a segment that decide whether a dictionary pays for a column."""
STATISTICS_COLUMNS_MAX: Final = 32
"""Columns of a table whose bounds are kept for each segment, besides those that it is clustered and kept by. Each takes
half a KiB in every process."""
STATISTIC_CHARACTERS_MAX: Final = 32
"""A longer string is cut to a bound of this length."""
CHUNK_BYTES: Final = 1024
"""A chunk is one column of one row group. What a file's writer keeps of each finished chunk until the file ends, and a
reader while it has the file open, about; without bounds of strings."""
CHUNK_INDEXED_BYTES: Final = 1_600
"""The same for the writer of a file with a page index."""
FOOTER_GROWTH: Final = 20
"""How many times as large as in its file a footer is at most for its reader: some 50 bytes of a file describe a
chunk."""
PAGE_INDEX_COLUMNS_MAX: Final = 64
"""A file of more columns has no page index: a chunk of a row group is mostly one page."""
CHUNK_BOUND_BYTES_MAX: Final = 4096
"""Parquet's writer leaves out longer bounds."""
SEGMENT_FOOTER_BYTES_MAX: Final = 24 * 1024 * 1024
"""What the writer of one segment keeps of finished chunks; a larger segment is refused."""
FOOTERS_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same for all encoders of a node together; one more row group is refused."""
FOOTERS_OF_ONE_BYTES: Final = 512 * 1024
"""An encoder that keeps no more is not refused for what others keep."""
FOOTER_LARGE_BYTES: Final = 4 * 1024 * 1024
"""Files with more are ended one at a time: Parquet makes copies of what it kept."""
SEGMENTS_VERIFIED_MAX: Final = 16_384
"""Segment files whose whole checksum a process remembers as right."""
OPEN_TRANSACTIONS_MAX: Final = 10_000
STREAMS_MAX: Final = 10_000
"""Streaming queries of which the newest batch is known."""
STREAMS_PER_TABLE_MAX: Final = 1_000
"""The same for the queries that write to one table."""
USER_STREAMS_MAX: Final = 2_500
"""The same for the queries that one user began."""
STREAMS_FORGOTTEN_AT_ONCE: Final = 100
"""Queries of dropped tables that are forgotten when a new query needs room."""
STREAM_KEPT_NS: Final = 30 * DAY_NS
"""The newest batch of a query is known so long after its commit."""
STREAMS_LOOK_NS: Final = HOUR_NS
"""How often a leader looks for queries to forget."""
USER_TRANSACTIONS_MAX: Final = 1_000
"""Write transactions of one user that are open."""
TRANSACTION_RENEW_NS: Final = 60 * SECOND_NS
"""How often a writer asks for more time."""
SEGMENT_ROWS_MAX: Final = 2**40
