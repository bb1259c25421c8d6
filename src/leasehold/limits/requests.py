"""Bounds of what a coordinator or a node takes in before it has decoded it."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

COMMAND_QUEUE_MAX: Final = 4_096
COMMANDS_PER_TRANSACTION_MAX: Final = 256
COMMANDS_TURN_NS: Final = 5 * MILLISECOND_NS
"""How long a leader decides on commands before others have their turn."""
REQUEST_FRAME_BYTES_MAX: Final = 64 * 1024
"""Of one gRPC message to a coordinator; a larger request travels in several frames."""
REQUEST_BYTES_MAX: Final = 5 * 1024 * 1024
"""Of any request but a commit, which may take MESSAGE_BYTES_MAX."""
REQUESTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Requests in frames that a coordinator takes in at the same time; a further one is answered BUSY before it is read, or
the oldest one of the address with most is ended."""
REQUEST_SMALL_BYTES: Final = 512
"""Up to this size on its way a request is not counted in memory, where it takes 10 KiB at most."""
REQUESTS_DECODED_BYTES_MAX: Final = 128 * 1024 * 1024
"""What requests take in memory that a coordinator has decoded and not answered; one more is answered BUSY. A single one
may be larger."""
REQUESTS_DECODED_OF_ONE_MAX: Final = REQUESTS_DECODED_BYTES_MAX // 2
"""The same of one address."""
TURNS_WAITING_PER_USER_MAX: Final = 1_024
"""Questions and plans of one user that wait for a turn; a further one is answered BUSY. A program that reads many
tables may send some hundred at once."""
TURNS_WAITING_MAX: Final = 4_096
"""The same of all users; then the user who has most gives way."""
TURNS_WAITING_PER_USER_BYTES_MAX: Final = 24 * 1024 * 1024
"""What these requests of one user take in memory. A plan that names 2,000 columns takes 130 KiB, most others take less
than 1 KiB. A single one may be larger."""
TURNS_WAITING_BYTES_MAX: Final = 48 * 1024 * 1024
"""The same of all users. A leader has three such queues: for statements and SHOW, plans, and plans of the past."""
REQUEST_READ_NS: Final = 10 * SECOND_NS
"""How long a request may take to arrive, from its first byte on."""
REQUESTS_UNREAD_MAX: Final = 512
"""Requests that have begun and have not arrived, some 24 KiB and a frame each; one more ends the oldest."""
CALLS_PER_CONNECTION_MAX: Final = 256
"""Calls to a coordinator on one connection; a further one is refused."""
CALLS_OF_CLIENT_MAX: Final = 64
"""Questions that a client asks at the same time on one connection; it holds further ones back. So none is refused."""
CALL_HEADERS_MAX: Final = 64
"""Headers of a call, some ten for a client."""
REQUEST_WINDOW_BYTES: Final = 4 * 1024
"""What comes of a call to a coordinator before anybody reads it."""
STREAM_WINDOW_BYTES: Final = 16 * 1024
"""What comes of a call to a node before anybody reads it."""
HANDSHAKE_NS: Final = 5 * SECOND_NS
"""How long a connection may take until it speaks HTTP/2; then it is closed."""
CONNECTIONS_MAX: Final = 2 * NODES_MAX
"""To one door of a node or coordinator, some 17 KiB each without its calls; further ones are closed at once. All doors
together take at most half as many connections as the process may open files."""
CONNECTIONS_PER_PEER_MAX: Final = 256
"""Of one address to one door of a server with TLS; further ones are closed soon."""
CALLS_PER_PEER_MAX: Final = 1_024
"""Calls of one address under way at a server with TLS; a node answers a further one BUSY, and a coordinator ends it. A
call to a coordinator is under way until its answer has gone."""
ANSWERS_BYTES_PER_PEER_MAX: Final = 48 * 1024 * 1024
"""Answers of a coordinator with TLS that one address has asked for and not taken."""
ANSWERS_BYTES_MAX: Final = 56 * 1024 * 1024
"""The same of all addresses; then the connections of the address that has most are ended. So a coordinator grows by
some 120 MiB, however many addresses a user has."""
ANSWER_CALL_BYTES: Final = 24 * 1024
"""What each such answer counts beside its bytes: as much as its call takes."""
PEERS_CACHED_MAX: Final = 1_024
"""Addresses of callers that a process has parsed and knows."""
CONNECTION_UNASKED_BYTES_MAX: Final = 32 * 1024
"""What may come on a connection to a server with TLS before a call has begun there: a handshake has some KiB. A
connection with more is closed soon. A chain of certificates of 100 KiB takes up to 2 MiB of memory."""
CONNECTION_UNASKED_LOOKS: Final = 20
"""It is closed after so many looks: a busy server may begin the first of many calls that late."""
CONNECTION_FLOOD_BYTES: Final = CALLS_OF_CLIENT_MAX * (STREAM_WINDOW_BYTES + 1024)
"""What a client can send before its first call has begun: then the windows of all its calls are full."""
CONNECTIONS_UNASKED_BYTES_MAX: Final = 4 * 1024 * 1024
"""The same of all connections of a process with more than CONNECTION_UNASKED_SMALL_BYTES; above it those with most are
closed at once."""
CONNECTION_UNASKED_SMALL_BYTES: Final = 4 * 1024
"""Without large certificates a handshake has less."""
CONNECTION_UNASKED_GROWING_LOOKS: Final = 5
"""At so many looks such a connection may grow: a busy server may begin the first call late."""
CONNECTION_UNREAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""What may come on a connection later and belong to no message that was read: each call of a client may have one on its
way. Writes of rows count apart, since their messages are large."""
CONNECTION_CALL_BYTES: Final = 8 * 1024 + STREAM_WINDOW_BYTES
"""What a call may bring besides its messages that are read: larger headers are refused."""
CONNECTION_THIN_CALL_BYTES: Final = 1024
"""What most calls bring besides their messages."""
CONNECTION_SENT_SHARE: Final = 16
"""A client says less than one byte for so many that it is sent."""
CONNECTION_THIN_LOOK_BYTES: Final = 1024
"""What a client says besides, from one look to the next."""
CONNECTION_THIN_BYTES_MAX: Final = 128 * 1024
"""What may come on a connection without end, before it is a fault."""
CONNECTION_GROWING_LOOKS: Final = 1
"""At so many looks it may grow above that: then the windows of honest calls are full."""
CONNECTION_LOOK_BYTES: Final = 8 * 1024
"""What a client may say besides its calls from one look to the next: pings, and that it has room for more."""
CONNECTIONS_LOOKED_MAX: Final = 256
"""Connections with calls whose bytes are asked for at one look; others have their turn later."""
CONNECTIONS_LOOK_NS: Final = 100 * MILLISECOND_NS
"""How often a server with TLS looks for such connections."""
CONNECTION_IDLE_NS: Final = 60 * SECOND_NS
"""A connection without a call is closed after this time; a client opens another one when it needs it."""
PORT_PAIRS_TRIED: Final = 64
"""Ports that a server with TLS tries until the next one is free too."""
