"""Arrow types and schemas of tables, and casts between them.

A column's identity is its field id, carried as the metadata `PARQUET:field_id` of its Arrow field, and so in
every Parquet file.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.words.records import Field
from leasehold.core.words.types import Decimal, parse_type
from leasehold.ids import FieldId

FIELD_ID_KEY: Final = b"PARQUET:field_id"
"""The metadata key that Arrow, Parquet and Spark agree on."""

FIELD_ID_DIGITS_MAX: Final = 18
"""A file or a peer may write more, which would be no field id."""
SCHEMAS_CACHED: Final = 256

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_NAIVE: Final = pa.timestamp("us")

_PLAIN: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
}

_CONVERTIBLE: Final = frozenset(
    {
        ("integer", "floating"),
        ("integer", "decimal"),
        ("floating", "integer"),
        ("decimal", "integer"),
        ("date", "timestamp"),
    }
)
"""Kinds that convert into another kind, value by value, as far as each value fits exactly."""


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a column type spelled as in `core.words.types`. Raises `Refused` with code BAD_TYPE."""
    column = parse_type(text)
    if isinstance(column, Decimal):
        return pa.decimal128(column.precision, column.scale)
    return _PLAIN[column.name]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of `fields`, in their order, each with its field id as metadata."""
    return _schema(tuple(fields))


@lru_cache(maxsize=SCHEMAS_CACHED)
def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(one.name, arrow_type(one.type), one.nullable, metadata={FIELD_ID_KEY: str(one.id).encode()})
            for one in fields
        ]
    )


def field_number(field: pa.Field) -> FieldId | None:
    """The field id that an Arrow field carries, if it does."""
    number = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return FieldId(int(number)) if number.isdigit() and len(number) <= FIELD_ID_DIGITS_MAX else None


def cast_exactly(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`column` as type `wanted`, one of those that a table can hold; the same array if it is of that type.

    Raises `pa.ArrowInvalid` where a value would change or the kinds of types don't convert. The one exception is DOUBLE
    into FLOAT, which rounds to the nearest as everywhere else, but raises where it would overflow.
    """
    if column.type == wanted:
        return column
    if isinstance(column, pa.DictionaryArray):
        return cast_exactly(column.dictionary_decode(), wanted)
    kinds = _kind(column.type), _kind(wanted)
    if kinds[0] is None or (kinds[0] not in {kinds[1], "null"} and kinds not in _CONVERTIBLE):
        raise pa.ArrowInvalid("these types don't convert without a change of meaning")
    match kinds:
        case "integer", "decimal":
            # Arrow looks at the widest value of an integer type; through a wide decimal it looks at each value.
            return column.cast(pa.decimal256(20 + wanted.scale, wanted.scale)).cast(wanted)
        case "date" | "timestamp", "timestamp":
            # A zone is a way of showing an instant, and no zone means UTC: the number stays.
            zoned = column.type.tz is not None if kinds[0] == "timestamp" else False
            exact = column.cast(pa.timestamp("us", tz=column.type.tz) if zoned else _NAIVE)
            return exact.view(wanted)
        case "floating", "floating":
            rounded = column.cast(wanted)
            if count_true("is_inf", rounded) != count_true("is_inf", column):
                raise pa.ArrowInvalid("a value is too large")
            return rounded
        case _:
            return column.cast(wanted)


def count_true(test: str, column: pa.Array | pa.ChunkedArray) -> int:
    """How many values of `column` pass the Arrow compute function `test`; nulls don't."""
    return pc.call_function("sum", [pc.call_function(test, [column])]).as_py() or 0


def is_plain(column: pa.DataType) -> bool:
    """Whether rows of that type take about as much memory in a table's type: no dictionary, no nulls without end."""
    return _kind(column) not in {None, "null"}


def _kind(column: pa.DataType) -> str | None:
    is_a = pa.types
    tests = (
        ("null", is_a.is_null),
        ("boolean", is_a.is_boolean),
        ("integer", is_a.is_integer),
        ("floating", is_a.is_floating),
        ("decimal", is_a.is_decimal),
        ("string", _is_string),
        ("binary", _is_binary),
        ("date", is_a.is_date),
        ("timestamp", is_a.is_timestamp),
    )
    return next((kind for kind, test in tests if test(column)), None)


def _is_string(column: pa.DataType) -> bool:
    is_a = pa.types
    return is_a.is_string(column) or is_a.is_large_string(column) or is_a.is_string_view(column)


def _is_binary(column: pa.DataType) -> bool:
    is_a = pa.types
    return (
        is_a.is_binary(column)
        or is_a.is_large_binary(column)
        or is_a.is_binary_view(column)
        or is_a.is_fixed_size_binary(column)
    )
