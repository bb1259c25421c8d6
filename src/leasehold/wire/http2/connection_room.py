"""Who may have a connection to the doors of a server.

A member leaves the room once it has shown its certificate. Others have at most so many connections at each door, all of
them and each peer. If a door is full, a peer gives way to one that wants to come in, with the first of its connections:

| who comes | who gives way |
| --- | --- |
| a known peer (`wire/known_peers.py`) | the stranger with most; else the known peer with most, if it has two more |
| a stranger without a connection | the stranger with most, or who came first if all have as many |
| a stranger with one | the stranger with most, if it has two more |
| a stranger | else the known peer with most, if it has two more and more than CONNECTIONS_OF_KNOWN_MIN |

So strangers keep no known peer out, from however many addresses.
"""

from collections import defaultdict
from collections.abc import Container
from typing import Generic, TypeVar

from leasehold.limits.http2 import CONNECTIONS_OF_KNOWN_MIN

G = TypeVar("G")
"""A connection."""


class _Door(Generic[G]):
    """Who is there."""

    def __init__(self) -> None:
        self.peers: dict[str, dict[G, None]] = {}
        """The connections of each, in order."""
        self.taken = 0
        self._by_count: dict[int, dict[str, None]] = {}
        """The peers that have so many connections."""

    def add(self, peer: str, one: G) -> None:
        theirs = self.peers.setdefault(peer, {})
        theirs[one] = None
        self._count(peer, len(theirs) - 1, 1)

    def remove(self, peer: str, one: G) -> None:
        """No effect for one that is not there."""
        theirs = self.peers.get(peer, {})
        if one in theirs:
            del theirs[one]
            if not theirs:
                del self.peers[peer]
            self._count(peer, len(theirs) + 1, -1)

    def _count(self, peer: str, before: int, change: int) -> None:
        self.taken += change
        if before:
            alike = self._by_count[before]
            del alike[peer]
            if not alike:
                del self._by_count[before]
        if before + change:
            self._by_count.setdefault(before + change, {})[peer] = None

    def first_to_go(self, stay: Container[str], *, least: int) -> tuple[str, G] | None:
        """Of the peer with most connections, at least so many, that is none of those that `stay`."""
        for count in sorted((one for one in self._by_count if one >= least), reverse=True):
            for peer in self._by_count[count]:
                if peer not in stay:
                    return peer, next(iter(self.peers[peer]))
        return None


class ConnectionRoom(Generic[G]):
    """Of one server, to which these peers are `known`."""

    def __init__(self, *, per_peer_max: int, per_door_max: int, known: Container[str] = ()) -> None:
        self._per_peer_max = per_peer_max
        self._per_door_max = per_door_max
        self._known = known
        self._doors: defaultdict[int, _Door[G]] = defaultdict(_Door)
        """By their numbers."""

    def enter(self, door: int, peer: str, one: G) -> G | None:
        """`one` wants to come in. Answers who has to go: another one, or `one` itself, or nobody."""
        here = self._doors[door]
        theirs = len(here.peers.get(peer, ()))
        if theirs >= self._per_peer_max:
            return one
        goes = None
        if here.taken >= self._per_door_max:
            is_known = peer in self._known
            leaves = here.first_to_go(self._known, least=1 if is_known or not theirs else theirs + 2)
            if leaves is None:
                leaves = here.first_to_go((), least=max(theirs + 2, 0 if is_known else CONNECTIONS_OF_KNOWN_MIN + 1))
            if leaves is None:
                return one
            _, goes = leaves
            here.remove(*leaves)  # its end may be late, and others come meanwhile
        here.add(peer, one)
        return goes

    def leave(self, door: int, peer: str, one: G) -> None:
        """No effect for one that did not come in."""
        self._doors[door].remove(peer, one)
