"""Bounds of the physical topology (SWIM) and of the cluster key."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

DATAGRAM_BYTES_MAX: Final = 1_200
"""None is longer that is sent. With the headers of UDP and IPv6 it fits the smallest packet of IPv6, 1,280 bytes, which
tunnels pass too."""
DATAGRAM_READ_BYTES_MAX: Final = 1_400
"""The longest of `swim/1` as the version before sends them."""
DATAGRAM_SALT_BYTES: Final = 16
"""Random bytes at the start of each datagram of `swim/2`."""
DATAGRAM_SEAL_BYTES: Final = 16
"""Of the seal at the end of a datagram."""
DATAGRAM_CLUSTER_BYTES: Final = 8
"""Of the cluster id's hash at the start of a datagram of `swim/1`."""
DATAGRAMS_BATCH_MAX: Final = 64
"""Datagrams that are read one after the other."""
DATAGRAMS_BATCH_NS: Final = 2 * MILLISECOND_NS
"""No further one is read in a batch that has taken this time. So all take about a sixth of the loop at most."""
DATAGRAMS_REST_NS: Final = 10 * MILLISECOND_NS
"""How long none is read after a batch: at most 6,400 a second are looked at."""
DATAGRAM_ADDRESSES_KEPT: Final = 4_096
"""Addresses whose numeric form is remembered."""
NAMES_KEPT: Final = 1_024
"""Names of hosts that are looked up; datagrams to further ones are lost."""
NAME_LOOK_NS: Final = 30 * SECOND_NS
"""How long the result for a name counts; the name is looked up again when a datagram is sent there."""
CLUSTER_KEY_BYTES: Final = 32
CLUSTER_KEY_FILE_BYTES_MAX: Final = 1_024
SWIM_PERIOD_NS: Final = 500 * MILLISECOND_NS
"""A member probes one other in each protocol period."""
SWIM_PING_TIMEOUT_NS: Final = 200 * MILLISECOND_NS
"""After this time without an answer others are asked to ping."""
SWIM_NACK_NS: Final = 150 * MILLISECOND_NS
"""A member that was asked to ping reports after this time that it has heard nothing."""
SWIM_LATE_NS: Final = SWIM_PERIOD_NS
"""A member that runs this late was stopped or is overloaded, and does not count the time against others."""
SWIM_HELPERS: Final = 3
"""Members that are asked to ping for another one."""
SWIM_RELAYS_MAX: Final = 256
"""Pings that a member makes for others at the same time."""
SWIM_HEALTH_MAX: Final = 8
"""The worst local health: a member's period and timeout grow up to one more times than this."""
SWIM_SUSPICION_PERIODS: Final = 4
"""The shortest suspicion in periods, times the decimal logarithm of the number of members."""
SWIM_SUSPICION_STRETCH: Final = 6
"""How many times the shortest suspicion one lasts that nobody confirms."""
SWIM_CONFIRMATIONS: Final = 2
"""Further members that must suspect on their own for the shortest suspicion."""
SWIM_SPREAD_NS: Final = 200 * MILLISECOND_NS
"""How often news is sent, beside what goes with pings and their answers."""
SWIM_SPREAD_MEMBERS: Final = 3
SWIM_RETRANSMIT: Final = 4
"""How often a claim is sent, times the decimal logarithm of the number of members."""
SWIM_SYNC_NS: Final = 10 * SECOND_NS
"""How often a member compares all it knows with another one."""
SWIM_SYNC_PAGES_MAX: Final = 32
"""Datagrams of one full answer; where more are needed, the next comparison goes on elsewhere."""
SWIM_SYNC_ANSWERS_MAX: Final = 16
"""Full answers that a member gives in one period."""
SWIM_SEED_RETRY_NS: Final = SECOND_NS
SWIM_SEEDS_MAX: Final = 64
SWIM_MEMBERS_MAX: Final = 2 * NODES_MAX
"""Members alive or remembered as dead; further ones are not taken in."""
SWIM_DEAD_KEPT_NS: Final = 600 * SECOND_NS
"""How long dead members and those that left are remembered, so that older news can't revive them."""
SWIM_LEAVE_NS: Final = 3 * SWIM_SPREAD_NS
"""How long a member that leaves says so."""
SWIM_LEAVE_MEMBERS: Final = 8
SWIM_INCARNATION_MAX: Final = 2**62
