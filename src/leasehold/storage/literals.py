"""Values of records as Arrow has them: a column's first value, its default, what a DELETE compares with."""

from decimal import Decimal, InvalidOperation

import pyarrow as pa

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.storage.schema import TIMESTAMP, arrow_type


def scalar(text: str | None, type_text: str) -> pa.Scalar:
    """The Arrow scalar of a canonical literal (`core.words.literals`) of a column type; None is NULL.

    Raises `Refused` with code BAD_VALUE for a text that is no literal of the type.
    """
    kind = arrow_type(type_text)
    if text is None:
        return pa.scalar(None, kind)
    try:
        return _value(text, kind)
    except (ValueError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise Refused(
            f"{text[:100]!r} is no value of a {type_text} column", code=ErrorCode.BAD_VALUE, hint="upgrade the client"
        ) from error


def column_of(text: str | None, type_text: str, rows: int) -> pa.Array:
    """A column that has the value in each of its `rows`."""
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
        return pa.scalar(Decimal(text), kind)
    if is_a.is_binary(kind):
        return pa.scalar(bytes.fromhex(text), kind)
    if is_a.is_date(kind):
        return pa.scalar(int(text), pa.int32()).cast(kind)
    if is_a.is_timestamp(kind):
        return pa.scalar(int(text), pa.int64()).cast(TIMESTAMP)
    return pa.scalar(text, kind)
