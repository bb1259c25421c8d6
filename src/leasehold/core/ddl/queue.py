"""Queues per object: which statements may run at once (docs/design.md, "Schema changes").

A statement claims each object it touches, exclusively or shared, all at once and in arrival order. It runs when no
earlier statement, running or waiting, holds a conflicting claim. So nothing deadlocks, and nothing starves.

Each object has one queue, of which the front is **let through**: one exclusive claim, or the shared ones before the
first exclusive one. A statement runs once every object that it claims lets it through.
"""

from collections import OrderedDict
from collections.abc import Mapping

from leasehold.core.words.records import Claim


class _Queue:
    """The claims on one object, in the order of their coming."""

    def __init__(self) -> None:
        self.through: set[int] = set()
        self.shared = False
        """How those that are through hold it."""
        self.waiting: OrderedDict[int, Claim] = OrderedDict()

    def enter(self, place: int, claim: Claim) -> bool:
        """Whether it is let through at once."""
        if self.waiting or not self._let_through(place, claim):
            self.waiting[place] = claim
            return False
        return True

    def leave(self, place: int) -> list[int]:
        """The places that are let through now."""
        if place in self.through:
            self.through.remove(place)
        else:
            del self.waiting[place]
        moved: list[int] = []
        while self.waiting:
            behind, claim = next(iter(self.waiting.items()))
            if not self._let_through(behind, claim):
                break
            del self.waiting[behind]
            moved.append(behind)
        return moved

    def _let_through(self, place: int, claim: Claim) -> bool:
        """Whether it joins those that are through."""
        if self.through and not (self.shared and claim is Claim.SHARED):
            return False
        self.through.add(place)
        self.shared = claim is Claim.SHARED
        return True


class ObjectQueues:
    """All queues of one leader."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._claims: dict[int, Mapping[str, Claim]] = {}
        self._held_up: dict[int, int] = {}
        """By place, how many objects do not let it through yet; without those that run."""
        self._next = 1

    def enter(self, claims: Mapping[str, Claim]) -> tuple[int, tuple[int, ...]]:
        """Takes a place; answers its number and the places that may run now, which may include it."""
        place = self._next
        self._next += 1
        self._claims[place] = dict(claims)
        queues = [(self._queues.setdefault(name, _Queue()), claim) for name, claim in claims.items()]
        held_up = sum(not queue.enter(place, claim) for queue, claim in queues)
        if held_up:
            self._held_up[place] = held_up
            return place, ()
        return place, (place,)

    def leave(self, place: int) -> tuple[int, ...]:
        """Gives a place back, running or waiting; answers the places that may run now."""
        claims = self._claims.pop(place)
        self._held_up.pop(place, None)
        admitted: list[int] = []
        for name in claims:
            queue = self._queues[name]
            for moved in queue.leave(place):
                self._held_up[moved] -= 1
                if not self._held_up[moved]:
                    del self._held_up[moved]
                    admitted.append(moved)
            if not queue.through:
                del self._queues[name]
        return tuple(sorted(admitted))
