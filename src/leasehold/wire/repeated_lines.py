"""Log lines that repeat: each is written at once, and again after 1 s, 2 s, 4 s .. 1 h, with how often it came.

| the line | is written |
| --- | --- |
| for the first time, or after an hour without it | as it is; its rest is 1 s |
| within its rest | not at all, but counted |
| after its rest | with the count; its rest is twice as long, 1 h at most |

Lines are told apart by their logger and their whole text. LOG_LINES_KEPT are remembered, those that came last.
"""

import logging
from collections import OrderedDict
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
        self._lines: OrderedDict[tuple[str, str], _Line] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line; adds the count to one that has been left out."""
        now_ns, text = self._now_ns(), record.getMessage()
        key = (record.name, text)
        line = self._lines.get(key)
        if line is None or now_ns - line.came_ns >= LOG_REST_MAX_NS:
            left_out = 0 if line is None else line.left_out
            self._lines[key] = _Line(now_ns, _NO_REST.after_failure(now_ns))
        elif not line.rest.is_over(now_ns):
            line.left_out += 1
            line.came_ns = now_ns
            self._lines.move_to_end(key)
            return False
        else:
            left_out = line.left_out
            self._lines[key] = _Line(now_ns, line.rest.after_failure(now_ns))
        self._lines.move_to_end(key)
        if len(self._lines) > self._lines_max:
            self._lines.popitem(last=False)
        if left_out:
            record.msg, record.args = "%s (repeated %d times since it was last logged)", (text, left_out)
        return True
