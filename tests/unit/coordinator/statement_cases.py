"""A case for each kind of statement and each way that it can go: what must be there before, and the statement."""

from typing import NamedTuple, get_args

from leasehold.core.words.records import PrincipalKind, Right
from leasehold.core.words.statements import (
    AddColumns,
    AlterCluster,
    AlterDatabase,
    AlterNode,
    AlterProperties,
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
    DropColumn,
    DropDatabase,
    DropPrincipal,
    DropTable,
    DropToken,
    DropView,
    GrantRights,
    GrantRole,
    Literal,
    MoveColumn,
    OnDatabase,
    OnTable,
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
    TableName,
    WidenColumn,
)
from leasehold.core.words.types import parse_type
from leasehold.limits.units import SECOND_NS

T, U, V, W = (TableName("db", name) for name in "tuvw")
DAY_NS = 86_400 * SECOND_NS


class Case(NamedTuple):
    before: tuple[Definition, ...]
    statement: Definition
    destructive: bool


def column(name, spelled="INT"):
    return ColumnDefinition(name=name, type=parse_type(spelled))


TABLE = CreateTable(
    name=T,
    columns=(column("a"), column("b"), column("at", "TIMESTAMP")),
    time_column="at",
    ttl_ns=2 * DAY_NS,
    cluster_by="a",
    buckets=2,
)
DATABASE = CreateDatabase(name="db")
VIEW = CreateView(view=V, body="SELECT a FROM db.t", reads=(T,))
ON_VIEW = CreateView(view=W, body="SELECT a FROM db.v", reads=(V,))
THERE = (DATABASE, TABLE)
ADMIN = CreateUser(name="admin", password="secret")
USER = CreateUser(name="u", password="other")
ROLE = CreateRole(name="r")
TOKEN = CreateToken(name="k", user="u", hash=bytes(32), expires_ns=DAY_NS)
GRANTED = GrantRights(rights=(Right.SELECT, Right.INSERT), on=OnTable(table=T), to="u")
MEMBER = GrantRole(role="r", user="u")


def additive(statement, *before):
    return Case(before, statement, destructive=False)


def destructive(statement, *before):
    return Case(before, statement, destructive=True)


CASES = {
    "CREATE DATABASE": additive(DATABASE),
    "ALTER DATABASE": additive(AlterDatabase(name="db", properties={"k": "v"}), DATABASE),
    "DROP DATABASE": destructive(DropDatabase(name="db"), DATABASE),
    "DROP DATABASE CASCADE": destructive(DropDatabase(name="db", cascade=True), *THERE, VIEW),
    "CREATE TABLE": additive(TABLE, DATABASE),
    "RENAME TABLE": additive(RenameTable(table=T, to=U), *THERE),
    "DROP TABLE": destructive(DropTable(table=T), *THERE),
    "DROP TABLE CASCADE": destructive(DropTable(table=T, cascade=True), *THERE, VIEW, ON_VIEW),
    "SET TBLPROPERTIES": additive(AlterProperties(table=T, properties={"k": "v"}), *THERE),
    "a longer TTL": additive(AlterProperties(table=T, properties={}, ttl_ns=3 * DAY_NS), *THERE),
    "no TTL": additive(AlterProperties(table=T, properties={}, ttl_ns=0), *THERE),
    "a shorter TTL": destructive(AlterProperties(table=T, properties={}, ttl_ns=DAY_NS), *THERE),
    "ADD COLUMN": additive(AddColumns(table=T, columns=(column("c"),)), *THERE),
    "RENAME COLUMN": additive(RenameColumn(table=T, old="b", new="c"), *THERE),
    "MOVE COLUMN": additive(MoveColumn(table=T, column="b", after=None), *THERE),
    "WIDEN COLUMN": additive(WidenColumn(table=T, column="b", type=parse_type("BIGINT")), *THERE),
    "SET DEFAULT": additive(SetDefault(table=T, column="b", default=Literal("number", "7")), *THERE),
    "DROP COLUMN": destructive(DropColumn(table=T, column="b"), *THERE),
    "COMMENT": additive(Comment(on=OnTable(table=T), text="about"), *THERE),
    "CREATE VIEW": additive(VIEW, *THERE),
    "REPLACE VIEW": additive(
        CreateView(view=V, body="SELECT a, b FROM db.t", reads=(T,), or_replace=True), *THERE, VIEW
    ),
    "RENAME VIEW": additive(RenameView(view=V, to=W), *THERE, VIEW),
    "DROP VIEW": destructive(DropView(view=V), *THERE, VIEW),
    "DROP VIEW CASCADE": destructive(DropView(view=V, cascade=True), *THERE, VIEW, ON_VIEW),
    "DELETE FROM": destructive(
        DeleteRows(table=T, where=(Condition(column="a", operator="=", value=Literal("number", "1")),)), *THERE
    ),
    "CREATE USER": additive(ADMIN),
    "ALTER USER PASSWORD": additive(SetPassword(name="u", password="third"), ADMIN, USER),
    "ALTER USER CERTIFICATE": additive(SetCertificate(name="u", is_on=True), ADMIN, USER),
    "CREATE TOKEN": additive(TOKEN, ADMIN, USER),
    "DROP TOKEN": additive(DropToken(name="k"), ADMIN, USER, TOKEN),
    "CREATE ROLE": additive(ROLE, ADMIN),
    "RENAME USER": additive(RenamePrincipal(kind=PrincipalKind.USER, name="u", to="x"), ADMIN, USER),
    "DROP USER": destructive(DropPrincipal(kind=PrincipalKind.USER, name="u"), ADMIN, USER),
    "DROP ROLE": destructive(DropPrincipal(kind=PrincipalKind.ROLE, name="r"), ADMIN, ROLE),
    "GRANT": additive(GrantRights(rights=(Right.SELECT,), on=OnDatabase(name="db"), to="u"), ADMIN, *THERE, USER),
    "REVOKE": destructive(Revoke(rights=(Right.SELECT,), on=OnTable(table=T), of="u"), ADMIN, *THERE, USER, GRANTED),
    "GRANT ROLE": additive(MEMBER, ADMIN, USER, ROLE),
    "REVOKE ROLE": destructive(RevokeRole(role="r", user="u"), ADMIN, USER, ROLE, MEMBER),
    "ALTER CLUSTER": additive(AlterCluster(settings={"min_in_sync": 2})),
    "ALTER CLUSTER REBALANCE": additive(Rebalance(stops=False)),
    "ALTER CLUSTER REVOKE CERTIFICATE": additive(RevokeCertificate(serial="1f", revokes=True)),
    "ALTER NODE": additive(AlterNode(node="n2", drains=False), AlterNode(node="n2", drains=True)),
}

assert {type(case.statement) for case in CASES.values()} == set(get_args(Definition)), "every kind has a case"
