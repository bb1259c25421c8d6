"""Who has a place where there are not enough for all: connections at a door, and calls under way at a coordinator.

A peer has at most so many places. All peers of a user count as one sharer, and any other peer alone
(`wire/known_peers.py`). If all places are taken, one sharer gives way to another that wants to come in, with the oldest
of its places. The part of strangers is an eighth of all (STRANGERS_PART), that of users and members is the rest.

| who comes | who gives way: the first of these that there is |
| --- | --- |
| a user or member, strangers have more than their part | the stranger with most |
| a user or member | the one of these with most, if it has two more |
| a stranger, strangers have less than their part | the user or member with most, if it has two more, or any if the stranger has no place |
| a peer without a place | the stranger with most, or who came first if all have as many |
| a peer with one | the stranger with most, if it has two more |

So strangers keep no known peer out, and known peers keep no newcomer out, from however many addresses.
"""  # noqa: E501 a row of a table is one line

from collections import Counter
from typing import Generic, TypeVar

from leasehold.limits.requests import STRANGERS_PART
from leasehold.wire.known_peers import KnownPeers

G = TypeVar("G")
"""What has a place."""


class _Crowd(Generic[G]):
    """Sharers of one kind, with the places that each has."""

    def __init__(self) -> None:
        self.taken = 0
        self._places_of: dict[str, dict[G, None]] = {}
        """In order."""
        self._with: dict[int, dict[str, None]] = {}
        """By number of places: the sharers that have so many."""

    def count(self, sharer: str) -> int:
        return len(self._places_of.get(sharer, ()))

    def places(self, sharer: str) -> tuple[G, ...]:
        return tuple(self._places_of[sharer])

    def oldest(self, sharer: str) -> G:
        return next(iter(self._places_of[sharer]))

    def add(self, sharer: str, one: G) -> None:
        theirs = self._places_of.setdefault(sharer, {})
        theirs[one] = None
        self._changed(sharer, before=len(theirs) - 1, now=len(theirs))

    def remove(self, sharer: str, one: G) -> None:
        theirs = self._places_of[sharer]
        del theirs[one]
        if not theirs:
            del self._places_of[sharer]
        self._changed(sharer, before=len(theirs) + 1, now=len(theirs))

    def _changed(self, sharer: str, *, before: int, now: int) -> None:
        self.taken += now - before
        if before:
            alike = self._with[before]
            del alike[sharer]
            if not alike:
                del self._with[before]
        if now:
            self._with.setdefault(now, {})[sharer] = None

    def with_most(self, least: int) -> str | None:
        """The sharer with most places, of several the one that has had so many for longest; None if none has at least
        so many."""
        count = max(self._with, default=0)
        return next(iter(self._with[count])) if count and count >= least else None


class FairRoom(Generic[G]):
    """Of one server."""

    def __init__(self, *, per_peer_max: int, places: int, known: KnownPeers | None = None) -> None:
        self._per_peer_max = per_peer_max
        self._places = places
        self._known = known or KnownPeers()
        self._of_known, self._of_strangers = _Crowd[G](), _Crowd[G]()
        """A peer that has become known, or is known no more, is moved once that matters."""
        self._of_peer: Counter[str] = Counter()
        """How many places each peer has."""
        self._where: dict[G, tuple[_Crowd[G], str, str]] = {}
        """In which crowd, of which sharer and of which peer each one is."""

    def __len__(self) -> int:
        return len(self._where)

    def enter(self, peer: str, one: G) -> G | None:
        """`one` wants to come in. Answers what has to go: something else, or `one` itself, or nothing."""
        if self._of_peer[peer] >= self._per_peer_max:
            return one
        gives_way = None
        if len(self) >= self._places:
            gives_way = self._who_gives_way(*self._belongs(peer))
            if gives_way is None:
                return one
            self.leave(gives_way)  # others may come before its end
        self._add(peer, one)
        return gives_way

    def leave(self, one: G) -> None:
        """No effect for one that did not come in."""
        if one in self._where:
            crowd, sharer, peer = self._where.pop(one)
            crowd.remove(sharer, one)
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]

    def _add(self, peer: str, one: G) -> None:
        crowd, sharer = self._belongs(peer)
        crowd.add(sharer, one)
        self._of_peer[peer] += 1
        self._where[one] = crowd, sharer, peer

    def _belongs(self, peer: str) -> tuple[_Crowd[G], str]:
        """To which crowd, and as whom it shares."""
        crowd = self._of_known if peer in self._known else self._of_strangers
        return crowd, self._known.sharer(peer)

    def _who_gives_way(self, crowd: _Crowd[G], sharer: str) -> G | None:
        """To this one, who is of this crowd."""
        has_moved = True
        while has_moved:
            has_moved = False
            for crowded, least in self._candidates(crowd, crowd.count(sharer)):
                most = crowded.with_most(least)
                if most is not None:
                    has_moved = self._moves(crowded, most)
                    if has_moved:
                        break
                    return crowded.oldest(most)
        return None

    def _candidates(self, crowd: _Crowd[G], count: int) -> list[tuple[_Crowd[G], int]]:
        """Who gives way to one of this crowd that has so many places: crowds, and how many places one of them has at
        least that does."""
        part, more = self._places // STRANGERS_PART, count + 2
        more_or_any = more if count else 1
        if crowd is self._of_known:
            above_part = [(self._of_strangers, 1)] if self._of_strangers.taken > part else []
            return [*above_part, (self._of_known, more), (self._of_strangers, more_or_any)]
        below_part = [(self._of_known, more_or_any)] if self._of_strangers.taken < part else []
        return [*below_part, (self._of_strangers, more_or_any)]

    def _moves(self, crowd: _Crowd[G], sharer: str) -> bool:
        """Whether this one was moved, since it does not belong to this crowd any more."""
        is_known = sharer in self._known or self._known.weight(sharer) > 1
        if is_known == (crowd is self._of_known):
            return False
        for one in crowd.places(sharer):
            _, _, peer = self._where[one]
            self.leave(one)
            self._add(peer, one)
        return True
