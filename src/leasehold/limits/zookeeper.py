"""Bounds of the client of ZooKeeper."""

from typing import Final

from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.units import SECOND_NS

ZOOKEEPER_SESSION_NS: Final = 6 * SECOND_NS
"""A session is given up by the members after this silence. A client leaves a silent member after two thirds of it, if
no request left it before."""
ZOOKEEPER_REQUESTS_MAX: Final = 64
"""Under way at once over one connection. kazoo's thread is woken through a pair of sockets that take a few hundred
bytes before a send to them would block the event loop."""
ZOOKEEPER_GROUP_CHARACTERS: Final = 13
"""Names that begin with the same characters lie below one node: a thousand numbers of 16 digits. So a list of all
children of a node is short."""
ZOOKEEPER_SWAP_TRIES_MAX: Final = 16
"""Of one swap, where other clients create and delete nodes that it does not compare."""
ZOOKEEPER_PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""A page of the store ends with the values that reach this size."""
ZOOKEEPER_VALUES_MAX: Final = 24
"""Nodes that one request reads: so many of the largest values fit in one answer."""
ZOOKEEPER_DELETES_MAX: Final = 24
"""Deletions of one operation that are sent at once."""
ZOOKEEPER_NODE_BYTES: Final = 256
"""What a node takes in the heap of a member beside its value, about."""
ZOOKEEPER_STATUS_BYTES_MAX: Final = 16 * 1024
"""Of the answer to `srvr`."""
ZOOKEEPER_ANSWER_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""Of one answer of a member."""
