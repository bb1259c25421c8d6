"""Log lines that repeat: each is written at once, and again after 1 s, 2 s, 4 s .. 1 h, with how often it came.

Lines are the same if logger and text are. A line that has not come for an hour starts over. The LOG_LINES_KEPT newest
ones are remembered.
"""

import logging
from collections.abc import Callable

import msgspec

from leasehold.core.backoff import Backoff
from leasehold.limits.processes import LOG_LINES_KEPT, LOG_REST_MAX_NS, LOG_REST_MIN_NS

_NO_REST = Backoff(LOG_REST_MIN_NS, LOG_REST_MAX_NS)


class _Line(msgspec.Struct):
    came_ns: int
    rest: Backoff
    left_out: int = 0
    """Since it was written."""


class RepeatedLines(logging.Filter):
    """For one handler; `now_ns` reads the clock. It remembers `lines_max` lines."""

    def __init__(self, now_ns: Callable[[], int], *, lines_max: int = LOG_LINES_KEPT) -> None:
        super().__init__()
        self._now_ns = now_ns
        self._lines_max = lines_max
        self._lines: dict[tuple[str, str], _Line] = {}
        """By logger and text, in the order in which they came last."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line; adds the count to one that has been left out."""
        now_ns, text = self._now_ns(), record.getMessage()
        key = (record.name, text)
        line = self._lines.pop(key, None) or _Line(now_ns, _NO_REST)
        if now_ns - line.came_ns >= LOG_REST_MAX_NS:
            line.rest = _NO_REST
        line.came_ns = now_ns
        self._lines[key] = line
        if len(self._lines) > self._lines_max:
            del self._lines[next(iter(self._lines))]
        if not line.rest.is_over(now_ns):
            line.left_out += 1
            return False
        line.rest = line.rest.after_failure(now_ns)
        if line.left_out:
            record.msg, record.args = "%s (repeated %d times since it was last logged)", (text, line.left_out)
            line.left_out = 0
        return True
