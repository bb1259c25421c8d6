"""Bounds of the Flight protocol between clients and nodes."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

TICKET_BYTES_MAX: Final = 1024 * 1024
FLIGHT_BATCH_BYTES: Final = 8 * 1024 * 1024
"""A larger batch is divided into parts of about this size."""
FLIGHT_BATCH_SMALL_BYTES: Final = 2 * 1024 * 1024
"""Of all larger batches, a node reads and encodes one at a time."""
FLIGHT_PART_BYTES: Final = 1024 * 1024
"""The usual size of messages with rows to a node; a larger row travels in pieces."""
FLIGHT_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger row is refused when it is written: a node holds up to ten copies of one while it writes or compacts it."""
FLIGHT_SENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger row is not read. Tables may hold rows that were written when this was the bound for both."""
FLIGHT_FAILURE_BYTES_MAX: Final = 1_024
"""Of an error's text, and of its hint: both must fit into the headers of an answer."""
FLIGHT_CLIENTS_MAX: Final = 256
"""Addresses that a process keeps connections to."""
FLIGHT_KEEPALIVE_INTERVAL_NS: Final = 3 * SECOND_NS
FLIGHT_KEEPALIVE_TIMEOUT_NS: Final = 2 * SECOND_NS
"""A peer that does not answer a ping within this time is given up, even in the middle of a write."""
FLIGHT_SHUTDOWN_NS: Final = 2 * SECOND_NS
"""How long running streams may take to end once a node stops."""
FLIGHT_READS_MAX: Final = 256
SEGMENTS_PER_SCAN_MAX: Final = 64
"""That one ticket names."""
FLIGHT_SCANS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What the batches and messages of all scans take, about; further scans wait."""
FLIGHT_FOOTER_SMALL_BYTES: Final = 256 * 1024
"""What a file takes while a scan has it open. For one that takes more, a scan makes room before it opens the file."""
FLIGHT_SCANS_PATIENCE_NS: Final = SECOND_NS
"""While others wait, a scan is cancelled whose client takes nothing for this long."""
FLIGHT_SCANS_TURN_NS: Final = 200 * MILLISECOND_NS
"""The same of a scan whose user has others, while a user waits who has none."""
FLIGHT_ANSWERS_AHEAD_BYTES: Final = 32 * 1024
"""Of the answers of a call that are not sent yet while its thread goes on."""
FLIGHT_CODING_TURNS_MIN: Final = 4
"""Threads of a node that decode or encode rows at the same time, or as many as it has processors."""
FLIGHT_WRITES_MAX: Final = 64
"""Segments that a node encodes or takes from peers at once; a single user has at most half of them."""
FLIGHT_WAITS_MAX: Final = 256
"""Calls that wait for a revision which a node does not show yet."""
FLIGHT_CALLERS_OPENING_MAX: Final = 8
"""Calls of users and nodes whose first message is read at the same time; others wait."""
FLIGHT_CALLERS_WAITING_MAX: Final = 512
FLIGHT_CALLERS_PATIENCE_NS: Final = 2 * SECOND_NS
"""While others wait, a call without a first message is cancelled after this time."""
FLIGHT_CALLERS_TURN_NS: Final = 100 * MILLISECOND_NS
"""The same for one of several calls of a peer, while another peer waits for its first turn."""
FLIGHT_STRANGERS_CALLS_MAX: Final = 512
"""Calls of all that don't say who calls; others are refused."""
FLIGHT_STRANGERS_CROWDED: Final = 256
"""As FLIGHT_CALLS_CROWDED, of these calls alone."""
FLIGHT_STRANGERS_OPENING_MAX: Final = 4
"""The same for calls that don't say who calls, and for calls whose ticket the node is deciding on."""
FLIGHT_STRANGERS_WAITS_MAX: Final = 2
"""Of FLIGHT_WAITS_MAX, calls whose login the node does not know: they wait in a place of the last bound, and must leave
some for others, such as `leasehold health`."""
FLIGHT_STRANGERS_WAITING_MAX: Final = 128
FLIGHT_STRANGERS_PATIENCE_NS: Final = 100 * MILLISECOND_NS
FLIGHT_OPENING_NS: Final = 10 * SECOND_NS
"""A call whose turn it is and that has sent no message by then is cancelled in any case."""
FLIGHT_IDLE_NS: Final = 60 * SECOND_NS
"""A call is cancelled whose client sends or takes no message for this long."""
FLIGHT_QUIET_NS: Final = FLIGHT_IDLE_NS // 2
"""A node asks a client with a call whether it is there that has said nothing for this long, and gives it as long to
answer: a slow connection may first have to take megabytes."""
FLIGHT_WATCH_NS: Final = 100 * MILLISECOND_NS
"""How often a server looks for calls to cancel, and for those that keep others waiting."""
FLIGHT_CALLS_MAX: Final = 2_048
"""Calls that a node serves at once, each on a thread once it is its turn; others are refused. One peer has at most half
of them (CALLS_PER_PEER_MAX)."""
FLIGHT_THREAD_IDLE_NS: Final = 10 * SECOND_NS
"""A thread of a node that has had no call for this long ends."""
FLIGHT_HEADER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of a schema, or of the description of a batch."""
FLIGHT_RECEIVED_BYTES_MAX: Final = TICKET_BYTES_MAX + FLIGHT_HEADER_BYTES_MAX + 1024
"""The largest message that a node takes: a ticket and a schema, or a description and FLIGHT_PART_BYTES."""
FLIGHT_FIRST_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of first messages that a node holds while their calls are under way; further calls are refused."""
FLIGHT_FIRST_OF_ONE_MAX: Final = 12 * 1024 * 1024
"""The same for one caller."""
FLIGHT_FIRST_SMALL_BYTES: Final = 4 * 1024
"""A first message that is no larger is not counted: a ticket that names few columns."""
FLIGHT_CALLS_CROWDED: Final = 1_024
"""While a node serves more calls, those are cancelled whose clients have been silent for FLIGHT_SCANS_PATIENCE_NS,
first those of the caller with the most calls."""
FLIGHT_PIECES_BYTES_MAX: Final = 2 * FLIGHT_MESSAGE_BYTES_MAX
"""Of rows that come in pieces, in all writes; others wait."""
TICKET_WORD_CHARACTERS_MAX: Final = 256
"""Of an id or a secret in a ticket."""
FLIGHT_COPIES: Final = 2
"""Copies of a first message that a node holds until it has decided on it: as it came, and its ticket."""
FLIGHT_FIELDS_MAX: Final = 16
"""Fields in a message of the protocol, which has four."""
