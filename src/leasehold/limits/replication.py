"""Bounds of copies between nodes: forwarding, fetching, comparing a disk with the catalog, reports."""

from typing import Final

from leasehold.limits.clients import STAGE_CALL_NS
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

REPAIR_RATE: Final = 64 * 1024 * 1024
REPAIR_RATE_MIN: Final = 1024 * 1024
REPAIR_RATE_MAX: Final = 16 * 1024 * 1024 * 1024
FORWARD_CHUNK_BYTES: Final = 1024 * 1024
RECONCILE_INTERVAL_NS: Final = 500 * MILLISECOND_NS
"""How often a node compares its disk with its durable catalog."""
FETCH_ROUND_SEGMENTS_MAX: Final = 64
FETCHES_AT_ONCE: Final = 2
"""Segments that a node fetches at the same time. Each takes a thread of six, or more, that wait for disks and peers."""
FETCH_CHUNK_BYTES: Final = 512 * 1024
"""A segment travels to a node that fetches it in messages of this size. Measured: from a mebibyte on each message costs
a client of gRPC half as much again."""
FORWARD_QUEUE_CHUNKS: Final = 16
FORWARD_STALL_NS: Final = 3 * SECOND_NS
"""A peer with a full queue that takes nothing for this long is left out of the write in any case."""
FORWARD_FINISH_NS: Final = 5 * SECOND_NS
"""How long a peer may take to sync and answer once this node has synced."""
FORWARD_PATIENCE_MIN_NS: Final = 100 * MILLISECOND_NS
"""A peer that is later than this node by this much must answer a probe within the same time, or it is left out."""
FORWARD_PROBE_DELAY_NS: Final = 25 * MILLISECOND_NS
"""The same for a peer that has not said that it takes the file, which is probed earlier."""
FORWARD_SLOWER: Final = 4
"""How many times as long as this node's own sync a peer may be late."""
FORWARD_PATIENCE_MAX_NS: Final = 2 * SECOND_NS
FORWARD_PROBES: Final = 30
"""Probes in a row of a silent peer after a write, one in each FORWARD_PATIENCE_MIN_NS."""
FETCH_BASE_NS: Final = 10 * SECOND_NS
FETCH_BYTES_PER_SECOND_MIN: Final = 10 * 1024 * 1024
"""A slower copy is given up."""
FORWARD_CALL_NS: Final = STAGE_CALL_NS
"""A node forwards for as long as its client may write."""
SEGMENTS_PER_REPORT_MAX: Final = 256
"""Segments that a node reports as held in one message: the leader changes a record for each."""
REPORT_GATHER_NS: Final = 200 * MILLISECOND_NS
"""How long a fetched segment waits for others to be reported with it."""
REPORT_REPEAT_NS: Final = 5 * SECOND_NS
"""After this time a segment is reported again if the leader still does not know of it."""
RECONCILE_REST_MIN_NS: Final = SECOND_NS
"""How long a failed repair of a file rests, twice as long after each further failure."""
RECONCILE_REST_MAX_NS: Final = 30 * SECOND_NS
RECONCILE_RESTS_KEPT: Final = 65_536
FETCH_REST_MIN_NS: Final = LEASE_DURATION_NS
"""A peer that failed or was slow is asked for nothing for this long."""
MISSING_ROUND_SEGMENTS_MAX: Final = 4_096
"""Missing segments that a node reports in one comparison; the first one of a recovery reports all."""
SIZES_AT_ONCE: Final = 1_024
"""Files whose size is looked up in one step."""
RECONCILE_SLICE_BUCKETS: Final = 32
"""Buckets that a node compares in one step."""
RECONCILE_SLICE_RECORDS: Final = 1_024
"""Records that a node looks at on its event loop before others have a turn."""
RECONCILE_ROUNDS_WHOLE: Final = 128
"""Rounds in which every bucket is compared once more, changed or not: about a minute."""
RECONCILE_IN_TURN_MAX: Final = 64
"""Unchanged buckets that one round compares: 100,000 take a quarter of an hour."""
RECONCILE_TRASH_MAX: Final = 1_024
"""Files that one round moves to the trash."""
REPORTED_SEGMENTS_AT_ONCE_MAX: Final = 4 * SEGMENTS_PER_REPORT_MAX
"""Reported segments in one transaction: deciding it takes some ten milliseconds, in which no grant goes out."""
