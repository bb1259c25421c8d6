"""How long a client retries while nobody answers: one rule for all that it asks of coordinators and nodes.

The caller gives the deadline, counted from the last answer.
"""

from collections.abc import Callable
from typing import Self, TypeAlias

import msgspec

from leasehold.errors import BadSettings, LeaseholdError
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.statements import DURATION_NS_MAX
from leasehold.limits.units import SECOND_NS

Told: TypeAlias = Callable[[LeaseholdError | None, float], None]
"""Gets the last error and for how many seconds it is still asked; None once an answer has come."""


class Asking(msgspec.Struct, frozen=True):
    """Asks again for `for_ns`."""

    for_ns: int = CLIENT_PATIENCE_NS
    tell: Told = lambda *_: None

    @classmethod
    def of(cls, timeout: float | None, tell: Told) -> Self:
        """By a timeout in seconds, None for the default. Raises `BadSettings`."""
        if timeout is None:
            return cls(CLIENT_PATIENCE_NS, tell)
        if not 0 < timeout * SECOND_NS <= DURATION_NS_MAX:  # nor is NaN
            most_s = DURATION_NS_MAX // SECOND_NS
            raise BadSettings(f"timeout is {timeout}", hint=f"give a timeout above zero and at most {most_s} seconds")
        return cls(max(1, round(timeout * SECOND_NS)), tell)

    def seconds(self, late_ns: int = 0) -> str:
        """The deadline and `late_ns` more, for people."""
        return f"{(self.for_ns + late_ns) / SECOND_NS:g} s"

    def again(self, error: LeaseholdError, left_ns: int) -> None:
        """Reports that it is asked again after `error`."""
        self.tell(error, left_ns / SECOND_NS)

    def answered(self) -> None:
        self.tell(None, 0)
