"""Databases, tables, columns, views and rows: what a person can do to them."""

import msgspec

from leasehold.core.words.statements.base import (
    ColumnDefinition,
    Condition,
    Literal,
    OnDatabase,
    OnTable,
    OnView,
    Statement,
    TableName,
)
from leasehold.core.words.types import ColumnType


class CreateDatabase(Statement, frozen=True, kw_only=True):
    """`CREATE DATABASE [IF NOT EXISTS] d [COMMENT 'text'] [WITH DBPROPERTIES ('key' = 'value', ..)]`."""

    name: str
    if_not_exists: bool = False
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class AlterDatabase(Statement, frozen=True, kw_only=True):
    """`ALTER DATABASE d SET DBPROPERTIES ('key' = 'value', ..)` or `UNSET DBPROPERTIES [IF EXISTS] ('key', ..)`."""

    name: str
    properties: dict[str, str | None]
    """None takes a property away."""
    if_exists: bool = False


class DropDatabase(Statement, frozen=True, kw_only=True):
    """`DROP DATABASE [IF EXISTS] d [CASCADE]`; without CASCADE refused while it holds tables or views."""

    name: str
    if_exists: bool = False
    cascade: bool = False


class CreateTable(Statement, frozen=True, kw_only=True):
    """`CREATE TABLE [IF NOT EXISTS] d.t (..) [CLUSTERED BY (c) INTO n BUCKETS] [COMMENT ..] [TBLPROPERTIES (..)]`.

    `replication` and `min_in_sync` None mean the cluster's default. `properties` has the keys that mean nothing to us.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool = False
    cluster_by: str | None = None
    buckets: int = 1
    replication: int | None = None
    min_in_sync: int | None = None
    ttl_ns: int | None = None
    time_column: str | None = None
    comment: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class RenameTable(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t RENAME TO d.u`, within its database."""

    table: TableName
    to: TableName
    if_exists: bool = False


class AlterProperties(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t SET TBLPROPERTIES (..)` or `UNSET TBLPROPERTIES [IF EXISTS] (..)`; TTL and replication are some.

    `properties` has the other keys, None to take one away; `ttl_ns` is the new TTL, 0 takes it away, None leaves it;
    `replication` is the new number of replicas, None leaves it; `min_in_sync` is new likewise, 0 takes it away.
    """

    table: TableName
    properties: dict[str, str | None]
    ttl_ns: int | None = None
    replication: int | None = None
    min_in_sync: int | None = None
    if_exists: bool = False


class AddColumns(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t ADD COLUMN [IF NOT EXISTS] c type ..` or `ADD COLUMNS (c type .., ..)`.

    A column that may not be NULL needs a default, for the rows that are there.
    """

    table: TableName
    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool = False


class RenameColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t RENAME COLUMN a TO b`."""

    table: TableName
    old: str
    new: str


class MoveColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t ALTER COLUMN c FIRST` (`after` None) or `AFTER b`."""

    table: TableName
    column: str
    after: str | None


class WidenColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t ALTER COLUMN c TYPE type`; only to a type that holds all values of the old one."""

    table: TableName
    column: str
    type: ColumnType


class SetDefault(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t ALTER COLUMN c SET DEFAULT literal`, or `DROP DEFAULT` (None)."""

    table: TableName
    column: str
    default: Literal | None


class DropColumn(Statement, frozen=True, kw_only=True):
    """`ALTER TABLE d.t DROP COLUMN [IF EXISTS] c [CASCADE]`; with CASCADE the views that read it go too."""

    table: TableName
    column: str
    if_exists: bool = False
    cascade: bool = False


class DropTable(Statement, frozen=True, kw_only=True):
    """`DROP TABLE [IF EXISTS] d.t [CASCADE]`; with CASCADE the views that read it go too."""

    table: TableName
    if_exists: bool = False
    cascade: bool = False


class Comment(Statement, frozen=True, kw_only=True):
    """`COMMENT ON DATABASE d | TABLE d.t | VIEW d.v IS 'text'` or `ALTER TABLE d.t ALTER COLUMN c COMMENT 'text'`.

    `column` goes with a table only; an empty text takes the comment away.
    """

    on: OnDatabase | OnTable | OnView
    text: str
    column: str | None = None


class CreateView(Statement, frozen=True, kw_only=True):
    """`CREATE [OR REPLACE] VIEW [IF NOT EXISTS] d.v [(name, ..)] [COMMENT 'text'] AS SELECT ..`.

    `body` is the SELECT in canonical text, `reads` the tables and views that it names, `names` what its columns are to
    be called, empty for as they come.
    """

    view: TableName
    body: str
    reads: tuple[TableName, ...]
    names: tuple[str, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str = ""


class RenameView(Statement, frozen=True, kw_only=True):
    """`ALTER VIEW d.v RENAME TO d.w`, within its database."""

    view: TableName
    to: TableName
    if_exists: bool = False


class DropView(Statement, frozen=True, kw_only=True):
    """`DROP VIEW [IF EXISTS] d.v [CASCADE]`; with CASCADE the views that read it go too."""

    view: TableName
    if_exists: bool = False
    cascade: bool = False


class DeleteRows(Statement, frozen=True, kw_only=True):
    """`DELETE FROM d.t WHERE c = value AND ..`: rows that fulfil all conditions."""

    table: TableName
    where: tuple[Condition, ...]
