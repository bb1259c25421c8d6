"""Whether rows may fulfil a condition, by the statistics of their column: where they can't, nobody reads the rows.

Comparisons are those of Spark: NULL fulfils none, NaN is greater than all numbers. A column with a NaN has no bounds.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeAlias

from leasehold.core.words.bounds import Bound, comparable
from leasehold.core.words.records import ColumnStatistics, Field

Test: TypeAlias = Callable[[ColumnStatistics | None, int], bool]
"""Whether some of so many rows may fulfil the condition; the statistics are None where they lack the column."""
_Within: TypeAlias = Callable[[Bound, Bound], bool]


def may_fulfil(field: Field, operator: str, values: tuple[str, ...]) -> Test:
    """Tests a condition on `field`; the values are literals of its type, as `core.words.literals` spells them."""
    match operator:
        case "IS NULL":
            return lambda known, _rows: field.initial is None if known is None else known.nulls > 0
        case "IS NOT NULL":
            return lambda known, rows: field.initial is not None if known is None else known.nulls < rows
        case _:
            return _comparing(field, _within(operator, values, comparable(field.type)))


def _comparing(field: Field, within: _Within) -> Test:
    # A file from before the column was there has its first value in all rows.
    at_first = field.initial is not None and within(field.initial, field.initial)

    def test(known: ColumnStatistics | None, rows: int) -> bool:
        if known is None:
            return at_first
        if known.nulls == rows:
            return False
        if known.minimum is None or known.maximum is None:
            return True
        try:
            return within(known.minimum, known.maximum)
        except (ArithmeticError, TypeError, ValueError):  # no bound of this type: it rules nothing out
            return True

    return test


def _within(operator: str, texts: tuple[str, ...], value_of: Callable[[Any], Any] | None) -> _Within:
    """Whether some value from one bound to another may fulfil a comparison."""
    if value_of is None:
        return lambda _low, _high: True
    values = sorted(map(value_of, texts))
    first = values[0]

    def has_one(low: Bound, high: Bound) -> bool:
        place = bisect_left(values, value_of(low))  # a plan holds many values against many segments
        return place < len(values) and bool(values[place] <= value_of(high))

    match operator:
        case "=" | "IN":
            return has_one
        case "<":
            return lambda low, _high: bool(value_of(low) < first)
        case "<=":
            return lambda low, _high: bool(value_of(low) <= first)
        case ">":
            return lambda _low, high: bool(value_of(high) > first)
        case ">=":
            return lambda _low, high: bool(value_of(high) >= first)
        case "STARTS WITH":
            size = len(first)
            return lambda low, high: bool(value_of(low)[:size] <= first <= value_of(high)[:size])
        case _:
            raise AssertionError(operator)
