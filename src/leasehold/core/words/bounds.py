"""The bounds that the manifest has of a column's values: which ones can be true, and how they compare.

A client sends them with the segments that it commits, and every DELETE is held against them, on the leader and on each
node. So a bound that is not of the column's type is refused.
"""

import re
from collections.abc import Callable
from decimal import Decimal as PythonDecimal
from math import isfinite
from typing import Any, Final, TypeAlias

from leasehold.core.words.records import ColumnStatistics
from leasehold.core.words.types import Decimal, parse_type
from leasehold.limits.segments import STATISTIC_CHARACTERS_MAX

Bound: TypeAlias = bool | int | float | str

_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DATE": 32, "TIMESTAMP": 64}


def comparable(type_text: str) -> Callable[[Any], Any] | None:
    """Makes literals and bounds of a type comparable; None where they are not."""
    column = parse_type(type_text)
    if isinstance(column, Decimal):
        return PythonDecimal
    match column.name:
        case "BINARY":
            return None
        case "BOOLEAN":
            return lambda one: one if isinstance(one, bool) else one == "true"
        case "STRING":
            return str
        case "FLOAT" | "DOUBLE":
            return float
        case _:
            return int


def soundness(type_text: str) -> Callable[[ColumnStatistics, int], bool]:
    """Tests whether statistics of a column of that type can be true in a segment of some number of rows."""
    is_bound, value_of = _is_bound(type_text), comparable(type_text)

    def sound(known: ColumnStatistics, rows: int) -> bool:
        low, high = known.minimum, known.maximum
        if not 0 <= known.nulls <= rows:
            return False
        if known.nulls == rows:
            return low is None and high is None
        if (low is not None and not is_bound(low)) or (high is not None and not is_bound(high)):
            return False
        return low is None or high is None or (value_of is not None and bool(value_of(low) <= value_of(high)))

    return sound


def _is_bound(type_text: str) -> Callable[[Bound], bool]:
    """Tests whether a bound has the form that `storage/statistics.py` gives that type."""
    column = parse_type(type_text)
    if isinstance(column, Decimal):
        digits = max(column.precision - column.scale, 1)
        decimals = rf"\.[0-9]{{{column.scale}}}" if column.scale else ""
        spelling = re.compile(rf"-?[0-9]{{1,{digits}}}{decimals}", re.ASCII)
        return lambda one: isinstance(one, str) and spelling.fullmatch(one) is not None
    match column.name:
        case "BINARY":
            return lambda _one: False
        case "BOOLEAN":
            return lambda one: isinstance(one, bool)
        case "STRING":
            return lambda one: isinstance(one, str) and len(one) <= STATISTIC_CHARACTERS_MAX
        case "FLOAT" | "DOUBLE":
            return lambda one: isinstance(one, float) and isfinite(one)
        case name:
            most = 2 ** (_BITS[name] - 1)
            return lambda one: isinstance(one, int) and not isinstance(one, bool) and -most <= one < most
