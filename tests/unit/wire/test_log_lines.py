"""Log lines that hold what others sent."""

import logging

import pytest

from leasehold.limits.processes import LOG_LINE_CHARACTERS_MAX
from leasehold.wire.log_lines import OneLine


def written(text: str, *args: object, fault: BaseException | None = None) -> str:
    exc_info = None if fault is None else (type(fault), fault, fault.__traceback__)
    record = logging.LogRecord("one", logging.WARNING, "", 0, text, args, exc_info)
    return OneLine("%(name)s: %(message)s").format(record)


def test_nobody_adds_a_line_or_moves_the_cursor() -> None:
    line = written("%s: revision %d", "CREATE DATABASE d COMMENT 'x\n2026 one: all is well\x1b[2J\r\u2028\u202e'", 7)
    assert line == (r"one: CREATE DATABASE d COMMENT 'x\n2026 one: all is well\x1b[2J\r\u2028\u202e': revision 7")


def test_text_of_any_language_stays_as_it_is() -> None:
    assert written("%s", "größer, 表, ') \\") == "one: größer, 表, ') \\"


def test_a_long_line_is_cut() -> None:
    assert len(written("%s", "x" * 1_000_000)) == LOG_LINE_CHARACTERS_MAX


def test_a_traceback_keeps_its_lines() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    lines = written("unforeseen", fault=caught.value).splitlines()
    assert lines[:2] == ["one: unforeseen", "Traceback (most recent call last):"]
    assert lines[-1].startswith("ZeroDivisionError")
