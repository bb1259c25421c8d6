"""Log lines that repeat, on a clock that the test turns."""

import itertools
import logging

from leasehold.limits.processes import LOG_REST_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.repeated_lines import RepeatedLines


class Log:
    """What a handler writes behind the filter."""

    def __init__(self, **limits: int) -> None:
        self.now_ns = 0
        self.lines = RepeatedLines(lambda: self.now_ns, **limits)

    def write(self, text: str, *args: object, logger: str = "one") -> str | None:
        """The line as it is written, None if it is left out."""
        record = logging.LogRecord(logger, logging.WARNING, "", 0, text, args, None)
        return record.getMessage() if self.lines.filter(record) else None


def test_a_line_that_repeats_is_written_ever_more_rarely_with_a_count() -> None:
    log, written = Log(), list[tuple[int, str]]()
    for tenth in range(400):
        log.now_ns = tenth * SECOND_NS // 10
        line = log.write("node %d is gone", 7)
        if line is not None:
            written.append((tenth, line))
    assert [at for at, _ in written] == [0, 10, 30, 70, 150, 310]
    assert written[0][1] == "node 7 is gone"
    assert written[1][1] == "node 7 is gone (repeated 9 times since it was last logged)"
    assert written[-1][1] == "node 7 is gone (repeated 159 times since it was last logged)"


def test_the_rest_of_a_line_has_a_bound() -> None:
    log, written = Log(), list[int]()
    for minute in range(60 * 24):
        log.now_ns = minute * 60 * SECOND_NS
        for second in range(0, 60, 10):
            log.now_ns = (minute * 60 + second) * SECOND_NS
            if log.write("again") is not None:
                written.append(log.now_ns)
    gaps = [after - before for before, after in itertools.pairwise(written)]
    assert LOG_REST_MAX_NS <= max(gaps) <= LOG_REST_MAX_NS + 10 * SECOND_NS


def test_a_line_that_comes_rarely_is_written_each_time_as_it_is() -> None:
    log = Log()
    for hour in range(10):
        log.now_ns = hour * 3600 * SECOND_NS
        assert log.write("now and then") == "now and then"


def test_other_lines_and_other_loggers_are_told_apart() -> None:
    log = Log()
    assert log.write("node %d", 1) == "node 1"
    assert log.write("node %d", 2) == "node 2"
    assert log.write("node %d", 1, logger="two") == "node 1"
    assert log.write("node 1") is None


def test_so_many_lines_are_remembered() -> None:
    log = Log(lines_max=2)
    assert [log.write(text) for text in ("a", "b", "a", "c", "a", "b")] == ["a", "b", None, "c", None, "b"]
