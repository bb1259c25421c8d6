"""A text from outside takes bounded time and stack, however it is built."""

import pytest

from leasehold.errors import BadStatement
from leasehold.limits import STATEMENT_CHARACTERS_MAX, STATEMENT_NESTING_MAX, STATEMENT_WORDS_MAX
from leasehold.sql.parse import parse
from leasehold.sql.tree import _Parser  # pyright: ignore[reportPrivateUsage] - its count of steps is the subject


def refusal(text: str) -> str:
    with pytest.raises(BadStatement) as caught:
        parse(text)
    assert caught.value.hint
    return caught.value.text


def test_a_long_text_is_refused_before_it_is_read() -> None:
    assert str(STATEMENT_CHARACTERS_MAX) in refusal("x" * (STATEMENT_CHARACTERS_MAX + 1))


def test_many_words_are_refused_before_they_are_read() -> None:
    assert str(STATEMENT_WORDS_MAX) in refusal("DROP TABLE a" + ".a" * (STATEMENT_WORDS_MAX // 2))


@pytest.mark.parametrize("opening", ["(", "[", "{", "ARRAY<"])
def test_deep_brackets_are_refused_before_they_are_read(opening: str) -> None:
    assert "nest" in refusal(f"CREATE TABLE a.b (x {opening * STATEMENT_NESTING_MAX}")


def test_deep_operators_are_refused_without_running_out_of_stack() -> None:
    assert "entangled" in refusal("CREATE TABLE a.b AS SELECT " + "NOT " * 5_000 + "1")


@pytest.mark.parametrize("joins", [15, 25, 200])
def test_joins_without_conditions_do_not_take_exponential_time(joins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    advance = _Parser._advance

    def counted(self: _Parser, times: int = 1) -> None:
        nonlocal steps
        steps += 1
        advance(self, times)

    monkeypatch.setattr(_Parser, "_advance", counted)
    assert "entangled" in refusal("CREATE TABLE a.b AS SELECT * FROM a " + "JOIN a " * joins + "1")
    assert steps < 3_000 + 200 * joins


def test_long_words_are_cut_in_what_is_said() -> None:
    assert len(refusal("DROP TABLE a.b " + "y" * 100_000)) < 200
