"""SELECTs over frames, by words that stand for them."""

from typing import Any

import pytest

from leasehold.spark.session_kinds import select_over


class FakeSpark:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def sql(self, text: str, **frames: Any) -> None:
        self.asked.append((text, frames))


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("SELECT 1", (), "SELECT 1"),
        ("SELECT '{a}'", (), "SELECT '{a}'"),
        ("SELECT '{a}' FROM w_1", ("w_1",), "SELECT '{{a}}' FROM {w_1}"),
        ("SELECT w_1.a FROM w_1, `w_10` AS w_100", ("w_1", "w_10"), "SELECT {w_1}.a FROM {w_1}, `{w_10}` AS w_100"),
    ],
)
def test_words_are_marked_as_pyspark_takes_them(text: str, words: tuple[str, ...], marked: str) -> None:
    spark: Any = FakeSpark()
    frames: Any = {word: object() for word in words}
    select_over(spark, text, frames)
    assert spark.asked == [(marked, frames)]
