"""Whose turn it is among the coordinators that somebody knows: the next one, or the leader that the last one named.

A coordinator that does not lead names the leader that it saw last, with the term. A term is followed once: two
coordinators that name each other send nobody to and fro. An address that was not known before is never asked: its
process would have to prove itself first.
"""

from collections.abc import Sequence

from leasehold.errors import LeaseholdError, NotLeader


class Turns:
    """Counts turns; the address at a turn is `addresses[turn % len(addresses)]`."""

    def __init__(self) -> None:
        self._followed_term = 0

    def after(self, turn: int, addresses: Sequence[str], error: LeaseholdError | None) -> int:
        """The turn after `turn`, which ended with `error`; always a later one."""
        if isinstance(error, NotLeader) and error.term > self._followed_term and error.leader in addresses:
            self._followed_term = error.term
            steps = (addresses.index(error.leader) - turn) % len(addresses)
            return turn + (steps or len(addresses))
        return turn + 1
