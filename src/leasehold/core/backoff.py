"""Exponential backoff: what failed is left alone for a while, twice as long after each further failure."""

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """The pause after the last failure, of at least `min_ns` and at most `max_ns`. Before a failure there is none."""

    min_ns: int
    max_ns: int
    pause_ns: int = 0
    until_ns: int = 0

    def is_over(self, now_ns: int) -> bool:
        """Whether the next attempt may be made."""
        return now_ns >= self.until_ns

    def after_failure(self, now_ns: int) -> "Backoff":
        """The pause that begins now: twice as long as this one."""
        pause_ns = min(max(self.min_ns, 2 * self.pause_ns), self.max_ns)
        return Backoff(self.min_ns, self.max_ns, pause_ns, now_ns + pause_ns)
