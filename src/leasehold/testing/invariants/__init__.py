"""One invariant of the design per file, checked after every simulated step.

A check reads the oracle and answers what is wrong, or None. Each is proven by worlds that are broken on purpose.
"""

from collections.abc import Callable
from typing import NamedTuple

from leasehold.testing.invariants import barrier1, id2, lease1, lease2, lease3, serve1
from leasehold.testing.oracle import Oracle


class Invariant(NamedTuple):
    """A named check."""

    id: str
    check: Callable[[Oracle], str | None]


INVARIANTS = (
    Invariant("INV-ID-2", id2.check),
    Invariant("INV-LEASE-1", lease1.check),
    Invariant("INV-LEASE-2", lease2.check),
    Invariant("INV-LEASE-3", lease3.check),
    Invariant("INV-BARRIER-1", barrier1.check),
    Invariant("INV-SERVE-1", serve1.check),
)


def named(*ids: str) -> tuple[Invariant, ...]:
    """The invariants with these ids; a `KeyError` for one that is not registered."""
    by_id = {one.id: one for one in INVARIANTS}
    return tuple(by_id[one] for one in ids)
