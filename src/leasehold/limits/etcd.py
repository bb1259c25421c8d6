"""Bounds of the client of etcd."""

from typing import Final

from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.units import SECOND_NS

ETCD_LOGIN_NS: Final = 2 * SECOND_NS
"""One try to log in: a member hashes the password on purpose slowly."""
ETCD_LOGIN_PAUSE_NS: Final = SECOND_NS
"""A password that a member has refused is not sent to it again for this time."""
ETCD_MEMBERSHIP_NS: Final = 2 * SECOND_NS
"""One try to change who is a member, and how long the members may take to hear of it."""
ETCD_KEEPALIVE_NS: Final = 10 * SECOND_NS
"""Between pings while a watch is open; etcd ends connections with pings less than 5 s apart."""
ETCD_KEEPALIVE_TIMEOUT_NS: Final = 2 * SECOND_NS
ETCD_ANSWER_BYTES_MAX: Final = MESSAGE_BYTES_MAX
ETCD_PAGE_KEYS_MAX: Final = 24
"""Of one answer with values: so many of the largest values fit in it, and etcd can't be asked for fewer bytes."""
ETCD_PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""A page of the store ends with the answer that reaches this size."""
ETCD_DELETE_KEYS_MAX: Final = 256
"""Of one step of a deletion."""
ETCD_REPEATED_MAX: Final = 4_096
"""Elements of one field in a message from etcd."""
ETCD_URLS_MAX: Final = 4
"""Of one member that are tried."""
ETCD_QUOTA_RESERVE_PARTS: Final = 20
"""Free pages inside etcd's file do not count as used, unless less than this part of the quota is left for the file."""
