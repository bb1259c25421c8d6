"""Bounds of `leasehold doctor`."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

CHECKUP_CONNECT_NS: Final = 3 * SECOND_NS
"""How long one process may take to take a connection and to say its first word."""
CHECKUP_GOSSIP_NS: Final = 2 * SECOND_NS
"""How long an answer to gossip is waited for; a name has to be looked up meanwhile."""
CHECKUP_GOSSIP_REPEAT_NS: Final = 250 * MILLISECOND_NS
CHECKUP_AT_ONCE: Final = 16
"""Processes that are tried at the same time."""
CHECKUP_PACKET_BYTES_MIN: Final = 1_280
"""What each network lets through, by the rules of IPv6; datagrams of gossip fit into it."""
CHECKUP_CLOCK_NS: Final = 2 * SECOND_NS
"""Between two looks at the clock of a coordinator."""
CHECKUP_CLOCK_QUESTIONS: Final = 5
"""Of each look: the answer that came fastest counts."""
