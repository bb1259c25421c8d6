"""What a server bears of one peer and of all, before it keeps a peer out."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.requests import CALLS_OF_CLIENT_MAX, CALLS_PER_PEER_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

FAULTS_PER_SECOND_MAX: Final = 3_072
"""Of all peers with more than FAULTS_OF_ONE_MAX. A fault costs a server some 0.1 ms."""
FAULTS_OF_CALL: Final = 4
"""What a call counts that its client takes back soon, or whose answer it does not take. A server begins some 2,000
calls a second."""
FAULTS_OF_REFUSED: Final = 2
"""What a call counts that is too many, or that a coordinator does not serve."""
FAULTS_OF_GONE: Final = 1
"""What a call counts that was taken back or refused before it had begun."""
FAULTS_OF_CONNECTION: Final = 5
"""What a connection counts that ends before a call has begun: its handshake takes half a millisecond."""
FAULTS_OF_CUT: Final = 384
"""What a connection counts that was cut off because it had too much. One alone bans nobody."""
FAULTS_OF_FLOOD: Final = FAULTS_PER_SECOND_MAX + 1
"""What a connection counts on which more than CONNECTION_FLOOD_BYTES came before a call had begun. So its peer is
banned at the next look."""
FAULT_BYTES: Final = 256
"""So many bytes that come without end are a fault: some ten calls that a server refuses by itself."""
FAULTS_OF_ONE_MAX: Final = 2 * CALLS_OF_CLIENT_MAX * FAULTS_OF_CALL
"""No peer with so many in a second, or fewer, is banned, but in a crowd: two clients that end may take so many calls
back."""
FAULTS_OF_CROWD_MAX: Final = 2 * FAULTS_PER_SECOND_MAX
"""Of all peers with no more than FAULTS_OF_ONE_MAX each."""
CROWD_SHARE: Final = 16
"""In a crowd that has too much, a peer may have one part in so many of what it may have otherwise."""
FAULT_SOON_NS: Final = 500 * MILLISECOND_NS
"""A call that is taken back later is none: clients give up after a second."""
BAN_NS: Final = 10 * SECOND_NS
"""For this time a banned peer gets no connection."""
BACKLOG_CALLS_MAX: Final = CALLS_PER_PEER_MAX
"""Calls that may wait for the server to begin them, some 0.5 s; then the peers with most of them give way."""
BACKLOG_OF_CROWD_MAX: Final = 2 * BACKLOG_CALLS_MAX
"""Of all peers with no more than CALLS_OF_CLIENT_MAX each."""
BACKLOG_ASKED_NS: Final = 200 * MILLISECOND_NS
"""How often a server with too many calls asks which connections they wait on."""
BACKLOG_ASK_EACH_NS: Final = MILLISECOND_NS
"""It asks less often if it has many connections: to ask one takes a fifth of this."""
BACKLOG_RECENT_NS: Final = SECOND_NS
"""What was gone when it was asked longer ago counts as nobody's fault."""
KEPT_OUT_MAX: Final = 512
"""Peers that the kernel keeps out at a time; connections of others that are banned are closed when they are seen."""
BAN_PAUSE_NS: Final = SECOND_NS
"""A process that has not looked for so long stood still."""
BAN_GRACE_NS: Final = 3 * SECOND_NS
"""For this time after a pause nothing counts: all calls that came meanwhile have begun by then. After a start nobody is
banned for calls that wait."""
MEMBERS_REMEMBERED_MAX: Final = 4 * NODES_MAX
"""Addresses from which members have called."""
