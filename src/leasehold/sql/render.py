"""Statements to SQL text: the one canonical spelling, which `parse` reads back as the same statement."""

from collections.abc import Mapping
from typing import Final, assert_never

from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from leasehold.core.durations import render_duration
from leasehold.core.settings import setting_named
from leasehold.core.statements import (
    AddColumns,
    AlterCluster,
    AnyStatement,
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    Describe,
    DropColumn,
    DropDatabase,
    DropTable,
    RenameColumn,
    ShowCluster,
    ShowDatabases,
    ShowNodes,
    ShowTables,
    TableName,
)
from leasehold.core.types import render_type

_QUOTED: Final = frozenset(
    word.upper()
    for words in (
        Spark.Tokenizer.KEYWORDS,
        SparkParser.ALTER_PARSERS,
        SparkParser.CONSTRAINT_PARSERS,
        SparkParser.FUNCTION_PARSERS,
        SparkParser.FUNCTIONS,
        SparkParser.NO_PAREN_FUNCTION_PARSERS,
        SparkParser.PROPERTY_PARSERS,
        ("BUCKETS", "IF", "INTO", "ONLY", "TABLES", "TBLPROPERTIES", "TO", "WITH"),
    )
    for word in words
)
"""Words that may mean something to a parser, and so stand in backquotes where they are names."""


def render(statement: AnyStatement) -> str:  # noqa: C901, PLR0911 - one for each member of the union
    """The canonical SQL of a statement that `parse` could have given."""
    match statement:
        case CreateDatabase(name=name, if_not_exists=if_not_exists):
            return f"CREATE DATABASE {_if('NOT EXISTS', if_not_exists)}{_name(name)}"
        case DropDatabase(name=name, if_exists=if_exists):
            return f"DROP DATABASE {_if('EXISTS', if_exists)}{_name(name)}"
        case CreateTable():
            return _create_table(statement)
        case AddColumns(table=table, columns=(column,)):
            return f"ALTER TABLE {_table(table)} ADD COLUMN {_column(column)}"
        case AddColumns(table=table, columns=columns):
            return f"ALTER TABLE {_table(table)} ADD COLUMNS ({', '.join(map(_column, columns))})"
        case RenameColumn(table=table, old=old, new=new):
            return f"ALTER TABLE {_table(table)} RENAME COLUMN {_name(old)} TO {_name(new)}"
        case DropColumn(table=table, column=column):
            return f"ALTER TABLE {_table(table)} DROP COLUMN {_name(column)}"
        case DropTable(table=table, if_exists=if_exists):
            return f"DROP TABLE {_if('EXISTS', if_exists)}{_table(table)}"
        case AlterCluster(settings=settings):
            return "ALTER CLUSTER SET " + ", ".join(_setting(name, value) for name, value in sorted(settings.items()))
        case ShowDatabases():
            return "SHOW DATABASES"
        case ShowTables(database=database):
            return "SHOW TABLES" if database is None else f"SHOW TABLES IN {_name(database)}"
        case ShowNodes():
            return "SHOW NODES"
        case ShowCluster():
            return "SHOW CLUSTER"
        case Describe(table=table):
            return f"DESCRIBE TABLE {_table(table)}"
        case _:
            assert_never(statement)


def _create_table(statement: CreateTable) -> str:
    columns = ", ".join(map(_column, statement.columns))
    text = f"CREATE TABLE {_if('NOT EXISTS', statement.if_not_exists)}{_table(statement.name)} ({columns})"
    assert statement.cluster_by is not None or statement.buckets == 1, "only a clustered table has several buckets"
    if statement.cluster_by is not None:
        text += f" CLUSTERED BY ({_name(statement.cluster_by)}) INTO {statement.buckets} BUCKETS"
    properties = dict(statement.properties)
    if statement.replication is not None:
        properties["replication"] = str(statement.replication)
    if statement.ttl_ns is not None:
        properties["ttl"] = render_duration(statement.ttl_ns)
    if statement.time_column is not None:
        properties["time_column"] = statement.time_column
    return text + _properties(properties)


def _properties(properties: Mapping[str, str]) -> str:
    if not properties:
        return ""
    pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(properties.items()))
    return f" TBLPROPERTIES ({pairs})"


def _setting(name: str, value: int) -> str:
    setting = setting_named(name)
    shown = setting.shown(value)
    return f"{setting.name} = {_text(shown) if setting.is_duration else shown}"


def _column(column: ColumnDefinition) -> str:
    return f"{_name(column.name)} {render_type(column.type)}{'' if column.nullable else ' NOT NULL'}"


def _table(table: TableName) -> str:
    return f"{_name(table.database)}.{_name(table.table)}"


def _name(name: str) -> str:
    return f"`{name}`" if name.upper() in _QUOTED else name


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _if(what: str, said: bool) -> str:
    return f"IF {what} " if said else ""
