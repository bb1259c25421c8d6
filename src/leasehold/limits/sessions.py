"""Bounds of the session between a node and its leader."""

from typing import Final

from leasehold.limits.membership import NODES_MAX
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

WATCH_QUEUE_REVISIONS_MAX: Final = 10_000
SESSION_SEND_MESSAGES_MAX: Final = 16_384
SESSION_SEND_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX
SESSION_RECEIVE_MESSAGES_MAX: Final = 1_024
SESSION_SEND_WAIT_NS: Final = 100 * MILLISECOND_NS
"""How long a full send queue may take to drain before the session is given up."""
SESSION_END_GRACE_NS: Final = 250 * MILLISECOND_NS
"""How long the end of a session may take in order, before it is cut."""
KEEPALIVE_INTERVAL_NS: Final = SECOND_NS
KEEPALIVE_TIMEOUT_NS: Final = 1_500 * MILLISECOND_NS
RECONNECT_BACKOFF_MIN_NS: Final = 50 * MILLISECOND_NS
RECONNECT_BACKOFF_MAX_NS: Final = 200 * MILLISECOND_NS
CONNECT_ATTEMPT_NS: Final = SECOND_NS
CLOCK_SLEEP_STEP_NS: Final = SECOND_NS
"""How often a sleeper looks at the clock, so that a suspend delays it no further."""
SESSION_QUEUE_MESSAGES_MAX: Final = 4_096
"""Messages that wait for one node; a node that reads no faster is cut off and comes back."""
SESSION_REVISIONS_MAX: Final = SESSION_QUEUE_MESSAGES_MAX // 2
"""Revisions that wait for one node; the rest of its queue is for grants, which never wait."""
SESSION_REVISIONS_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX
ENCODED_REVISIONS_KEPT: Final = 4
"""Newest revisions whose encoded bytes are kept for the next node."""
SESSION_IDLE_NS: Final = 60 * SECOND_NS
"""A session without any message for this long is ended."""
COORDINATOR_QUIET_NS: Final = 2 * SECOND_NS
"""A node that knows several coordinators leaves one that has said nothing for this long, and a renewal longer. So it
does where the connection breaks."""
SESSION_OPENING_NS: Final = 10 * SECOND_NS
"""How long a stream may take until it says whose session it is."""
SESSION_REPORTS_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""Reports of one node that wait; more is read later."""
SESSION_RECEIVE_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX
SESSION_AHEAD_BYTES_MAX: Final = 1024 * 1024
"""What a coordinator reads ahead of an open session; before that, one message."""
SESSIONS_UNOPENED_MAX: Final = NODES_MAX
"""Sessions that have not said whose they are; one more ends the oldest."""
