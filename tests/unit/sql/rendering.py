"""Renders statements as canonical SQL text, which `parse` reads back as the same statement."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from sqlglot.dialects.spark import Spark

from leasehold.core.ddl.claims import CLUSTER
from leasehold.core.ddl.settings import AUTO, setting_named
from leasehold.core.words.durations import render_duration
from leasehold.core.words.records.principals import Right
from leasehold.core.words.statements import (
    AddColumns,
    AlterCluster,
    AlterDatabase,
    AlterNode,
    AlterProperties,
    AnyStatement,
    CancelProcedure,
    ColumnDefinition,
    Comment,
    Condition,
    CreateDatabase,
    CreateRole,
    CreateTable,
    CreateToken,
    CreateUser,
    CreateView,
    Definition,
    DeleteRows,
    Describe,
    DescribeDatabase,
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropToken,
    DropView,
    Explain,
    GrantRights,
    GrantRole,
    Literal,
    MoveColumn,
    OfPrincipals,
    On,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    Rebalance,
    RenameColumn,
    RenamePrincipal,
    RenameTable,
    RenameView,
    Revoke,
    RevokeCertificate,
    RevokeRole,
    SetCertificate,
    SetDefault,
    SetPassword,
    ShowBuckets,
    ShowCluster,
    ShowCoordinators,
    ShowDatabases,
    ShowGrants,
    ShowHistory,
    ShowNodes,
    ShowPrincipals,
    ShowProcedures,
    ShowProperties,
    ShowRebalance,
    ShowRepairs,
    ShowRevoked,
    ShowTables,
    ShowTokens,
    ShowViews,
    TableName,
    WidenColumn,
)
from leasehold.core.words.types import render_type
from leasehold.sql.front import GRAMMAR

RESERVED: Final = frozenset(word for word in Spark.Tokenizer.KEYWORDS if word.isidentifier()) | frozenset(
    word for grammar in GRAMMAR.values() for word in re.findall(r"\b[A-Z]{2,}\b", grammar)
)
"""Words that may mean something to a parser, and so stand in backquotes where they are names."""
_IF_EXISTS: Final = "IF EXISTS "
_IF_NOT_EXISTS: Final = "IF NOT EXISTS "


def render(statement: AnyStatement) -> str:  # noqa: C901 - one for each member of the union
    """The canonical SQL of a statement that `parse` could have given."""
    match statement:
        case ShowDatabases():
            return "SHOW DATABASES"
        case ShowTables(database=database):
            return "SHOW TABLES" + _after(" IN ", database)
        case ShowViews(database=database):
            return "SHOW VIEWS" + _after(" IN ", database)
        case ShowNodes():
            return "SHOW NODES"
        case ShowCoordinators():
            return "SHOW COORDINATORS"
        case ShowCluster():
            return "SHOW CLUSTER"
        case ShowRebalance():
            return "SHOW REBALANCE"
        case ShowRepairs():
            return "SHOW REPAIRS"
        case ShowRevoked():
            return "SHOW REVOKED CERTIFICATES"
        case ShowProperties(table=table):
            return f"SHOW TBLPROPERTIES {spell_table(table)}"
        case ShowBuckets(table=table):
            return f"SHOW BUCKETS OF {spell_table(table)}"
        case ShowProcedures():
            return "SHOW PROCEDURES"
        case ShowHistory(of=of):
            return "SHOW HISTORY" + ("" if of is None else f" FOR {_claimed(of)}")
        case ShowPrincipals(roles=roles):
            return "SHOW ROLES" if roles else "SHOW USERS"
        case ShowTokens():
            return "SHOW TOKENS"
        case ShowGrants(principal=name, on=on):
            return "SHOW GRANTS" + _after(" FOR ", name) + ("" if on is None else f" ON {_object(on)}")
        case Describe(table=table):
            return f"DESCRIBE TABLE {spell_table(table)}"
        case DescribeDatabase(name=name):
            return f"DESCRIBE DATABASE {spell_name(name)}"
        case Explain(statement=explained):
            return f"EXPLAIN {render(explained)}"
        case CancelProcedure(number=number):
            return f"CANCEL PROCEDURE {number}"
        case _:
            return _definition(statement)


def _definition(statement: Definition) -> str:  # noqa: C901 - one for each member of the union
    match statement:
        case CreateDatabase():
            return _create_database(statement)
        case AlterDatabase(name=name, properties=properties, if_exists=if_exists):
            return f"ALTER DATABASE {spell_name(name)} {_changed('DBPROPERTIES', properties, if_exists)}"
        case DropDatabase(name=name, if_exists=if_exists, cascade=cascade):
            return f"DROP DATABASE {_said(_IF_EXISTS, if_exists)}{spell_name(name)}{_said(' CASCADE', cascade)}"
        case CreateTable():
            return _create_table(statement)
        case DropTable(table=table, if_exists=if_exists, cascade=cascade):
            return f"DROP TABLE {_said(_IF_EXISTS, if_exists)}{spell_table(table)}{_said(' CASCADE', cascade)}"
        case CreateView():
            return _create_view(statement)
        case DropView(view=view, if_exists=if_exists, cascade=cascade):
            return f"DROP VIEW {_said(_IF_EXISTS, if_exists)}{spell_table(view)}{_said(' CASCADE', cascade)}"
        case RenameTable(table=table, to=to, if_exists=if_exists):
            return f"ALTER TABLE {_said(_IF_EXISTS, if_exists)}{spell_table(table)} RENAME TO {spell_table(to)}"
        case RenameView(view=view, to=to, if_exists=if_exists):
            return f"ALTER VIEW {_said(_IF_EXISTS, if_exists)}{spell_table(view)} RENAME TO {spell_table(to)}"
        case Comment(on=OnTable(table), text=text, column=str(column)):
            return f"ALTER TABLE {spell_table(table)} ALTER COLUMN {spell_name(column)} COMMENT {spell_text(text)}"
        case Comment(on=on, text=text):
            return f"COMMENT ON {_object(on)} IS {spell_text(text)}"
        case DeleteRows(table=table, where=where):
            conditions = " AND ".join(map(_condition, where))
            return f"DELETE FROM {spell_table(table)} WHERE {conditions}"
        case AlterNode(node=name, drains=drains):
            return f"ALTER NODE {name} {'DRAIN' if drains else 'UNDRAIN'}"
        case Rebalance(stops=stops):
            return f"ALTER CLUSTER {'STOP ' if stops else ''}REBALANCE"
        case RevokeCertificate(serial=serial, revokes=revokes):
            return f"ALTER CLUSTER {'' if revokes else 'UN'}REVOKE CERTIFICATE '{serial}'"
        case AlterCluster(settings=settings):
            return "ALTER CLUSTER SET " + ", ".join(_setting(name, value) for name, value in sorted(settings.items()))
        case (
            AlterProperties(table=table)
            | AddColumns(table=table)
            | RenameColumn(table=table)
            | DropColumn(table=table)
            | WidenColumn(table=table)
            | SetDefault(table=table)
            | MoveColumn(table=table)
        ):
            return f"ALTER TABLE {spell_table(table)} {_alteration(statement)}"
        case _:
            return _principals(statement)


def _alteration(
    statement: AlterProperties | AddColumns | RenameColumn | DropColumn | WidenColumn | SetDefault | MoveColumn,
) -> str:
    match statement:
        case AlterProperties(properties=properties, ttl_ns=ttl_ns, replication=replicas, min_in_sync=needed):
            ttl = {} if ttl_ns is None else {"ttl": render_duration(ttl_ns) if ttl_ns else None}
            replication = {} if replicas is None else {"replication": str(replicas)}
            min_in_sync = {} if needed is None else {"min_in_sync": str(needed) if needed else None}
            return _changed("TBLPROPERTIES", {**properties, **ttl, **replication, **min_in_sync}, statement.if_exists)
        case AddColumns(columns=(column,), if_not_exists=if_not_exists):
            return f"ADD COLUMN {_said(_IF_NOT_EXISTS, if_not_exists)}{_column(column)}"
        case AddColumns(columns=columns, if_not_exists=if_not_exists):
            return f"ADD COLUMNS {_said(_IF_NOT_EXISTS, if_not_exists)}({_listed(map(_column, columns))})"
        case RenameColumn(old=old, new=new):
            return f"RENAME COLUMN {spell_name(old)} TO {spell_name(new)}"
        case DropColumn(column=name, if_exists=if_exists, cascade=cascade):
            return f"DROP COLUMN {_said(_IF_EXISTS, if_exists)}{spell_name(name)}{_said(' CASCADE', cascade)}"
        case WidenColumn(column=name, type=kind):
            return f"ALTER COLUMN {spell_name(name)} TYPE {render_type(kind)}"
        case SetDefault(column=name, default=default):
            change = "DROP DEFAULT" if default is None else f"SET DEFAULT {spell_literal(default)}"
            return f"ALTER COLUMN {spell_name(name)} {change}"
        case MoveColumn(column=name, after=after):
            return f"ALTER COLUMN {spell_name(name)} " + ("FIRST" if after is None else f"AFTER {spell_name(after)}")
        case _:
            assert_never(statement)


def _principals(statement: OfPrincipals) -> str:
    match statement:
        case CreateUser(name=name, password=password, if_not_exists=if_not_exists):
            return (
                f"CREATE USER {_said(_IF_NOT_EXISTS, if_not_exists)}{spell_name(name)} PASSWORD {spell_text(password)}"
            )
        case SetPassword(name=name, password=password):
            return f"ALTER USER {spell_name(name)} PASSWORD {spell_text(password)}"
        case SetCertificate(name=name, is_on=is_on):
            return f"ALTER USER {spell_name(name)} SET CERTIFICATE {'ON' if is_on else 'OFF'}"
        case CreateToken(name=name, user=user, hash=digest, expires_ns=expires_ns):
            until = "" if expires_ns is None else f" EXPIRES '{render_duration(expires_ns)}'"
            return f"CREATE TOKEN {spell_name(name)} FOR USER {spell_name(user)} HASH '{digest.hex()}'{until}"
        case DropToken(name=name, if_exists=if_exists):
            return f"DROP TOKEN {_said(_IF_EXISTS, if_exists)}{spell_name(name)}"
        case CreateRole(name=name, if_not_exists=if_not_exists):
            return f"CREATE ROLE {_said(_IF_NOT_EXISTS, if_not_exists)}{spell_name(name)}"
        case RenamePrincipal(kind=kind, name=name, to=to):
            return f"ALTER {kind.upper()} {spell_name(name)} RENAME TO {spell_name(to)}"
        case DropPrincipal(kind=kind, name=name, if_exists=if_exists):
            return f"DROP {kind.upper()} {_said(_IF_EXISTS, if_exists)}{spell_name(name)}"
        case GrantRights(rights=rights, on=on, to=name):
            return f"GRANT {_rights(rights)} ON {_object(on)} TO {spell_name(name)}"
        case Revoke(rights=rights, on=on, of=name):
            return f"REVOKE {_rights(rights)} ON {_object(on)} FROM {spell_name(name)}"
        case GrantRole(role=role, user=user):
            return f"GRANT ROLE {spell_name(role)} TO {spell_name(user)}"
        case RevokeRole(role=role, user=user):
            return f"REVOKE ROLE {spell_name(role)} FROM {spell_name(user)}"
        case _:
            assert_never(statement)


# ---------------------------------------------------------------- whole objects


def _create_database(statement: CreateDatabase) -> str:
    text = f"CREATE DATABASE {_said(_IF_NOT_EXISTS, statement.if_not_exists)}{spell_name(statement.name)}"
    text += _comment(statement.comment)
    return text + (f" WITH DBPROPERTIES {_pairs(statement.properties)}" if statement.properties else "")


def _create_table(statement: CreateTable) -> str:
    text = f"CREATE TABLE {_said(_IF_NOT_EXISTS, statement.if_not_exists)}{spell_table(statement.name)}"
    text += f" ({_listed(map(_column, statement.columns))})"
    assert statement.cluster_by is not None or statement.buckets == 1, "only a clustered table has several buckets"
    if statement.cluster_by is not None:
        text += f" CLUSTERED BY ({spell_name(statement.cluster_by)}) INTO {statement.buckets} BUCKETS"
    properties = dict(statement.properties)
    if statement.replication is not None:
        properties["replication"] = str(statement.replication)
    if statement.min_in_sync is not None:
        properties["min_in_sync"] = str(statement.min_in_sync)
    if statement.ttl_ns is not None:
        properties["ttl"] = render_duration(statement.ttl_ns)
    if statement.time_column is not None:
        properties["time_column"] = statement.time_column
    return text + _comment(statement.comment) + (f" TBLPROPERTIES {_pairs(properties)}" if properties else "")


def _create_view(statement: CreateView) -> str:
    text = f"CREATE {_said('OR REPLACE ', statement.or_replace)}VIEW "
    text += f"{_said(_IF_NOT_EXISTS, statement.if_not_exists)}{spell_table(statement.view)}"
    if statement.names:
        text += f" ({_listed(map(spell_name, statement.names))})"
    return f"{text}{_comment(statement.comment)} AS {statement.body}"


# ---------------------------------------------------------------- parts


def _column(column: ColumnDefinition) -> str:
    text = f"{spell_name(column.name)} {render_type(column.type)}{_said(' NOT NULL', not column.nullable)}"
    if column.default is not None:
        text += f" DEFAULT {spell_literal(column.default)}"
    return text + _comment(column.comment)


def _comment(text: str) -> str:
    return f" COMMENT {spell_text(text)}" if text else ""


def _changed(word: str, properties: Mapping[str, str | None], if_exists: bool) -> str:
    kept = {key: value for key, value in properties.items() if value is not None}
    assert properties, "at least one"
    assert len(kept) in {0, len(properties)}, "all are set, or all go"
    if kept:
        return f"SET {word} {_pairs(kept)}"
    return f"UNSET {word} {_said(_IF_EXISTS, if_exists)}({_listed(map(spell_text, sorted(properties)))})"


def _pairs(properties: Mapping[str, str]) -> str:
    return f"({_listed(f'{spell_text(key)} = {spell_text(value)}' for key, value in sorted(properties.items()))})"


def _condition(condition: Condition) -> str:
    return f"{spell_name(condition.column)} {condition.operator} {spell_literal(condition.value)}"


def _setting(name: str, value: int) -> str:
    setting = setting_named(name)
    shown = setting.shown(value)
    return f"{setting.name} = {spell_text(shown) if setting.is_duration or setting.words or shown == AUTO else shown}"


def _rights(rights: tuple[Right, ...]) -> str:
    return "ALL" if rights == tuple(Right) else _listed(rights)


def _object(on: On) -> str:
    match on:
        case OnCluster():
            return "CLUSTER"
        case OnDatabase(name=name):
            return f"DATABASE {spell_name(name)}"
        case OnTable(table=table):
            return f"TABLE {spell_table(table)}"
        case OnView(view=view):
            return f"VIEW {spell_table(view)}"
        case _:
            assert_never(on)


def _claimed(name: str) -> str:
    """An object by the name under which statements claim it (`core.ddl.claims`)."""
    if name == CLUSTER:
        return "CLUSTER"
    kind, called = name.split(" ")
    if kind == "principal":
        return f"USER {spell_name(called)}"
    database, dot, table = called.partition(".")
    return f"TABLE {spell_table(TableName(database, table))}" if dot else f"DATABASE {spell_name(database)}"


def _after(words: str, name: str | None) -> str:
    return "" if name is None else words + spell_name(name)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _said(words: str, said: bool) -> str:
    return words if said else ""


# ---------------------------------------------------------------- names, texts, values


def spell_name(name: str) -> str:
    """A name, in backquotes if it could be taken for something else."""
    return f"`{name}`" if name.upper() in RESERVED else name


def spell_table(table: TableName) -> str:
    """`database.table`."""
    return f"{spell_name(table.database)}.{spell_name(table.table)}"


def spell_text(value: str) -> str:
    """A string in quotes."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spell_literal(literal: Literal) -> str:
    """A value."""
    match literal.kind:
        case "string":
            return spell_text(literal.text)
        case "number":
            return literal.text
        case "boolean":
            return literal.text.upper()
        case "date" | "timestamp":
            return f"{literal.kind.upper()} {spell_text(literal.text)}"
        case "binary":
            return f"X'{literal.text}'"
        case "null":
            return "NULL"
