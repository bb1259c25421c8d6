"""Who has a place where there are not enough for all: connections at a door, and calls under way.

A peer has at most so many places. If all are taken, one peer gives way to another that wants to come in, with the first
of its places. The part of strangers is an eighth of all (STRANGERS_PART), and that of known peers
(`wire/known_peers.py`) the rest.

| who comes | who gives way: the first of these that there is |
| --- | --- |
| a known peer, strangers have more than their part | the stranger with most |
| a known peer | the known peer with most, if it has two more |
| a stranger, strangers have less than their part | the known peer with most, if it has two more |
| a peer without a place | the stranger with most, or who came first if all have as many |
| a peer with one | the stranger with most, if it has two more |

So strangers keep no known peer out, and known peers keep no newcomer out, from however many addresses.
"""

from collections.abc import Container
from typing import Generic, TypeVar

from leasehold.limits.http2 import STRANGERS_PART

G = TypeVar("G")
"""What has a place."""


class _Crowd(Generic[G]):
    """Peers of one kind."""

    def __init__(self) -> None:
        self.peers: dict[str, dict[G, None]] = {}
        """What each has there, in order."""
        self.taken = 0
        self._by_count: dict[int, dict[str, None]] = {}
        """The peers that have so many places."""

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

    def most(self, least: int) -> str | None:
        """The peer with most places, who came there first; None if none has at least so many."""
        count = max(self._by_count, default=0)
        return next(iter(self._by_count[count])) if self._by_count and count >= least else None


class FairRoom(Generic[G]):
    """Of one server, to which these peers are `known`."""

    def __init__(self, *, per_peer_max: int, places: int, known: Container[str] = ()) -> None:
        self._per_peer_max = per_peer_max
        self._places = places
        self._known = known
        self._of_known, self._strangers = _Crowd[G](), _Crowd[G]()
        """A peer that has become known, or is known no more, is moved once that matters."""

    @property
    def taken(self) -> int:
        return self._of_known.taken + self._strangers.taken

    def enter(self, peer: str, one: G) -> G | None:
        """`one` wants to come in. Answers what has to go: something else, or `one` itself, or nothing."""
        crowd = self._crowd_of(peer)
        theirs = len(crowd.peers.get(peer, ()))
        if theirs >= self._per_peer_max:
            return one
        goes = None
        if self.taken >= self._places:
            goes = self._first_to_go(crowd, theirs)
            if goes is None:
                return one
        crowd.add(peer, one)
        return goes

    def leave(self, peer: str, one: G) -> None:
        """No effect for one that did not come in."""
        for crowd in (self._of_known, self._strangers):
            crowd.remove(peer, one)

    def _first_to_go(self, crowd: _Crowd[G], theirs: int) -> G | None:
        """It has left; others may come before its end. None if nobody gives way to a peer of this crowd that has so
        many places."""
        for crowded, least in self._order(crowd, theirs):
            peer = self._most(crowded, least)
            if peer is not None:
                one = next(iter(crowded.peers[peer]))
                crowded.remove(peer, one)
                return one
        return None

    def _order(self, crowd: _Crowd[G], theirs: int) -> list[tuple[_Crowd[G], int]]:
        """Whom to look at, and how many places a peer has at least that gives way."""
        part, more = self._places // STRANGERS_PART, theirs + 2
        strangers = (self._strangers, more if theirs else 1)
        if crowd is self._of_known:
            first = [(self._strangers, 1)] if self._strangers.taken > part else []
            return [*first, (self._of_known, more), strangers]
        first = [(self._of_known, more)] if self._strangers.taken < part else []
        return [*first, strangers]

    def _most(self, crowd: _Crowd[G], least: int) -> str | None:
        while (peer := crowd.most(least)) is not None and self._crowd_of(peer) is not crowd:
            pass  # it has moved
        return peer

    def _crowd_of(self, peer: str) -> _Crowd[G]:
        """To which one the peer belongs now, with all that it has."""
        now, other = self._of_known, self._strangers
        if peer not in self._known:
            now, other = other, now
        for one in tuple(other.peers.get(peer, ())):
            other.remove(peer, one)
            now.add(peer, one)
        return now
