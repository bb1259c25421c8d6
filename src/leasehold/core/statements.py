"""What a person can ask for in SQL: a closed union of intents, independent of the parser.

Names keep the case they were written in and are unique regardless of it (`fold`).
"""

from typing import TypeAlias

import msgspec

from leasehold.core.types import ColumnType


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all statements."""


class TableName(msgspec.Struct, frozen=True):
    """`database.table`, both validated identifiers."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class ColumnDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A column as a statement describes it."""

    name: str
    type: ColumnType
    nullable: bool = True


class CreateDatabase(Statement, frozen=True, kw_only=True):
    """`CREATE DATABASE [IF NOT EXISTS] name`."""

    name: str
    if_not_exists: bool = False


class DropDatabase(Statement, frozen=True, kw_only=True):
    """`DROP DATABASE [IF EXISTS] name`; refused while it holds tables."""

    name: str
    if_exists: bool = False


class CreateTable(Statement, frozen=True, kw_only=True):
    """`CREATE TABLE [IF NOT EXISTS] db.t (..) [CLUSTERED BY (c) INTO n BUCKETS] [TBLPROPERTIES (..)]`.

    `replication` None means the cluster's default. `properties` holds the keys that mean nothing to us.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool = False
    cluster_by: str | None = None
    buckets: int = 1
    replication: int | None = None
    ttl_ns: int | None = None
    time_column: str | None = None
    properties: dict[str, str] = {}


class AddColumns(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE db.t ADD COLUMN c type` or `ADD COLUMNS (c type, ..)`; new columns are nullable."""

    table: TableName
    columns: tuple[ColumnDefinition, ...]


class RenameColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE db.t RENAME COLUMN a TO b`."""

    table: TableName
    old: str
    new: str


class DropColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE db.t DROP COLUMN c`."""

    table: TableName
    column: str


class DropTable(Statement, frozen=True, kw_only=True):
    """`DROP TABLE [IF EXISTS] db.t`."""

    table: TableName
    if_exists: bool = False


class AlterCluster(Statement, frozen=True, kw_only=True):
    """`ALTER CLUSTER SET setting = value, ..`: values by the settings' names, within their ranges (`core/settings.py`);
    durations in nanoseconds."""

    settings: dict[str, int]


class ShowDatabases(Statement, frozen=True, kw_only=True):
    """`SHOW DATABASES`."""


class ShowTables(Statement, frozen=True, kw_only=True):
    """`SHOW TABLES [IN db]`; without a database, of all."""

    database: str | None = None


class ShowNodes(Statement, frozen=True, kw_only=True):
    """`SHOW NODES`."""


class ShowCluster(Statement, frozen=True, kw_only=True):
    """`SHOW CLUSTER`: the settings."""


class Describe(Statement, frozen=True, kw_only=True):
    """`DESCRIBE [TABLE] db.t`."""

    table: TableName


Definition: TypeAlias = (
    CreateDatabase | DropDatabase | CreateTable | AddColumns | RenameColumn | DropColumn | DropTable | AlterCluster
)
"""Statements that change the catalog, each run as a procedure."""

Question: TypeAlias = ShowDatabases | ShowTables | ShowNodes | ShowCluster | Describe
"""Statements that only read it."""

AnyStatement: TypeAlias = Definition | Question


def fold(name: str) -> str:
    """The form under which two spellings of one name are equal."""
    return name.casefold()
