"""The addresses from which members and users have come, as they have shown this server.

When strangers flood a server, they take its time and its connections from each other (`wire/http2/turns.py`,
`wire/fair_room.py`), and little from these addresses.

| who | shown by |
| --- | --- |
| a member | its certificate; or gossip, which is sealed with the cluster's key and tells where each member is |
| a user | a password, a token, or a request with a login |
| a client of a cluster without users | a request with a certificate that counts |

A member's address has KNOWN_WEIGHT times a stranger's share of the server's time, and so has a user, with all addresses
from which the user comes together. Of these the newest are known (`core/access/peers_of_names.py`). Where several users
come from one address, it shares as the user with the fewest addresses.
"""

import threading
from collections import OrderedDict
from enum import Enum, auto
from zlib import crc32

from leasehold.core.access.peers_of_names import PeersOfNames
from leasehold.limits.http2 import HASTY_FORGIVEN, KNOWN_QUEUES, KNOWN_WEIGHT, MEMBER_PEERS_MAX, QUEUED_PEERS_MAX
from leasehold.wire.hasty_peers import HastyPeers


class PeerStanding(Enum):
    """What the certificate of a connection is worth."""

    NONE = auto()
    """There is none, or it counts no more, or it is of another cluster."""
    CLIENT = auto()
    MEMBER = auto()
    """It is that of a node or coordinator."""


class KnownPeers:
    """Of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: OrderedDict[str, None] = OrderedDict()
        self._users = PeersOfNames[str]()
        self._user_of: dict[str, str] = {}
        """By peer: as whom it shares."""
        self._hasty = HastyPeers()
        self.changes = 0
        """Where it is the same as before, `queues` is too."""

    def __contains__(self, peer: str) -> bool:
        return peer in self._members or peer in self._user_of

    def sharer(self, peer: str) -> str:
        """As whom the peer shares: as its user, or alone, under its own name."""
        return peer if peer in self._members else self._user_of.get(peer, peer)

    def weight(self, sharer: str) -> int:
        """How many times a stranger's share this one has; 1 for a stranger."""
        return KNOWN_WEIGHT if sharer in self._members or sharer in self._users else 1

    def queues(self) -> dict[str, int]:
        """By peer, in which of KNOWN_QUEUES its new connections wait (`wire/http2/known_queues.py`): members in one of
        their own, and all peers of a user in the same one, so that a user takes few from other users. Hasty ones wait
        with strangers (`wire/hasty_peers.py`). There is room for QUEUED_PEERS_MAX: for members half of it, if there are
        so many users. Those that are known since last come first."""
        with self._lock:
            members = [peer for peer in reversed(self._members) if peer not in self._hasty]
            users = {peer: name for peer, name in reversed(self._user_of.items()) if peer not in self._hasty}
        half = QUEUED_PEERS_MAX // 2
        found = dict.fromkeys(members[:half], 1)
        for peer, name in users.items():
            found.setdefault(peer, 2 + crc32(name.encode()) % (KNOWN_QUEUES - 1))
        return found | dict.fromkeys(members[half:], 1)

    def add_member(self, peer: str) -> None:
        with self._lock:
            self.changes += peer not in self._members
            self._members[peer] = None
            self._members.move_to_end(peer)
            if len(self._members) > MEMBER_PEERS_MAX:
                self._forget(self._members.popitem(last=False)[0])

    def remove_member(self, peer: str) -> None:
        """No connection from there is a member's any more."""
        with self._lock:
            self.changes += peer in self._members
            self._members.pop(peer, None)
            self._forget(peer)

    def came_to_nothing(self, peer: str) -> None:
        """A connection from there."""
        with self._lock:
            if peer in self:
                self.changes += self._hasty.came_to_nothing(peer)

    def rested(self, seconds: int) -> None:
        """So much time has passed."""
        with self._lock:
            self.changes += self._hasty.rested(seconds * HASTY_FORGIVEN)

    def add(self, peer: str, name: str) -> None:
        """Somebody of this name has come from this peer."""
        with self._lock:
            changed = self._users.add(name, peer)
            self.changes += bool(changed)
            for one in changed:
                user = self._users.name_of(one)
                if user is not None:
                    self._user_of[one] = user
                else:
                    del self._user_of[one]
                    self._forget(one)

    def _forget(self, peer: str) -> None:
        """Unless it is known still."""
        if peer not in self:
            self._hasty.forget(peer)
