"""What a server takes of a connection of HTTP/2, whatever its peer has acknowledged."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

HEADER_BLOCK_BYTES_MAX: Final = 8 * 1024
"""The headers of a call as they are sent, and any frame but DATA."""
HEADER_LIST_BYTES_MAX: Final = 16 * 1024
"""The headers of a call as they are read, with 32 bytes more for each (RFC 9113, 10.5.1)."""
HEADER_BLOCKS_KEPT: Final = 16
"""Header blocks of a connection whose meaning is remembered."""
HANDSHAKE_BYTES_MAX: Final = 16 * 1024
"""What a peer may send until TLS is done: two certificates with RSA keys of 4,096 bits take some 5 KiB."""
CONNECTION_WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What all calls of a connection may send before the server has looked at it."""
DATA_FRAME_BYTES_MAX: Final = 1024 * 1024
"""Of a frame that is handed out in pieces, so nothing is held for it."""
SEND_AHEAD_BYTES: Final = 256 * 1024
"""What is encrypted and given to the kernel at a time, and what a call with several answers may have queued."""
CONTROL_BYTES_MAX: Final = 64 * 1024
"""Answers to pings and the like that wait while the peer reads nothing; then the connection ends."""
ALLOWANCE: Final = 2_500
"""What a peer may say besides its calls: each ping, reset or change of a window counts one to four. It grows again with
messages and data that move, with calls that end, and with time."""
ALLOWANCE_OF_SECOND: Final = 100
RECEIVE_BYTES: Final = 256 * 1024
"""What a server reads from a connection at a time, if that costs it little."""
PIECE_BYTES: Final = 64 * 1024
"""Of what was read, a server looks at so much before it asks what that has cost."""
CALLS_AT_ONCE: Final = 8
"""Calls that begin with one piece: they may have 15 bytes each."""
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""What may wait in memory for its turn, of all connections; above that, RECEIVE_BYTES_MIN of each."""
RECEIVE_BYTES_MIN: Final = 1024
"""The same at first, and if it costs much."""
RECEIVE_NS: Final = MILLISECOND_NS // 2
"""A server reads less from a connection if what it has read took longer than this, and more after a quarter of it."""
TURN_NS: Final = 5 * MILLISECOND_NS
"""How long a server looks at what strangers and users say, before it does what else is due."""
CALL_NS: Final = 3 * MILLISECOND_NS // 10
"""What a call counts when it begins, for what it takes later."""
DEBT_NS_MAX: Final = 50 * MILLISECOND_NS
"""How much more than others a peer may have taken, as far as that is remembered."""
SHARERS_REMEMBERED: Final = 1_024
"""Users and other peers of which a server remembers what they have used of its time, and at most twice as many: those
that have used most."""
KNOWN_WEIGHT: Final = 64
"""How much more of a server's time than a stranger a user or a member may have while both want more."""
NEWCOMER_NS: Final = 20 * MILLISECOND_NS
"""What a stranger that has asked for nothing of late may use before others have their turns: a connection with TLS and
a login take less."""
NEWCOMERS_NS: Final = 50 * MILLISECOND_NS
"""What all newcomers together may use so at once; half of the time that passes comes back."""
STRANGERS_LATER_NS: Final = TURN_NS // 10
"""A stranger comes so much after what has been used of the shares. So known peers go first that have not used more of
theirs, and each piece of a stranger waits for at most so much of their shares."""
MEMBER_PEERS_MAX: Final = 2_048
"""Addresses of members that are known: twice as many as a cluster may have nodes."""
STALLED_NS: Final = 60 * SECOND_NS
"""A connection is ended whose peer takes no bytes of TCP for so long."""
SWEEP_NS: Final = 250 * MILLISECOND_NS
"""How often a server looks which of its connections are late."""
ACCEPT_NS: Final = 2 * MILLISECOND_NS
"""How long connections of a queue are accepted before the loop does something else: some 200 that have gone already, or
30 others."""
LISTEN_BACKLOG: Final = 4_096
"""Connections that wait to be accepted at a door, in each queue."""
HASTY_CONNECTIONS: Final = 256
"""Connections that a known peer has ended before they came to anything: then it waits with strangers."""
HASTY_FORGIVEN: Final = 4
"""So many of them are forgiven each second."""
HASTY_CONNECTIONS_MAX: Final = 4 * HASTY_CONNECTIONS
"""So many are counted, so that a peer waits with strangers for some four minutes at most after the last one."""
KNOWN_QUEUES: Final = 8
"""Queues of a door for known peers: one for members, the others for users."""
QUEUED_PEERS_MAX: Final = 800
"""Known peers that have other queues than strangers: so many fit into a program of the kernel, also of IPv6."""
