"""Bounds of nodes: ids, joining, the logical topology, placement, removal, generations of the meta storage."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

NODES_MAX: Final = 1_024
"""Nodes that are not removed."""
NODE_IDS_MAX: Final = 16 * NODES_MAX
"""Ids that a cluster ever gives out. Removed nodes keep their records, so that neither number nor token is used again:
at most 3.4 MB in the store and in a snapshot, and 6.6 MB in each process."""
JOIN_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""A node whose join has to wait asks again after this time at the latest: the wait may have become shorter."""
JOIN_WAIT_TOLD_NS: Final = 30 * SECOND_NS
"""How often a node whose join has to wait says so in its log."""
CUT_OFF_TOLD_NS: Final = 10 * SECOND_NS
"""How often a node that no coordinator answers says so in its log."""
TOPOLOGY_GRACE_NS: Final = 10 * SECOND_NS
"""A node leaves the logical topology this long after its connection broke, if its lease has ended."""
CAPABILITIES_MAX: Final = 32
COORDINATORS_KNOWN_MAX: Final = 128
"""Coordinators that a node asks in turn: the configured ones and those that its vault remembers."""
TOPOLOGY_LOOK_NS: Final = SECOND_NS
"""How often a leader looks for members that have to leave the logical topology."""
UNJOINED_KEPT_NS: Final = 600 * SECOND_NS
"""An id whose node never joined is given up this long after the leader learned of it or the node last asked."""
GIVEN_UP_AT_ONCE: Final = 256
"""Ids that are given up in one transaction."""
ADOPT_POLL_NS: Final = 500 * MILLISECOND_NS
ADOPT_FORGET_NS: Final = 60 * SECOND_NS
"""After a pause this long between requests for a node's incarnation, the wait begins anew."""
REPLACE_AFTER_NS: Final = 15 * MINUTE_NS
REPLACE_AFTER_MIN_NS: Final = 5 * SECOND_NS
"""Longer than a lease of the default duration may last after its node is gone."""
REPLACE_AFTER_MAX_NS: Final = 30 * 24 * 60 * MINUTE_NS
PLACED_AT_ONCE: Final = 256
"""Buckets that get another replica in one transaction."""
REBALANCE_AUTO: Final = 1
"""The setting `rebalance` as it is stored: 0 for manual."""
MOVES_AT_ONCE: Final = 64
"""Replicas that a rebalance moves at the same time; writes go to these buckets' new replicas too."""
MOVES_OF_NODE_MAX: Final = 16
"""Of these with the same target."""
MOVING_BYTES_OF_NODE_MAX: Final = 256 * 1024 * 1024
"""No further move to a node begins while it has so much to fetch: about what a stop throws away at most."""
BUCKET_WEIGHT_BYTES: Final = 64 * 1024
"""What a bucket counts in a rebalance beside its rows."""
ROW_WEIGHT_BYTES: Final = 8
"""What a row counts at least."""
SPREAD_PERCENT: Final = 5
"""By how much the load of a node may differ from the mean after a rebalance, if its buckets are small enough."""
UNEVEN_PERCENT: Final = 15
"""By how much it differs before a leader begins one by itself."""
UNEVEN_LOOK_NS: Final = MINUTE_NS
"""How often a leader looks for that."""
COPY_RATE_SECONDS: Final = 10
"""The rate of copies is the average of so many seconds."""
PLAN_MOVES_MAX: Final = 1_000
"""Moves that SHOW REBALANCE plans ahead."""
PLAN_CHECKS_MAX: Final = 1_000_000
"""Buckets and pairs of nodes that one plan looks at: a few seconds on a thread."""
STRUCK_AT_ONCE: Final = 1_024
"""Manifest entries that a removed node is struck off in one transaction."""
STRUCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of these entries; a larger one goes alone."""
REMOVALS_MAX: Final = 16
"""Removals of nodes that wait at once."""
LOST_TABLES_NAMED_MAX: Final = 5
"""Tables that the refusal of a removal names."""
ADOPT_WAIT_MAX_NS: Final = 1_300 * SECOND_NS
"""How long an adoption waits for the lease of the newest process to end."""
GENERATION_GAP: Final = 1_000_000
"""How far every counter, incarnation and term jumps at least when a lost meta storage is recovered."""
NUMBERS_PER_SECOND: Final = 10
"""How much farther for each second since the last generation began: more than a lost history gave out, or another
generation that began in the same restored state."""
JUMPS_EVERY_S: Final = 60
"""How often terms jump at most, on average since GENERATIONS_SINCE."""
GENERATIONS_SINCE: Final = 1_735_689_600
"""2025, in seconds since 1970: a cluster's first generation began no earlier."""
ORIGINS_MAX: Final = 64
"""Beginnings of generations that a cluster remembers."""
RECOUNTED_MAX: Final = 2_000
"""Changed records since a census that the event loop of the leader looks at; after more a thread makes a new census."""
REMOVAL_CENSUSES_MAX: Final = 16
"""Censuses of one removal that may be too old when the tombstone is decided; then the removal is refused."""
COPIES_LACKED_MAX: Final = 100_000
"""Segments without a file that a leader remembers, of all nodes; more are not counted as lost."""
COPIES_NOTED_MAX: Final = 50_000
"""Manifest entries that may change while a thread counts missing copies; after more the count begins anew."""
COORDINATOR_REPORT_NS: Final = 2 * SECOND_NS
"""How often a coordinator that follows reports itself to the leader."""
COORDINATOR_SILENT_NS: Final = 3 * COORDINATOR_REPORT_NS
"""A coordinator that has not reported for so long is shown as silent."""
COORDINATOR_KEPT_NS: Final = 10 * MINUTE_NS
"""For so long a silent coordinator stays in the catalog."""
COORDINATORS_MAX: Final = 32
"""Coordinators that the catalog shows, with silent ones."""
VERSION_CHARACTERS_MAX: Final = 64
"""Of the version of a program."""
