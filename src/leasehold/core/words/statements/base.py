"""Words that several statements share: names, columns, literals, conditions."""

from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

from leasehold.core.words.types import ColumnType


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all statements."""


class TableName(msgspec.Struct, frozen=True):
    """`database.table`, both validated identifiers; of a table or a view."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class Literal(msgspec.Struct, frozen=True):
    """A value as it was written; what it means depends on the column (`core.words.literals`).

    `text` is without quotes and signs of type: `-1.5`, `true`, the characters of a string; empty for NULL.
    """

    kind: OneOf["string", "number", "boolean", "date", "timestamp", "binary", "null"]
    text: str


class ColumnDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A column as a statement describes it."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: Literal | None = None
    comment: str = ""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """`column operator value`."""

    column: str
    operator: OneOf["=", "<", "<=", ">", ">="]
    value: Literal


class OnCluster(msgspec.Struct, frozen=True, tag=True):
    """`ON CLUSTER`."""


class OnDatabase(msgspec.Struct, frozen=True, tag=True):
    """`ON DATABASE d`."""

    name: str


class OnTable(msgspec.Struct, frozen=True, tag=True):
    """`ON TABLE d.t`."""

    table: TableName


class OnView(msgspec.Struct, frozen=True, tag=True):
    """`ON VIEW d.v`."""

    view: TableName


On: TypeAlias = OnCluster | OnDatabase | OnTable | OnView
"""What a right is granted on, or a comment written on."""


def fold(name: str) -> str:
    """The form under which two spellings of one name are equal. Names are ASCII; other text equals itself alone."""
    return name.lower() if name.isascii() else name
