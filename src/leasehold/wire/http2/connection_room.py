"""Who may have a connection to the doors of a server.

A peer has at most so many at each door. If a door is full, the peer with most of them gives way: the first of its
connections that is no member's is ended. So strangers do not keep others out, from however many addresses.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class Guest(Protocol):
    """A connection."""

    is_of_member: bool


G = TypeVar("G", bound=Guest)


class ConnectionRoom(Generic[G]):
    """Of one server."""

    def __init__(self, *, per_peer_max: int, per_door_max: int) -> None:
        self._per_peer_max = per_peer_max
        self._per_door_max = per_door_max
        self._doors: defaultdict[int, dict[str, dict[G, None]]] = defaultdict(dict)
        """By the number of a door and the peer: the connections, in order."""

    def enter(self, door: int, peer: str, one: G) -> G | None:
        """`one` wants to come in. Answers who has to go: another one, or `one` itself, or nobody."""
        here = self._doors[door]
        theirs = here.get(peer, {})
        if len(theirs) >= self._per_peer_max:
            return one
        goes = None
        if sum(map(len, here.values())) >= self._per_door_max:
            most = max((peers for peers in here.values() if _first_to_go(peers)), key=len, default=theirs)
            goes = _first_to_go(most)
            if goes is None or len(most) <= len(theirs) + 1:
                return one
            del most[goes]  # its end may be late, and others come meanwhile
        here.setdefault(peer, {})[one] = None
        return goes

    def leave(self, door: int, peer: str, one: G) -> None:
        """No effect for one that did not come in."""
        theirs = self._doors[door].get(peer, {})
        theirs.pop(one, None)
        if not theirs:
            self._doors[door].pop(peer, None)


def _first_to_go(guests: Iterable[G]) -> G | None:
    return next((one for one in guests if not one.is_of_member), None)
