"""SHOW and DESCRIBE."""

from leasehold.core.ddl import claims
from leasehold.core.words.statements import (
    Describe,
    DescribeDatabase,
    Question,
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
)
from leasehold.sql.cursor import Cursor
from leasehold.sql.principals import read_on

_SHOWN = (
    "DATABASES",
    "TABLES",
    "VIEWS",
    "TBLPROPERTIES",
    "BUCKETS",
    "NODES",
    "COORDINATORS",
    "CLUSTER",
    "REBALANCE",
    "REPAIRS",
    "REVOKED",
    "PROCEDURES",
    "HISTORY",
    "USERS",
    "ROLES",
    "TOKENS",
    "GRANTS",
)


def show(cursor: Cursor) -> Question:  # noqa: C901, PLR0911, PLR0912 - one for each form
    match cursor.choose(*_SHOWN):
        case "DATABASES":
            return ShowDatabases()
        case "TABLES":
            return ShowTables(database=_within(cursor))
        case "VIEWS":
            return ShowViews(database=_within(cursor))
        case "TBLPROPERTIES":
            return ShowProperties(table=cursor.table())
        case "BUCKETS":
            cursor.expect("OF")
            return ShowBuckets(table=cursor.table())
        case "NODES":
            return ShowNodes()
        case "COORDINATORS":
            return ShowCoordinators()
        case "CLUSTER":
            return ShowCluster()
        case "REBALANCE":
            return ShowRebalance()
        case "REPAIRS":
            return ShowRepairs()
        case "REVOKED":
            cursor.expect("CERTIFICATES")
            return ShowRevoked()
        case "PROCEDURES":
            return ShowProcedures()
        case "HISTORY":
            return ShowHistory(of=_object(cursor) if cursor.accept("FOR") else None)
        case "USERS":
            return ShowPrincipals(roles=False)
        case "ROLES":
            return ShowPrincipals(roles=True)
        case "TOKENS":
            return ShowTokens()
        case _:
            name = cursor.principal() if cursor.accept("FOR") else None
            return ShowGrants(principal=name, on=read_on(cursor) if cursor.form else None)


def describe(cursor: Cursor) -> Question:
    if cursor.form in {"DATABASE", "SCHEMA"} and cursor.ahead(1) != ".":
        cursor.token()
        return DescribeDatabase(name=cursor.database())
    if cursor.form in {"EXTENDED", "FORMATTED"} and cursor.ahead(1) != ".":
        raise cursor.unsupported()
    if cursor.form == "TABLE" and cursor.ahead(1) != ".":
        cursor.token()
    return Describe(table=cursor.table())


def _within(cursor: Cursor) -> str | None:
    return cursor.database() if cursor.accept("IN") or cursor.accept("FROM") else None


def _object(cursor: Cursor) -> str:
    """The name of an object in the claims of statements."""
    match cursor.choose("DATABASE", "SCHEMA", "TABLE", "VIEW", "USER", "ROLE", "CLUSTER"):
        case "CLUSTER":
            return claims.CLUSTER
        case "TABLE" | "VIEW":
            return claims.table_name(cursor.table())
        case "USER" | "ROLE":
            return claims.principal_name(cursor.principal())
        case _:
            return claims.database_name(cursor.database())
