"""A text from outside takes bounded time and stack, however it is built."""

import pytest

from leasehold.core.words.statements import CreateView
from leasehold.limits.statements import (
    PARSE_INLINE_CHARACTERS,
    STATEMENT_CHARACTERS_MAX,
    STATEMENT_WORDS_MAX,
    VIEW_BODY_CHARACTERS_MAX,
    VIEW_NESTING_MAX,
)
from leasehold.sql import query
from leasehold.sql.parse import parse, parses_at_once
from leasehold.sql.query import BoundedParser
from tests.unit.sql.refusals import refused


def refusal(text: str) -> str:
    return refused(text, "BAD_STATEMENT").text


def test_a_long_text_is_refused_before_it_is_read() -> None:
    assert str(STATEMENT_CHARACTERS_MAX) in refusal("x" * (STATEMENT_CHARACTERS_MAX + 1))


def test_many_words_are_refused_before_they_are_read() -> None:
    assert str(STATEMENT_WORDS_MAX) in refusal("DROP TABLE a" + ".a" * (STATEMENT_WORDS_MAX // 2))


def test_what_may_take_long_to_parse_is_told_before() -> None:
    assert all(map(parses_at_once, ("DROP TABLE a.b", "SHOW VIEWS", "DROP VIEW a.b CASCADE")))
    assert not parses_at_once(f"DROP TABLE a.b -- {'x' * PARSE_INLINE_CHARACTERS}")
    for word in ("VIEW", "view"):
        assert isinstance(parse(f"/* x */ CREATE OR REPLACE {word} a.v AS SELECT a FROM a.b"), CreateView)
        assert not parses_at_once(f"/* x */ CREATE OR REPLACE {word} a.v AS SELECT a FROM a.b")


def test_the_select_of_a_view_has_a_length() -> None:
    names = ", ".join(f"column_{number}" for number in range(VIEW_BODY_CHARACTERS_MAX // 10))
    refused(f"CREATE VIEW a.v AS SELECT {names} FROM a.b", "SELECT_TOO_LONG", str(VIEW_BODY_CHARACTERS_MAX))


def test_a_select_that_grows_when_it_is_written_down_has_a_length() -> None:
    dates = ", ".join("DATE'2026-01-01'" for _ in range(VIEW_BODY_CHARACTERS_MAX // 20))
    refused(f"CREATE VIEW a.v AS SELECT {dates}", "SELECT_TOO_LONG", str(VIEW_BODY_CHARACTERS_MAX))


@pytest.mark.parametrize("opening", ["(", "[", "{", "f(", "(SELECT "])
def test_deep_brackets_are_refused_before_they_are_read(opening: str) -> None:
    assert "nest" in refusal(f"CREATE VIEW a.v AS SELECT {opening * (VIEW_NESTING_MAX + 1)}")


def test_deep_brackets_in_a_type_take_no_stack() -> None:
    refused("CREATE TABLE a.b (x " + "ARRAY<" * 10_000, "BAD_TYPE", "unknown column type")


def test_brackets_as_deep_as_they_may_be() -> None:
    parse("CREATE VIEW a.v AS SELECT " + "(SELECT " * VIEW_NESTING_MAX + "1" + ")" * VIEW_NESTING_MAX)


def test_deep_operators_are_refused_without_running_out_of_stack() -> None:
    assert "too complex" in refusal("CREATE VIEW a.b AS SELECT " + "NOT " * 4_000 + "1")


@pytest.mark.parametrize("joins", [15, 25, 200])
def test_joins_without_conditions_do_not_take_exponential_time(joins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    class Counted(BoundedParser):
        def _advance(self, times: int = 1) -> None:
            nonlocal steps
            steps += 1
            super()._advance(times)

    monkeypatch.setattr(query, "BoundedParser", Counted)
    assert "too complex" in refusal("CREATE VIEW a.b AS SELECT * FROM a " + "JOIN a " * joins + "1")
    assert steps < 6_000 + 10 * joins


def test_long_words_are_cut_in_what_is_said() -> None:
    assert len(refusal("DROP TABLE a.b " + "y" * 100_000)) < 200


@pytest.mark.parametrize(
    "interval",
    [
        "INTERVAL '{}' DAYS",
        "INTERVAL {} DAYS",
        "INTERVAL r'{}' DAYS",
        "INTERVAL '1' DAY '{}' DAYS",
        "INTERVAL '1' DAY + '{}' DAYS",
    ],
)
def test_long_intervals_are_refused_before_sqlglot_looks_for_a_number_in_them(interval: str) -> None:
    """It holds the interpreter's lock for a time that grows with the square of their length."""
    assert "not valid here" in refusal("CREATE VIEW a.b AS SELECT c + " + interval.format("9" * 4_000) + " FROM a.t")


def test_long_texts_beside_intervals_are_no_intervals() -> None:
    text = f"SELECT '{'x' * 500}' AS x, interval '3' day AS y, c + interval '1 day 2 hours' AS z FROM a.t"
    assert isinstance(parse(f"CREATE VIEW a.b AS {text}"), CreateView)
