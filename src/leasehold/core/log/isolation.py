"""When a leader lets another coordinator go first: nobody has spoken to it for a while.

A leader that reaches the store alone keeps its leadership for ever, and nothing is served meanwhile. So it steps aside
where the cluster has members and neither a node nor a client has spoken to it for two durations of the longest lease
that may still run. If the others fare no better, it leads again, and waits twice as long the next time.
"""

from typing import Final

SILENT_LEASES: Final = 2
DOUBLINGS_MAX: Final = 5


class Isolation:
    """Of one coordinator, over all of its terms."""

    def __init__(self) -> None:
        self._heard_ns = 0
        self._steps_aside = 0
        """In a row, without having heard anybody."""

    def began(self, now_ns: int) -> None:
        """It leads now."""
        self._heard_ns = now_ns

    def heard(self, at_ns: int) -> None:
        """Somebody spoke to it."""
        if at_ns > self._heard_ns:
            self._heard_ns, self._steps_aside = at_ns, 0

    def due_ns(self, longest_lease_ns: int) -> int:
        """When to step aside, unless somebody speaks before."""
        return self._heard_ns + SILENT_LEASES * longest_lease_ns * 2**self._steps_aside

    def stepped_aside(self) -> None:
        self._steps_aside = min(self._steps_aside + 1, DOUBLINGS_MAX)
