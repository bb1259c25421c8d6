"""The filters that Spark hands to a source, as conditions of a scan, where both mean exactly the same.

Spark hands them over only with `spark.sql.python.filterPushdown.enabled`, and then to a process that this module's
`hands_over_filters` tells from others: a reader that takes filters without that setting makes the query fail.
"""

import datetime
import math
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from pyspark.sql import datasource as spark

from leasehold.core.words.literals import fit
from leasehold.core.words.messages import Filter, FilterOperator
from leasehold.core.words.records import Field
from leasehold.core.words.statements import Literal, fold
from leasehold.errors import Refused
from leasehold.limits.statements import FILTER_VALUES_MAX, FILTERS_MAX

_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_COMPARISONS: Final[dict[type[spark.Filter], FilterOperator]] = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.StringStartsWith: "STARTS WITH",
}


def hands_over_filters() -> bool:
    """Whether Spark runs this process to plan a read with filters."""
    return _PLANNER in sys.modules or getattr(sys.modules["__main__"].__spec__, "name", "") == _PLANNER


def taken(filters: Iterable[spark.Filter], fields: Sequence[Field]) -> tuple[tuple[Filter, ...], list[spark.Filter]]:
    """The conditions, and the filters that Spark has to apply itself."""
    by_name = {fold(one.name): one for one in fields}
    found: list[Filter] = []
    left: list[spark.Filter] = []
    values = 0
    for one in filters:
        condition = _condition(one, by_name)
        if condition is None or len(found) == FILTERS_MAX or values + len(condition.values) > FILTER_VALUES_MAX:
            left.append(one)
        else:
            found.append(condition)
            values += len(condition.values)
    return tuple(found), left


def _condition(one: spark.Filter, fields: dict[str, Field]) -> Filter | None:
    match one:
        case spark.Not(child=spark.IsNull(attribute=path)):
            operator, values = "IS NOT NULL", []
        case spark.IsNull(attribute=path):
            operator, values = "IS NULL", []
        case spark.IsNotNull(attribute=path):
            operator, values = "IS NOT NULL", []
        case spark.In(attribute=path, value=several):
            operator, values = "IN", list(several)
        case spark.EqualTo() | spark.EqualNullSafe() | spark.StringStartsWith():
            path, operator, values = one.attribute, _COMPARISONS[type(one)], [one.value]
        case spark.LessThan() | spark.LessThanOrEqual() | spark.GreaterThan() | spark.GreaterThanOrEqual():
            path, operator, values = one.attribute, _COMPARISONS[type(one)], [one.value]
        case _:
            return None
    field = fields.get(fold(path[0])) if len(path) == 1 else None
    if field is None or (operator == "STARTS WITH" and field.type != "STRING"):
        return None
    literals = [_literal(value) for value in values]
    fitting = [one for one in literals if one is not None and _fits(one, field)]
    if len(fitting) < len(values) or (operator == "IN" and not values):
        return None
    return Filter(column=field.name, operator=operator, values=tuple(fitting))


def _literal(value: object) -> Literal | None:
    match value:
        case bool():
            return Literal("boolean", "true" if value else "false")
        case int():
            return Literal("number", str(value))
        case float() if math.isfinite(value):
            return Literal("number", repr(value))
        case Decimal():
            return Literal("number", f"{value:f}")
        case str():
            return Literal("string", value)
        case bytes() | bytearray():
            return Literal("binary", value.hex())
        case datetime.datetime():
            # Spark gives the instant with an offset.
            return None if value.tzinfo is None else Literal("timestamp", value.isoformat(sep=" "))
        case datetime.date():
            return Literal("date", value.isoformat())
        case _:
            return None


def _fits(literal: Literal, field: Field) -> bool:
    try:
        return fit(literal, field.type, column=field.name) is not None
    except Refused:
        return False
