"""Bounds of nodes: ids, joining, the logical topology, placement, removal, generations of the meta storage."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

NODES_MAX: Final = 1_024
"""Nodes that are not removed."""
NODE_IDS_MAX: Final = 16 * NODES_MAX
"""Ids that a cluster ever gives out: those of removed nodes stay as records of a few hundred bytes, so that neither the
number nor its token is used again. That is 3.4 MB in the store and in a snapshot, and 6.6 MB in each process."""
JOIN_ASK_AGAIN_NS: Final = 5 * SECOND_NS
"""A node whose join has to wait asks again after so long at the latest: the wait may have become shorter."""
JOIN_WAIT_TOLD_NS: Final = 30 * SECOND_NS
"""A node whose join has to wait says so in its log, and says it again after so long."""
CUT_OFF_TOLD_NS: Final = 10 * SECOND_NS
"""A node that no coordinator answers says so in its log, and says it again after so long."""
TOPOLOGY_GRACE_NS: Final = 10 * SECOND_NS
"""A node whose connection has been gone for so long, and whose lease has ended, leaves the logical topology."""
CAPABILITIES_MAX: Final = 32
COORDINATORS_KNOWN_MAX: Final = 128
"""Coordinators that a node asks in turn: those it was given and those its vault remembers."""
TOPOLOGY_LOOK_NS: Final = SECOND_NS
"""How often a leader looks for members that have to leave the logical topology."""
UNJOINED_KEPT_NS: Final = 600 * SECOND_NS
"""An id whose node never joined is given up after so long: counted by the leader, from when it first knew of the id or
the node last asked."""
GIVEN_UP_AT_ONCE: Final = 256
"""Such ids that are given up in one transaction."""
ADOPT_POLL_NS: Final = 500 * MILLISECOND_NS
ADOPT_FORGET_NS: Final = 60 * SECOND_NS
"""Who asks for a node's incarnation after so long a pause begins to wait anew."""
PLACED_AT_ONCE: Final = 256
"""Buckets that get another replica in one transaction."""
STRUCK_AT_ONCE: Final = 1_024
"""Manifest entries that a removed node is struck off in one transaction."""
STRUCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of these entries; one that is larger goes alone."""
REMOVALS_MAX: Final = 16
"""Removals of nodes that wait at once."""
LOST_TABLES_NAMED_MAX: Final = 5
"""Tables that the refusal of a removal names."""
ADOPT_WAIT_MAX_NS: Final = 1_300 * SECOND_NS
"""How long an adoption waits for the lease of the newest process to end."""
GENERATION_GAP: Final = 1_000_000
"""By so much at least every counter, incarnation and term jumps when a lost meta storage is recovered."""
NUMBERS_PER_SECOND: Final = 10
"""And by so much more for each second since the generation before began: more than a lost history gave out of each,
and a generation that began in the same restored state some seconds before this one."""
GENERATIONS_SINCE: Final = 1_735_689_600
"""2025, in seconds since 1970: when a cluster's first generation began at the earliest."""
ORIGINS_MAX: Final = 64
"""Beginnings of generations that a cluster remembers."""
RECOUNTED_MAX: Final = 2_000
"""Records that have changed since a census and are looked at on the loop that grants leases; after more there is a new
census, on a thread."""
REMOVAL_CENSUSES_MAX: Final = 16
"""Where so many are too old by the time the tombstone is decided, the removal is refused."""
COPIES_LACKED_MAX: Final = 100_000
"""Segments without a file that a leader remembers, of all nodes together; those beyond are not counted as lost."""
COPIES_NOTED_MAX: Final = 50_000
"""Entries of the manifest that may change while the segments with too few holders are counted, on a thread; after more
the count begins anew."""
