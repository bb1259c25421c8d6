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
"""The same of all users. A leader has five such queues: for plans and large questions, plans of the past, commits,
statements, and the beginning of those that change many records."""
TURNS_IN_HAND_NS: Final = 100 * MILLISECOND_NS
"""What a user who has used less than the others keeps in hand: some dozens of plans, or a part of a large statement."""
TURNS_REMEMBERED: Final = 1_024
"""Users of whom a queue remembers what they have used: those who have used most, and as many more for a while."""
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
"""To all doors of a node or coordinator together, besides those of members over TLS: up to 100 KiB each without its
calls. They are also at most half of the files that the process may open."""
CONNECTIONS_PER_PEER_MAX: Final = 256
"""Of one address to one door of a server with TLS; further ones are closed."""
CALLS_PER_PEER_MAX: Final = 1_024
"""Calls of one address under way at a server with TLS; a node answers a further one BUSY, and a coordinator ends it. A
call to a coordinator is under way until its answer has gone."""
CALLS_MAX: Final = 4_096
"""The same of all addresses together at a coordinator; then one gives way (`wire/fair_room.py`). Each call takes some
10 KiB, and 10 KiB more for a small request. Members' calls are counted apart."""
STRANGERS_PART: Final = 8
"""One of so many places is for strangers, where users want all: of connections at a door, and of calls."""
ANSWERS_BYTES_PER_PEER_MAX: Final = 48 * 1024 * 1024
"""Answers of a coordinator with TLS that one address has asked for and not taken."""
ANSWERS_BYTES_MAX: Final = 56 * 1024 * 1024
"""The same of all addresses; then the connections of the address that has most are ended. So a coordinator grows by
some 120 MiB, however many addresses a user has."""
ANSWER_CALL_BYTES: Final = 24 * 1024
"""What each such answer counts beside its bytes: as much as its call takes."""
PEERS_CACHED_MAX: Final = 1_024
"""Addresses of callers that a process has parsed and knows."""
CONNECTION_IDLE_NS: Final = 60 * SECOND_NS
"""A connection without a call is closed after this time; a client opens another one when it needs it."""
PORT_PAIRS_TRIED: Final = 64
"""Ports that a server with TLS tries until the next one is free too."""
