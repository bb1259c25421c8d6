"""Makes the rows of a writer fit a table.

A client's rows have columns by name. `conform` gives them the field ids and the defaults of the table as the client
looked it up. A node gets rows with field ids, and `realign` fits them to the table as it is by then, renamed, reordered
or widened. A column that the writer did not know is left out of the file, and reads as its first value. No value
changes: what can't be kept exactly is refused.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from leasehold.core.catalog.catalog import live_fields
from leasehold.core.words.records import Field, TableRecord
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FieldId
from leasehold.limits.segments import SEGMENT_ROWS_MAX
from leasehold.storage.schema import CAST_ERRORS, arrow_schema, cast_exactly, column_of, field_number, is_plain

REASON_CHARACTERS_MAX: Final = 300
NAMES_SHOWN: Final = 20
CAST_VALUE_BYTES: Final = 32
"""The most that a value of fixed width takes while it is cast: an integer goes through a wide decimal."""
CAST_BYTES_MAX: Final = 256 * 1024


def conform(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """The rows of `batch` in exactly `arrow_schema(fields)`; `batch` itself if it has that schema already.

    Columns are matched by name, ignoring case; missing ones get their default, null where they have none; a timestamp
    without a zone is UTC. A column whose type is right is not copied. Raises `Refused` with code ROWS_DO_NOT_FIT for
    anything that can't be kept exactly, for nulls where none may be, for unknown or doubled columns, and for damaged
    buffers.
    """
    schema = arrow_schema(fields)
    check_valid(batch)
    if not batch.schema.equals(schema, check_metadata=True):
        batch = _matched(batch, fields, schema)
    _check_nulls(batch)
    return batch


def _matched(batch: pa.RecordBatch, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    places: dict[str, int] = {}
    for place, name in enumerate(batch.schema.names):
        if places.setdefault(fold(name), place) != place:
            raise _unfit(f"column {name!r} occurs twice; names ignore case", "leave one of them out")
    columns: list[pa.Array] = []
    for field, wanted in zip(fields, schema.types, strict=True):
        place = places.pop(fold(field.name), None)
        if place is not None:
            columns.append(_fitted(batch.column(place), field, wanted))
        elif field.nullable or field.default is not None:
            columns.append(column_of(field.default, field.type, batch.num_rows))
        else:
            raise _missing(field)
    if places:
        unknown = ", ".join(repr(batch.schema.names[place]) for place in list(places.values())[:NAMES_SHOWN])
        known = ", ".join(schema.names[:NAMES_SHOWN]) + (", .." if len(schema) > NAMES_SHOWN else "")
        raise _unfit(
            f"the table has no column {unknown}",
            f"its columns are {known}; leave the others out, or add them with ALTER TABLE .. ADD COLUMN",
        )
    if not columns:
        return batch.replace_schema_metadata(None)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written_fields(schema: pa.Schema, table: TableRecord) -> tuple[Field, ...]:
    """The live columns of `table` that rows of `schema` have, in the table's order.

    Raises `Refused`: SCHEMA_CHANGED if a column was dropped since the writer looked, ROWS_DO_NOT_FIT for columns
    without a field id, doubled ones and those of a type that no table has, and where a column is missing that is NOT
    NULL and has no first value.
    """
    numbers = [field_number(one) for one in schema]
    fields = live_fields(table)
    if None in numbers or len(set(numbers)) != len(numbers):
        raise _unfit("the columns have no field ids", "look the table up and write the rows again")
    for one in schema:
        if not is_plain(one.type):
            raise _unfit(
                f"column {one.name[:100]!r} has type {str(one.type)[:100]}", "send the column in the table's type"
            )
    gone = [one.name for one, number in zip(schema, numbers, strict=True) if all(number != f.id for f in fields)]
    if gone:
        raise Refused(
            f"column {gone[0][:100]!r} of table {table.name} was dropped",
            code=ErrorCode.SCHEMA_CHANGED,
            hint="write the rows again without it",
        )
    written = tuple(field for field in fields if field.id in numbers)
    for field in fields:
        if field not in written and not field.nullable and field.initial is None:
            raise _missing(field)
    return written


def rows_at_once(schema: pa.Schema, fields: Sequence[Field]) -> int:
    """How many rows of `schema`, which has the ids of just these `fields`, to give to `realign` at a time. A value may
    take CAST_VALUE_BYTES while it is cast, and a batch of small ones in memory may have millions of them."""
    kinds = zip(fields, arrow_schema(fields).types, strict=True)
    wanted: dict[FieldId | None, pa.DataType] = {one.id: kind for one, kind in kinds}
    cast = sum(one.type != wanted.get(field_number(one)) for one in schema)
    return max(1, CAST_BYTES_MAX // (CAST_VALUE_BYTES * cast)) if cast else SEGMENT_ROWS_MAX


def realign(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """The rows of `batch`, whose columns have the ids of just these `fields`, in exactly `arrow_schema(fields)`. Raises
    as `conform`, but its buffers were checked (`check_valid`)."""
    schema = arrow_schema(fields)
    if not batch.schema.equals(schema, check_metadata=True):
        columns = {field_number(one): column for one, column in zip(batch.schema, batch.columns, strict=True)}
        fitted = [_fitted(columns[one.id], one, wanted) for one, wanted in zip(fields, schema.types, strict=True)]
        batch = pa.RecordBatch.from_arrays(fitted, schema=schema)
    _check_nulls(batch)
    return batch


def check_valid(batch: pa.RecordBatch) -> None:
    """Raises `Refused` with code ROWS_DO_NOT_FIT for damaged buffers, which Arrow can't even slice."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _unfit(f"the batch is not valid Arrow data: {_reason(error)}", "encode the rows again") from error


def _check_nulls(batch: pa.RecordBatch) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise _unfit(
                f"column {field.name!r} is NOT NULL, and {column.null_count} of {len(column)} rows have no value",
                "give every row a value in it",
            )


def _fitted(column: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    try:
        return cast_exactly(column, wanted)
    except CAST_ERRORS as error:
        raise _unfit(
            f"column {field.name!r} has type {column.type} and does not fit {field.type}: {_reason(error)}",
            "cast the column before it is written, or widen the table's column",
        ) from error


def _missing(field: Field) -> Refused:
    return _unfit(f"column {field.name!r} is NOT NULL and missing", "add it to the rows")


def _reason(error: pa.ArrowException) -> str:
    return str(error).split("\n", 1)[0][:REASON_CHARACTERS_MAX]


def _unfit(text: str, hint: str) -> Refused:
    return Refused(text, code=ErrorCode.ROWS_DO_NOT_FIT, hint=hint)
