"""Whether the history of concurrent operations on a catalog is linearizable, from what its clients know alone.

The catalog is a set of objects, each with a value; an object without a value is not there. An operation takes effect in
one **step**, or in several: in a step it finds some values, and leaves others, at one instant. A read only finds. The
instant of a step lies after the operation was invoked and before it was answered.

Each operation says how many steps it may have taken in the end. One that was answered has taken all. One without an
answer may have taken them or not, at any time after its invocation. One that was rolled back has taken two, of which
the second takes the first one back, or none.

Most operations know their **revision**. Revisions order them: first the statements of a revision, then the reads of it.
Statements of one revision have different objects. So this order is linear, and is only compared with real time: an
operation must not come before one that had been answered when it was invoked. What is left is a search for the places
of the operations without a revision in this order. It is the search of Wing and Gong ("Testing and verifying concurrent
objects", 1993) with the memory of visited states that Lowe added ("Testing for linearizability", 2017). A state is how
far the order was followed, how many steps each other operation took, and the values.

The history of each single object is searched first. That is fast, and a violation has few operations. If no object is
wrong by itself, and some operation has no revision, then all objects are searched together. A search that met
`SEARCH_STATES_MAX` states is given up: the history is **undecided**.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from leasehold.ids import Revision
from leasehold.limits.units import SECOND_NS

SEARCH_STATES_MAX: Final = 50_000
SHRINK_STATES_MAX: Final = 1_000
"""Of each search for a smaller counter-example."""
ONCE: Final = frozenset({1})

CatalogObject: TypeAlias = tuple[str, ...]
Value: TypeAlias = str | None
"""None: it is not there."""
_Values: TypeAlias = tuple[Value, ...]


class CatalogStep(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation finds and leaves at one instant."""

    found: Mapping[CatalogObject, Value] = {}
    left: Mapping[CatalogObject, Value] = {}

    def of(self, objects: frozenset[CatalogObject]) -> "CatalogStep":
        """The same step as these objects see it."""
        return CatalogStep(
            found={one: value for one, value in self.found.items() if one in objects},
            left={one: value for one, value in self.left.items() if one in objects},
        )


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a client."""

    what: str
    """For people."""
    invoked_ns: int
    answered_ns: int | None
    """None: no answer came."""
    steps: tuple[CatalogStep, ...]
    ends: frozenset[int] = ONCE
    """How many steps it may have taken in the end."""
    revision: Revision | None = None
    """Where its only step is, if that is known."""

    @property
    def is_read(self) -> bool:
        return not any(step.left for step in self.steps)

    @property
    def objects(self) -> frozenset[CatalogObject]:
        """Those that it finds or leaves."""
        return frozenset(one for step in self.steps for one in (*step.found, *step.left))

    def was_over(self, later: "Operation") -> bool:
        """Whether it had been answered when `later` was invoked."""
        return self.answered_ns is not None and self.answered_ns < later.invoked_ns

    def line(self) -> str:
        """For people, on one line."""
        answered = "no answer" if self.answered_ns is None else f"answered {self.answered_ns / SECOND_NS:.3f} s"
        at = "" if self.revision is None else f", at revision {self.revision}"
        steps = "".join(f", {_said(step)}" for step in self.steps)
        may = ", perhaps not" if len(self.ends) > 1 else ""
        return f"{self.what}: asked {self.invoked_ns / SECOND_NS:.3f} s, {answered}{at}{steps}{may}"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """No order explains these operations. Without one of the reads among them there is one."""

    why: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return "\n  ".join((self.why, *(one.line() for one in self.operations)))


class UndecidedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The search met its bound."""

    states: int


def check(history: Iterable[Operation], *, states_max: int = SEARCH_STATES_MAX) -> Violation | UndecidedHistory | None:
    """None if the history is linearizable. No object is there at its beginning."""
    operations = list(history)
    order = _ordered(operations)
    if (broken := _against_time(order)) is not None:
        return broken
    floating = [one for one in operations if one.revision is None]
    undecided: UndecidedHistory | None = None
    for one in sorted(frozenset[CatalogObject]().union(*(each.objects for each in operations))):
        projected = list(_projected(operations, frozenset({one})))
        reached = _search(projected, states_max)
        if isinstance(reached, int):
            return _smallest(projected, reached, f"no order explains what was seen of {'.'.join(one)}")
        undecided = undecided or reached
    if undecided is None and floating:
        reached = _search(operations, states_max)
        if isinstance(reached, int):
            return _smallest(operations, reached, "each object has an order, and all together have none")
        undecided = reached
    return undecided


def _ordered(operations: Iterable[Operation]) -> list[Operation]:
    """Those with a revision, in the order of revisions."""
    known = [one for one in operations if one.revision is not None]
    assert all(len(one.steps) == 1 and one.ends == ONCE for one in known), "a revision tells one step"
    return sorted(known, key=lambda one: (one.revision, one.is_read, one.invoked_ns))


def _against_time(order: Sequence[Operation]) -> Violation | None:
    """Two operations of which the later revision had been answered before the earlier one was invoked."""
    soonest: Operation | None = None
    for one in reversed(order):
        if soonest is not None and soonest.was_over(one):
            why = f"revision {soonest.revision} was answered, and revision {one.revision} after that"
            return Violation(
                why=why, operations=tuple(msgspec.structs.replace(each, steps=()) for each in (soonest, one))
            )
        if one.answered_ns is not None and (soonest is None or one.answered_ns < (soonest.answered_ns or 0)):
            soonest = one
    return None


def _projected(operations: Iterable[Operation], objects: frozenset[CatalogObject]) -> Iterator[Operation]:
    """The history as these objects see it."""
    for one in operations:
        if not objects.isdisjoint(one.objects):
            yield msgspec.structs.replace(one, steps=tuple(step.of(objects) for step in one.steps))


def _smallest(history: list[Operation], reached: int, why: str) -> Violation:
    """What no order explains, up to the first operation that was not `reached`: without the reads that don't matter,
    and where all have revisions without what lies before the last write."""
    ahead = set(map(id, _ordered(history)[reached + 1 :]))
    history = [one for one in history if id(one) not in ahead]
    for one in [each for each in history if each.is_read]:
        fewer = [each for each in history if each is not one]
        if isinstance(_search(fewer, SHRINK_STATES_MAX), int):
            history = fewer
    order = _ordered(history)
    if len(order) == len(history):
        order = order[max((at for at, one in enumerate(order[:-1]) if not one.is_read), default=0) :]
        history = order
    return Violation(why=why, operations=tuple(sorted(history, key=lambda one: one.invoked_ns)))


# ------------------------------------------------------------ the search


class _Place(NamedTuple):
    """A state of the search."""

    followed: int
    """How many operations of the order are behind it."""
    taken: tuple[int, ...]
    """How many steps each operation without a revision took."""
    values: _Values


class _Search:
    """The places that an operation may have in one history."""

    def __init__(self, history: Sequence[Operation]) -> None:
        objects = sorted(frozenset[CatalogObject]().union(*(one.objects for one in history)))
        self._index = {one: at for at, one in enumerate(objects)}
        self.order = _ordered(history)
        self._floating = [one for one in history if one.revision is None]
        self._must_be_over = [self._over(one) for one in self.order]
        """For each one of the order, those without a revision that had been answered when it was invoked."""
        self._after = [
            1 + max((at for at, one in enumerate(self.order) if one.was_over(each)), default=-1)
            for each in self._floating
        ]
        """For each one without a revision, how far the order has to be followed before its first step."""
        self._until = [
            next((at for at, one in enumerate(self.order) if each.was_over(one)), len(self.order))
            for each in self._floating
        ]
        """How far the order may be followed before its last step."""
        self._earlier = [self._over(each) for each in self._floating]
        self._turns = [[self._indexed(step) for step in each.steps] for each in self._floating]
        self._ordered_turns = [self._indexed(one.steps[0]) for one in self.order]

    def begin(self) -> _Place:
        return _Place(0, (0,) * len(self._floating), (None,) * len(self._index))

    def is_end(self, place: _Place) -> bool:
        return place.followed == len(self.order) and all(
            count in one.ends for count, one in zip(place.taken, self._floating, strict=True)
        )

    def next(self, place: _Place) -> Iterator[_Place]:
        """The places one step on; the most promising is the last one."""
        followed, taken, values = place
        for number, one in enumerate(self._floating):
            count = taken[number]
            if count == len(one.steps) or not self._after[number] <= followed <= self._until[number]:
                continue
            if count == 0 and not self._are_over(self._earlier[number], taken):
                continue
            if any(count_ and number in self._earlier[later] for later, count_ in enumerate(taken)):
                continue
            after = _taken(self._turns[number][count], values)
            if after is not None:
                yield _Place(followed, (*taken[:number], count + 1, *taken[number + 1 :]), after)
        if followed < len(self.order) and self._are_over(self._must_be_over[followed], taken):
            after = _taken(self._ordered_turns[followed], values)
            if after is not None:
                yield _Place(followed + 1, taken, after)

    def _over(self, later: Operation) -> tuple[int, ...]:
        return tuple(number for number, one in enumerate(self._floating) if one.was_over(later))

    def _are_over(self, numbers: tuple[int, ...], taken: tuple[int, ...]) -> bool:
        return all(taken[number] in self._floating[number].ends for number in numbers)

    def _indexed(self, step: CatalogStep) -> "_IndexedStep":
        return _IndexedStep(
            [(self._index[one], value) for one, value in step.found.items()],
            [(self._index[one], value) for one, value in step.left.items()],
        )


class _IndexedStep(NamedTuple):
    """A step, with the places of the values in the state."""

    found: list[tuple[int, Value]]
    left: list[tuple[int, Value]]


def _taken(step: _IndexedStep, values: _Values) -> _Values | None:
    """The values after a step; None if it finds others."""
    if any(values[at] != value for at, value in step.found):
        return None
    if not step.left:
        return values
    after = list(values)
    for at, value in step.left:
        after[at] = value
    return tuple(after)


def _search(history: Sequence[Operation], states_max: int) -> UndecidedHistory | int | None:
    """None if there is an order; else the first operation with a revision that no order reached, by its number."""
    search = _Search(history)
    waiting = [search.begin()]
    visited = set(waiting)
    furthest = 0
    while waiting:
        place = waiting.pop()
        if search.is_end(place):
            return None
        furthest = max(furthest, place.followed)
        for one in search.next(place):
            if one not in visited:
                if len(visited) == states_max:
                    return UndecidedHistory(states=states_max)
                visited.add(one)
                waiting.append(one)
    return furthest


def _said(step: CatalogStep) -> str:
    found = [f"finds {_is(one, value)}" for one, value in step.found.items()]
    return ", ".join((*found, *(f"leaves {_is(one, value)}" for one, value in step.left.items())))


def _is(one: CatalogObject, value: Value) -> str:
    return f"{'.'.join(one)} {'missing' if value is None else f'as {value}' if value else 'there'}"
