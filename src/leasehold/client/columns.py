"""Columns by name."""

from leasehold.core.words.nearest import nearest
from leasehold.core.words.records import Field
from leasehold.core.words.statements import fold
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound


def field_named(column: str, fields: tuple[Field, ...], name: str) -> Field:
    """The column of the table `name`, in any case. Raises `NotFound` with code NO_SUCH_COLUMN."""
    for field in fields:
        if fold(field.name) == fold(column):
            return field
    known = ", ".join(field.name for field in fields)
    meant = nearest(column, (field.name for field in fields))
    hint = f"{meant} it has {known}".lstrip()[:500]
    raise NotFound(f"table {name} has no column {column}", code=ErrorCode.NO_SUCH_COLUMN, hint=hint)
