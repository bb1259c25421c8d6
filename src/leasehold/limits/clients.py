"""Bounds of clients: asking coordinators, hedged requests, scans, appends."""

from typing import Final

from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

CONNECT_TIMEOUT_NS: Final = 5 * SECOND_NS
CALL_TIMEOUT_NS: Final = 30 * SECOND_NS
STATEMENT_RESOLVE_NS: Final = 30 * SECOND_NS
"""How long a client asks by statement id before it says that the outcome is unknown."""
SCAN_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a segment."""
PROGRESS_SHOWN_NS: Final = 500 * MILLISECOND_NS
"""How often a command shows on a terminal how many rows it has read."""
CLIENT_PATIENCE_NS: Final = STATEMENT_RESOLVE_NS
"""How long a client asks again while nobody answers who could, unless its caller gives a `timeout`."""
SCAN_GIVE_UP_NS: Final = CLIENT_PATIENCE_NS
LATE_ANSWER_NS: Final = 5 * SECOND_NS
"""How much longer than the timeout of a statement a client asks how that ended."""
RETRY_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two attempts to reach a coordinator."""
SCAN_PARTITION_BYTES: Final = 32 * 1024 * 1024
"""Of segments on disk: about so much is read by one Spark task."""
SCAN_PARTITIONS_MIN: Final = 4
"""A small table is read by so many tasks, if it has as many segments."""
SCAN_PARTITIONS_MAX: Final = 1_024
SCAN_BATCH_TIMEOUT_NS: Final = LEASE_DURATION_NS
"""A replica that has sent nothing for so long is left for the next one; twice as long after each such round."""
SCAN_PLANS_MAX: Final = 5
"""How many plans a client makes for one query whose rows are taken away before it has shown any."""
SCAN_STREAMS: Final = 4
"""Segments that one reader reads at once."""
SCAN_AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of the batches of one segment that wait for the reader, beside what the window of gRPC holds; a larger one waits
alone."""
SCAN_DISCARDS_MAX: Final = 4
"""A client that learns of newer revisions faster than a batch travels throws away so many in a row for it."""
HEDGE_DELAY_MIN_NS: Final = 100 * MILLISECOND_NS
"""A replica that is silent for so long is not waited for alone: another one is asked as well."""
HEDGE_DELAY_FIRST_NS: Final = 300 * MILLISECOND_NS
"""The same, until a client has had its first answer."""
HEDGE_DELAY_MAX_NS: Final = 2 * SECOND_NS
HEDGE_DEVIATIONS: Final = 4
"""Where answers usually take longer, silence lasts until an answer is late by so many usual deviations."""
HEDGE_BYTES_PER_SECOND: Final = 200 * 1024 * 1024
"""So fast a replica handles what it handles before it answers: a file that it verifies, rows that it encodes."""
HEDGE_EVERY: Final = 10
"""Of the requests of a client one in so many may be a hedge."""
HEDGE_BURST: Final = 10
"""Hedges that a client may send at once after it had needed none for a while."""
APPEND_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""Rows that a writer gathers for each bucket before it sends them as a segment."""
APPEND_BUFFERS_BYTES_MAX: Final = 256 * 1024 * 1024
"""For all buckets together; twice as much is in memory while one load is sent and the next one gathered."""
APPEND_BATCHES_MAX: Final = 1_024
"""A writer that holds more batches than this joins them."""
APPEND_STREAMS: Final = 4
"""Segments that one writer sends at once."""
STAGE_CALL_NS: Final = 60 * SECOND_NS
STAGE_PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Between two rounds over the replicas of a bucket."""
PLACE_REST_MIN_NS: Final = SECOND_NS
"""A replica that is fenced, gone or silent is asked last for so long, by the reader or writer that met it; twice as
long each time that it is met so again."""
PLACE_REST_MAX_NS: Final = 30 * SECOND_NS
CLUSTERS_KNOWN_MAX: Final = 16
"""Of so many clusters the tasks of one Python worker of Spark share what they know."""
PLACES_TIMEOUT_NS: Final = 2 * SECOND_NS
"""How long a reader or writer waits to hear where else its replicas are: the places it knows may serve again sooner."""
PLACES_AGAIN_NS: Final = 100 * MILLISECOND_NS
"""One reader or writer asks that no more often, however many streams it has."""
REASON_CHARACTERS_MAX: Final = 400
"""Of what each replica said, in the error of a reader or writer that gives up."""
TOLD_ADDRESS_CHARACTERS_MAX: Final = 60
"""Of each address that a fenced node names: those of a bucket's other replicas fit into one error."""
