"""Arrow schemas of tables, and how the batches of a writer are made to fit them.

A column's identity is its field id, carried as the metadata `PARQUET:field_id` of its Arrow field, and so in
every Parquet file. A writer knows columns by name; `conform` is where the one becomes the other. It changes no
value: what can't be kept exactly is refused. The one exception is DOUBLE into FLOAT, which rounds to the nearest
as everywhere else, but is refused where it would overflow.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from leasehold.core.records import Field
from leasehold.core.statements import fold
from leasehold.core.types import Decimal, parse_type
from leasehold.errors import Refused

FIELD_ID_KEY: Final = b"PARQUET:field_id"
"""The metadata key that Arrow, Parquet and Spark agree on."""

SCHEMAS_CACHED: Final = 256
REASON_CHARACTERS_MAX: Final = 300
NAMES_SHOWN: Final = 20

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
    """The Arrow type of a column type spelled as in `core.types`. Raises `Refused` with code BAD_TYPE."""
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


def conform(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """The rows of `batch` in exactly `arrow_schema(fields)`; `batch` itself if it has that schema already.

    Columns are matched by name, ignoring case; missing nullable ones become nulls; a timestamp without a zone is
    UTC. A column whose type is right is not copied. Raises `Refused` with code ROWS_DO_NOT_FIT for anything that
    can't be kept exactly, for nulls where none may be, for unknown or doubled columns, and for damaged buffers (a
    batch may come from the network, and nothing after this looks at them again).
    """
    schema = arrow_schema(fields)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _unfit(f"the batch is not valid Arrow data: {_reason(error)}", "encode the rows again") from error
    if not batch.schema.equals(schema, check_metadata=True):
        batch = _matched(batch, fields, schema)
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise _unfit(
                f"column {field.name!r} is NOT NULL, and {column.null_count} of {len(column)} rows have no value",
                "give every row a value in it",
            )
    return batch


def _matched(batch: pa.RecordBatch, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    places: dict[str, int] = {}
    for place, name in enumerate(batch.schema.names):
        if places.setdefault(fold(name), place) != place:
            raise _unfit(f"column {name!r} is there twice, names ignore case", "leave one of them out")
    columns: list[pa.Array] = []
    for field, wanted in zip(fields, schema.types, strict=True):
        place = places.pop(fold(field.name), None)
        if place is not None:
            columns.append(_fitted(batch.column(place), field, wanted))
        elif field.nullable:
            columns.append(pa.nulls(batch.num_rows, wanted))
        else:
            raise _unfit(f"column {field.name!r} is NOT NULL and missing", "add it to the rows")
    if places:
        unknown = ", ".join(repr(batch.schema.names[place]) for place in list(places.values())[:NAMES_SHOWN])
        known = ", ".join(schema.names[:NAMES_SHOWN]) + (", .." if len(schema) > NAMES_SHOWN else "")
        raise _unfit(
            f"the table has no column {unknown}",
            f"its columns are {known}; leave others out or ALTER TABLE .. ADD COLUMN",
        )
    if not columns:
        return batch.replace_schema_metadata(None)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    try:
        return cast_exactly(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(
            f"column {field.name!r} has type {column.type} and does not fit {field.type}: {_reason(error)}",
            "cast the column before it is written, or widen the table's column",
        ) from error


def cast_exactly(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`column` as type `wanted`, one of those that a table can hold; the same array if it is of that type.

    Raises `pa.ArrowInvalid` where a value would change or the kinds of types don't convert.
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


def _reason(error: pa.ArrowException) -> str:
    return str(error).split("\n", 1)[0][:REASON_CHARACTERS_MAX]


def _unfit(text: str, hint: str) -> Refused:
    return Refused(text, code="ROWS_DO_NOT_FIT", hint=hint)
