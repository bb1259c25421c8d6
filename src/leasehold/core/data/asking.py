"""For how long a client asks again while nobody answers who could, and who is told so.

One rule for all that a client asks of coordinators and nodes: a deadline that the caller gives, counted from the last
answer.
"""

from collections.abc import Callable
from typing import Self, TypeAlias

import msgspec

from leasehold.errors import BadSettings, LeaseholdError
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.statements import DURATION_NS_MAX
from leasehold.limits.units import SECOND_NS

Told: TypeAlias = Callable[[LeaseholdError | None, float], None]
"""Is told what was answered and for how many seconds it is asked yet; None once an answer has come."""


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
        """How long that is, and `late_ns` more, for people."""
        return f"{(self.for_ns + late_ns) / SECOND_NS:g} s"

    def again(self, error: LeaseholdError, left_ns: int) -> None:
        """It is asked again, for so long yet."""
        self.tell(error, left_ns / SECOND_NS)

    def answered(self) -> None:
        """Somebody has answered."""
        self.tell(None, 0)
