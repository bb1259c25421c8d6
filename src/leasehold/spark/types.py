"""Spark's column types and schemas for those of `core.words.types`.

TIMESTAMP is Spark's TimestampType, an instant: the session's time zone only decides how it is shown. A TIMESTAMP_NTZ is
not an instant, so it can't be written without a cast to a time zone.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.core.words.types import Decimal, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.storage.schema import CAST_ERRORS, arrow_type, cast_exactly

NAMES_SHOWN: Final = 20

_PLAIN: Final[dict[str, type[DataType]]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": ByteType,
    "SMALLINT": ShortType,
    "INT": IntegerType,
    "BIGINT": LongType,
    "FLOAT": FloatType,
    "DOUBLE": DoubleType,
    "STRING": StringType,
    "BINARY": BinaryType,
    "DATE": DateType,
    "TIMESTAMP": TimestampType,
}


def spark_type(text: str) -> DataType:
    """The Spark type of a column type spelled as in `core.words.types`. Raises `Refused` with code BAD_TYPE."""
    column = parse_type(text)
    if isinstance(column, Decimal):
        return DecimalType(column.precision, column.scale)
    return _PLAIN[column.name]()


def spark_schema(fields: Iterable[Field]) -> StructType:
    """The Spark schema of `fields`, in their order."""
    return StructType([StructField(one.name, spark_type(one.type), one.nullable) for one in fields])


def spelling(kind: DataType) -> str | None:
    """How `core.words.types` spells a Spark type; None for one that no column can have."""
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return next((name for name, known in _PLAIN.items() if isinstance(kind, known)), None)


def select_fields(names: Iterable[str], fields: Sequence[Field], *, table: str) -> tuple[Field, ...]:
    """The fields with these names, in that order. Raises `NotFound` with the unknown names, `Refused` for doubles."""
    by_name = {fold(one.name): one for one in fields}
    wanted = list(names)
    unknown = [name for name in wanted if fold(name) not in by_name]
    if unknown:
        raise NotFound(
            f"{table} has no column {listed(unknown)}",
            hint=f"{_columns(fields)}; if the table was altered, load or attach it again",
        )
    chosen = tuple(by_name[fold(name)] for name in wanted)
    if len({one.id for one in chosen}) != len(chosen):
        raise Refused(
            f"a column of {table} is asked for twice", code=ErrorCode.BAD_SCHEMA, hint="name each column once"
        )
    return chosen


def check_readable(declared: StructType, fields: Sequence[Field], *, table: str) -> None:
    """Checks that rows of `fields` fit the `declared` schema of a DataFrame, which has one column per field.

    Raises `Refused` with code BAD_SCHEMA and lists every column whose type differs, or which may hold nulls where
    none are declared.
    """
    problems: list[str] = []
    for column, field in zip(declared.fields, fields, strict=True):
        if spelling(column.dataType) != field.type:
            problems.append(f"{column.name} is {field.type} by now, not {column.dataType.simpleString()}")
        elif field.nullable and not column.nullable:
            problems.append(f"{column.name} may hold nulls")
    if problems:
        raise Refused(
            f"{table} is not as it was loaded: {'; '.join(problems[:NAMES_SHOWN])}",
            code=ErrorCode.BAD_SCHEMA,
            hint="load it again; a .schema(..) needs the types of the table; cast the columns afterwards",
        )


def check_writable(rows: StructType, fields: Sequence[Field], *, table: str) -> None:
    """Checks that rows of this schema can go into a table of `fields`, as far as a schema can tell.

    Columns are matched by name, ignoring case. Values are checked when they are written, such as a BIGINT in an INT
    column or a null in a NOT NULL one. Raises `Refused` with code ROWS_DO_NOT_FIT and lists every problem.
    """
    by_name = {fold(one.name): one for one in fields}
    problems: list[str] = []
    seen: set[str] = set()
    for column in rows.fields:
        name = fold(column.name)
        field = by_name.get(name)
        if name in seen:
            problems.append(f"{column.name} occurs twice")
        elif field is None:
            problems.append(f"the table has no column {column.name}")
        elif not _convertible(column.dataType, field):
            problems.append(f"{column.name} is {column.dataType.simpleString()} where the table has {field.type}")
        seen.add(name)
    required = (one for one in fields if not one.nullable and one.default is None)
    missing = [one.name for one in required if fold(one.name) not in seen]
    problems.extend(f"{name} is NOT NULL and missing" for name in missing)
    if problems:
        raise Refused(
            f"the rows do not fit {table}: {'; '.join(problems[:NAMES_SHOWN])}",
            code=ErrorCode.ROWS_DO_NOT_FIT,
            hint=f"select and cast the columns before the write; {_columns(fields)}",
        )


def listed(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    return ", ".join(names[:NAMES_SHOWN]) + (", .." if len(names) > NAMES_SHOWN else "")


def _convertible(kind: DataType, field: Field) -> bool:
    """Whether values of a Spark type may go into a column if they fit exactly."""
    if isinstance(kind, NullType):
        return True
    spelled = spelling(kind)
    if spelled is None:
        return False
    try:
        cast_exactly(pa.array([], arrow_type(spelled)), arrow_type(field.type))
    except CAST_ERRORS:
        return False
    return True


def _columns(fields: Sequence[Field]) -> str:
    return "its columns are " + listed([f"{one.name} {one.type}" for one in fields])
