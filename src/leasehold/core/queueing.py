"""Queues per object: which statements may run at once (DESIGN section 8).

A statement claims each object it touches, exclusively or shared, all at once and in arrival order: it runs when no
earlier statement, running or waiting, holds a claim that conflicts with one of its own. So statements on one object
run in the order in which they came, nothing deadlocks, and nothing starves.
"""

from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum


class Claim(Enum):
    """How an object is used."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class ObjectQueues:
    """All queues of one leader."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Mapping[str, Claim]] = OrderedDict()
        self._running: dict[int, Mapping[str, Claim]] = {}
        self._next = 1

    def enter(self, claims: Mapping[str, Claim]) -> tuple[int, tuple[int, ...]]:
        """Takes a place; answers its number and the places that may run now, which may include it."""
        place = self._next
        self._next += 1
        self._waiting[place] = dict(claims)
        return place, self._admit()

    def leave(self, place: int) -> tuple[int, ...]:
        """Gives a place back, running or waiting; answers the places that may run now."""
        if self._running.pop(place, None) is None:
            del self._waiting[place]
        return self._admit()

    def _admit(self) -> tuple[int, ...]:
        admitted: list[int] = []
        taken: dict[str, Claim] = {}
        for claims in self._running.values():
            _take(taken, claims)
        for place, claims in list(self._waiting.items()):
            if not any(_conflict(taken.get(name), claim) for name, claim in claims.items()):
                self._running[place] = self._waiting.pop(place)
                admitted.append(place)
            _take(taken, claims)  # those behind wait for it even where it waits itself
        return tuple(admitted)


def _take(taken: dict[str, Claim], claims: Mapping[str, Claim]) -> None:
    for name, claim in claims.items():
        if taken.get(name) is not Claim.EXCLUSIVE:
            taken[name] = claim


def _conflict(held: Claim | None, wanted: Claim) -> bool:
    return held is not None and Claim.EXCLUSIVE in (held, wanted)
