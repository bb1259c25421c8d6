"""Conditions held against columns, by Arrow. Comparisons are those of Spark: NULL fulfils none, NaN equals itself and
is greater than all numbers, and -0.0 equals 0.0."""

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.words.messages import FieldFilter
from leasehold.core.words.records import Field
from leasehold.storage.schema import scalar

_FUNCTIONS: Final = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def fulfilled(column: pa.Array, field: Field, operator: str, values: tuple[str, ...]) -> pa.Array:
    """Which rows fulfil a condition, as booleans without nulls; the values are literals of the field's type. Raises
    `Refused` with code BAD_VALUE for others."""
    match operator:
        case "IS NULL":
            return pc.call_function("is_null", [column])
        case "IS NOT NULL":
            return pc.call_function("is_valid", [column])
        case "IN" if not pa.types.is_floating(column.type):
            several = pa.array([scalar(value, field.type) for value in values], column.type)
            return pc.call_function("is_in", [column], pc.SetLookupOptions(several))
        case "IN":  # the zeros are two values to Arrow's look-up
            found = (fulfilled(column, field, "=", (value,)) for value in values)
            return reduce(lambda one, other: pc.call_function("or", [one, other]), found)
        case "STARTS WITH":
            found = pc.call_function("starts_with", [column], pc.MatchSubstringOptions(values[0]))
            return found.fill_null(False)
        case _:
            found = pc.call_function(_FUNCTIONS[operator], [column, scalar(values[0], field.type)])
            if pa.types.is_floating(column.type) and operator in {">", ">="}:
                found = pc.call_function("or", [found, pc.call_function("is_nan", [column])])
            return found.fill_null(False)


def matching(batch: pa.RecordBatch, fields: tuple[Field, ...], where: tuple[FieldFilter, ...]) -> pa.RecordBatch:
    """The rows that fulfil all conditions, of a batch whose first columns these are, with those of the conditions."""
    return batch.filter(all_fulfilled(batch, fields, where)) if where else batch


def all_fulfilled(batch: pa.RecordBatch, fields: tuple[Field, ...], where: tuple[FieldFilter, ...]) -> pa.Array:
    """Which rows fulfil all conditions, of a batch whose first columns are `fields`, with those of the conditions."""
    places = {field.id: place for place, field in enumerate(fields)}
    found = [pa.repeat(pa.scalar(True), batch.num_rows)]
    for one in where:
        place = places[one.field.id]
        found.append(fulfilled(batch.column(place), fields[place], one.operator, one.values))
    return reduce(lambda one, other: pc.call_function("and", [one, other]), found)
