"""The addresses from which somebody has come who has shown who that is: by a certificate, a password, or the cluster's
key.

When strangers flood a server, they take its time and its connections from each other (`wire/http2/turns.py`,
`wire/http2/connection_room.py`), and little from these addresses. A name has PEERS_OF_NAME_MAX of them, the newest: so
a user gets no larger part by more addresses.
"""

import threading
from collections import Counter

from leasehold.limits.http2 import NAMES_KNOWN_MAX, PEERS_OF_NAME_MAX
from leasehold.wire.peers import peer_of


class KnownPeers:
    """Of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, dict[str, None]] = {}
        """The peers from which each has come, in order."""
        self._times: Counter[str] = Counter()
        """For how many names a peer is known."""

    def __contains__(self, peer: str) -> bool:
        return peer in self._times

    def add(self, peer: str, name: str) -> None:
        """`name` has come from this peer."""
        if peer in self._names.get(name, ()):
            return
        with self._lock:
            peers = self._names.setdefault(name, {})
            if peer not in peers:
                peers[peer] = None
                self._times[peer] += 1
            if len(peers) > PEERS_OF_NAME_MAX:
                self._forget(peers, next(iter(peers)))
            if len(self._names) > NAMES_KNOWN_MAX:
                oldest = self._names.pop(next(iter(self._names)))
                for one in tuple(oldest):
                    self._forget(oldest, one)

    def heard(self, source: str) -> None:
        """Somebody with the cluster's key has sent something from this numeric `host:port`."""
        host = source.rpartition(":")[0].strip("[]")
        self.add(peer_of(host), host)

    def _forget(self, peers: dict[str, None], peer: str) -> None:
        del peers[peer]
        self._times[peer] -= 1
        if not self._times[peer]:
            del self._times[peer]
