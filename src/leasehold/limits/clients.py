"""Bounds of clients: asking coordinators, hedged requests, scans, appends."""

from typing import Final

from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

CONNECT_TIMEOUT_NS: Final = 5 * SECOND_NS
CALL_TIMEOUT_NS: Final = 30 * SECOND_NS
ROLE_TIMEOUT_NS: Final = SECOND_NS
"""How long a coordinator is asked whether it leads, before it counts as silent."""
COORDINATOR_SILENCE_NS: Final = SECOND_NS
"""After so long without an answer a coordinator is asked who it is, if there are others to ask instead."""
SILENCE_GROWTH: Final = 4
"""By which a coordinator that is busy gets more time: all attempts before one together are a third of it."""
STATEMENT_RESOLVE_NS: Final = 30 * SECOND_NS
"""How long a client asks for a statement by its id until its outcome counts as unknown."""
SCAN_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a segment."""
PROGRESS_SHOWN_NS: Final = 500 * MILLISECOND_NS
"""How often a command shows on a terminal how many rows it has read."""
CLIENT_PATIENCE_NS: Final = STATEMENT_RESOLVE_NS
"""How long a client retries without an answer, unless its caller gives a `timeout`."""
LATE_ANSWER_NS: Final = 5 * SECOND_NS
"""How much longer than the timeout of a statement a client asks for its outcome."""
RETRY_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two attempts to reach a coordinator."""
LOGIN_PAUSE_NS: Final = 300 * MILLISECOND_NS
"""Between two attempts to log in at a coordinator that is busy with others' passwords."""
SCAN_PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Segments on disk that one Spark task reads, roughly."""
SCAN_PARTITIONS_MIN: Final = 4
"""Tasks that read a small table, if it has as many segments."""
SCAN_PARTITIONS_MAX: Final = 1_024
SCAN_BATCH_TIMEOUT_NS: Final = LEASE_DURATION_NS
"""A reader leaves a replica that has sent nothing for this long; each round doubles the time."""
SCAN_BYTES_PER_SECOND_MIN: Final = 1024 * 1024
"""A reader leaves a replica that has sent less of a file than that in all the time that its call had, so that a node
which sends row after row does not hold it for ever."""
SCAN_PLANS_MAX: Final = 5
"""Plans that a client makes for one query while rows are taken away before it has shown any."""
SCAN_STREAMS: Final = 4
"""Calls to nodes that one reader makes at once."""
SCAN_TOGETHER_BYTES_MAX: Final = 512 * 1024
"""Of small segments of a bucket, that one call reads: a call costs as much as some 100 KiB. Larger ones are better read
by several calls at once."""
SCAN_AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Batches of one segment that wait for the reader, beside the window of gRPC. A larger batch waits alone."""
SCAN_DISCARDS_MAX: Final = 4
"""Batches in a row that a client throws away as too old, if it hears of revisions faster than batches travel."""
HEDGE_DELAY_MIN_NS: Final = 100 * MILLISECOND_NS
"""The shortest silence of a replica after which another one is asked as well."""
HEDGE_DEVIATIONS: Final = 4
"""Usual deviations by which an answer has to be late before another replica is asked."""
HEDGE_DELAY_MAX_NS: Final = 300 * MILLISECOND_NS
"""The longest such silence, and that before a client's first answer. A machine that pauses makes many answers late at
once; a client that learned from them to wait for seconds would wait that long for the next dead replica."""
HEDGE_BYTES_PER_SECOND: Final = 200 * 1024 * 1024
"""How fast a replica verifies a file, or encodes rows, before it answers."""
HEDGE_EVERY: Final = 10
"""One in this many requests of a client may be a hedge."""
HEDGE_BURST: Final = 10
"""Hedges that a client may send at once after a while without any."""
APPEND_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""Rows that a writer gathers for a bucket before it sends them as a segment."""
APPEND_BUFFERS_BYTES_MAX: Final = 256 * 1024 * 1024
"""The same for all buckets. Twice this is in memory: one load is sent while the next one is gathered."""
APPEND_BATCHES_MAX: Final = 1_024
"""A writer that holds more batches joins them."""
APPEND_STREAMS: Final = 4
"""Segments that one writer sends at once."""
STAGE_CALL_NS: Final = 60 * SECOND_NS
APPEND_ATTEMPTS: Final = 6
"""How often a client writes the same rows whose commit finds too few holders; the pauses last 8 s together."""
APPEND_PAUSE_NS: Final = 250 * MILLISECOND_NS
"""Before the second attempt; twice as long before each further one."""
STAGE_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a bucket."""
PLACE_REST_MIN_NS: Final = SECOND_NS
"""How long a fenced, gone or silent replica is asked last; twice as long each time that it is met so again."""
PLACE_REST_MAX_NS: Final = 30 * SECOND_NS
CLUSTERS_KNOWN_MAX: Final = 16
"""Clusters of which the tasks of one Python worker of Spark share what they know."""
WORKER_CLIENTS_MAX: Final = 4
"""Clients that one Python worker of Spark keeps for its next tasks."""
PLACES_TIMEOUT_NS: Final = 2 * SECOND_NS
"""How long a reader or writer waits to hear where other replicas are: the known ones may serve sooner."""
PLACES_AGAIN_NS: Final = 100 * MILLISECOND_NS
"""The shortest time between two such lookups of one reader or writer."""
REASON_CHARACTERS_MAX: Final = 400
"""Of the reason of each replica, in the error of a reader or writer that gives up."""
TOLD_ADDRESS_CHARACTERS_MAX: Final = 60
"""Of each address that a fenced node names, so that a bucket's other replicas fit into one error."""
STATUS_TABLES_SHOWN: Final = 30
"""Tables, and risks, that `leasehold status --tables` shows: one screen."""
STREAM_LOGIN_NS: Final = 12 * HOUR_NS
"""A stream gets another login for its tasks after this time."""
CREDENTIALS_FILE_BYTES_MAX: Final = 65_536
REPLACE_ATTEMPTS: Final = 5
"""Plans of one merge, while others change the rows that it replaces."""
FEW_BYTES_MAX: Final = 64 * 1024
"""A frame that Spark takes for so small comes to its driver as it is, if it has at most FEW_ROWS_MAX rows."""
FEW_ROWS_MAX: Final = 4_096
SPOOL_ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
SPOOL_BATCH_ROWS: Final = 65_536
"""That a task reads at once."""
MERGE_BROADCAST_BYTES_MAX: Final = 16 * 1024 * 1024
"""A frame of at most so much memory is small: it is sent to where the rows of the table are."""
MERGE_ALONE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Segments on disk, with rows that a small frame may change, that one process writes anew; for more, tasks do it."""
