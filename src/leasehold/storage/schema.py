"""Arrow types and schemas of tables, casts between them, and the values in records as Arrow values.

A column's identity is its field id: the metadata `PARQUET:field_id` of its Arrow field, and so of every Parquet file.
"""

import decimal
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.words.records import Field, SegmentFormat
from leasehold.core.words.types import Decimal, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId

_WIDE_BITS: Final = 2**31
"""Counts as the width of a column whose values have no fixed width."""
FIELD_ID_KEY: Final = b"PARQUET:field_id"
"""The metadata key that Arrow, Parquet and Spark agree on."""

FIELD_ID_DIGITS_MAX: Final = 18
"""A longer number, from a file or a peer, is no field id."""
SCHEMAS_CACHED: Final = 256
SCHEMA_COLUMNS_CACHED: Final = 200
"""Of schemas with more columns few are kept: a reader chooses its columns, and their names."""
WIDE_SCHEMAS_CACHED: Final = 4

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

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


def _is_decimal(column: pa.DataType) -> bool:
    """Arrow believes any scale, and reads memory that is none of the column's when it casts from one out of range."""
    return pa.types.is_decimal(column) and 0 <= column.scale <= column.precision


_KINDS: Final = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("floating", pa.types.is_floating),
    ("decimal", _is_decimal),
    ("string", pa.types.is_string),
    ("string", pa.types.is_large_string),
    ("string", pa.types.is_string_view),
    ("binary", pa.types.is_binary),
    ("binary", pa.types.is_large_binary),
    ("binary", pa.types.is_binary_view),
    ("binary", pa.types.is_fixed_size_binary),
    ("date", pa.types.is_date),
    ("timestamp", pa.types.is_timestamp),
)


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a column type spelled as in `core.words.types`. Raises `Refused` with code BAD_TYPE."""
    column = parse_type(text)
    if isinstance(column, Decimal):
        return pa.decimal128(column.precision, column.scale)
    return _PLAIN[column.name]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of `fields`, in their order, each with its field id as metadata."""
    columns = tuple(_Column(one.name, one.type, one.nullable, one.id) for one in fields)
    return (_known_schema if len(columns) <= SCHEMA_COLUMNS_CACHED else _wide_schema)(columns)


class _Column(NamedTuple):
    """What a schema says of a field."""

    name: str
    type: str
    nullable: bool
    id: FieldId


def _schema(columns: tuple[_Column, ...]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(one.name, arrow_type(one.type), one.nullable, metadata={FIELD_ID_KEY: str(one.id).encode()})
            for one in columns
        ]
    )


_known_schema: Final = lru_cache(maxsize=SCHEMAS_CACHED)(_schema)
_wide_schema: Final = lru_cache(maxsize=WIDE_SCHEMAS_CACHED)(_schema)


def narrowest(fields: Sequence[Field]) -> Field:
    """The column to read if rows are only counted."""
    return min(fields, key=_width_bits)


def _width_bits(field: Field) -> int:
    try:
        return arrow_type(field.type).bit_width
    except ValueError:
        return _WIDE_BITS


def physical_name(field: Field, in_format: SegmentFormat) -> str:
    """The name of a column in the files of a format."""
    match in_format:
        case SegmentFormat.COLUMN_NAMES:
            return field.name
        case SegmentFormat.FIELD_IDS:
            return name_by_id(field.id)


def name_by_id(field: FieldId) -> str:
    """The name of a column in files that name columns by id."""
    return f"#{field}"


def field_number(field: pa.Field) -> FieldId | None:
    """The field id that an Arrow field carries, if it does."""
    number = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return FieldId(int(number)) if number.isdigit() and len(number) <= FIELD_ID_DIGITS_MAX else None


CAST_ERRORS: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""What `cast_exactly` raises for values, or kinds of types, that do not convert."""


def cast_exactly(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`column` as type `wanted`, one of those that a table can hold; the same array if it is of that type.
    Raises one of CAST_ERRORS where a value would change or the kinds of types don't convert. Only DOUBLE into FLOAT
    rounds to the nearest, and raises where it would overflow."""
    if column.type == wanted:
        return column
    if isinstance(column, pa.DictionaryArray):
        return cast_exactly(column.dictionary_decode(), wanted)
    kinds = _kind(column.type), _kind(wanted)
    if kinds[0] is None or (kinds[0] not in {kinds[1], "null"} and kinds not in _CONVERTIBLE):
        raise pa.ArrowInvalid("these types don't convert without a change of meaning")
    match kinds:
        case "integer", "decimal":
            # Directly, Arrow demands room for the widest value of the type; through a wide decimal it checks each
            # value.
            return column.cast(pa.decimal256(20 + wanted.scale, wanted.scale)).cast(wanted)
        case "date" | "timestamp", "timestamp":
            # A zone only says how an instant is shown, and no zone means UTC: the number stays.
            zone = column.type.tz if kinds[0] == "timestamp" else None
            return column.cast(pa.timestamp("us", tz=zone)).view(wanted)
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
    """Whether rows of that type can be cast and take about as much memory in a table's type. Dictionaries and nulls may
    take far more."""
    return _kind(column) not in {None, "null"}


def _kind(column: pa.DataType) -> str | None:
    return next((kind for kind, test in _KINDS if test(column)), None)


def scalar(text: str | None, type_text: str) -> pa.Scalar:
    """The Arrow scalar of a canonical literal (`core.words.literals`) of a column type; None is NULL. Raises `Refused`
    with code BAD_VALUE for a text that is no literal of the type."""
    kind = arrow_type(type_text)
    if text is None:
        return pa.scalar(None, kind)
    try:
        return _value(text, kind)
    except (ValueError, decimal.InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise Refused(
            f"{text[:100]!r} is no value of a {type_text} column", code=ErrorCode.BAD_VALUE, hint="upgrade the client"
        ) from error


def column_of(text: str | None, type_text: str, rows: int) -> pa.Array:
    if text is None:
        return pa.nulls(rows, arrow_type(type_text))
    return pa.repeat(scalar(text, type_text), rows)


def _value(text: str, kind: pa.DataType) -> pa.Scalar:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return pa.scalar(["false", "true"].index(text) == 1, kind)
    if is_a.is_integer(kind):
        return pa.scalar(int(text), kind)
    if is_a.is_floating(kind):
        return pa.scalar(float(text), kind)
    if is_a.is_decimal(kind):
        return pa.scalar(decimal.Decimal(text), kind)
    if is_a.is_binary(kind):
        return pa.scalar(bytes.fromhex(text), kind)
    if is_a.is_date(kind):
        return pa.scalar(int(text), pa.int32()).cast(kind)
    if is_a.is_timestamp(kind):
        return pa.scalar(int(text), pa.int64()).cast(TIMESTAMP)
    return pa.scalar(text, kind)
