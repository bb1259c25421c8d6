"""Claims: the names on which statements wait for each other."""

import pytest

from leasehold.core.ddl.claims import claims
from leasehold.core.words.records import Claim, PrincipalKind, Right
from leasehold.core.words.statements import (
    AlterCluster,
    AlterDatabase,
    AlterNode,
    Comment,
    Condition,
    CreateRole,
    CreateToken,
    CreateUser,
    CreateView,
    DeleteRows,
    DropPrincipal,
    DropToken,
    DropView,
    GrantRights,
    GrantRole,
    Literal,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    Rebalance,
    RenamePrincipal,
    RenameView,
    Revoke,
    RevokeCertificate,
    RevokeRole,
    SetCertificate,
    SetPassword,
    TableName,
)
from tests.unit.core.catalog_words import (
    add,
    alter,
    create_database,
    create_table,
    drop_column,
    drop_database,
    drop_table,
    move,
    rename,
    rename_table,
    set_default,
    widen,
)

ALONE, WITH_OTHERS = Claim.EXCLUSIVE, Claim.SHARED
T, V, W = TableName("db", "t"), TableName("Db", "V"), TableName("db", "w")
ONE_TABLE = {"database db": WITH_OTHERS, "table db.t": ALONE}
DELETE = DeleteRows(table=T, where=(Condition(column="a", operator="=", value=Literal("number", "1")),))


@pytest.mark.parametrize(
    "statement",
    [
        create_table("T"),
        drop_table(),
        alter(owner="me"),
        add("x"),
        rename("a", "b"),
        move("a"),
        widen("a", "BIGINT"),
        set_default("a", None),
        drop_column("a", database="DB"),
        DELETE,
        Comment(on=OnTable(table=T), text="x"),
        Comment(on=OnTable(table=T), text="x", column="a"),
    ],
)
def test_a_table_is_claimed_alone_and_its_database_with_others(statement):
    assert claims(statement) == ONE_TABLE


@pytest.mark.parametrize(
    "statement",
    [
        create_database("DB"),
        drop_database("db"),
        AlterDatabase(name="dB", properties={}),
        Comment(on=OnDatabase(name="db"), text="x"),
    ],
)
def test_a_database_is_claimed_alone(statement):
    assert claims(statement) == {"database db": ALONE}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (rename_table("t", "U"), {**ONE_TABLE, "table db.u": ALONE}),
        (drop_table(cascade=True), {**ONE_TABLE, "views": ALONE}),
        (drop_column("a", cascade=True), {**ONE_TABLE, "views": ALONE}),
        (drop_database(cascade=True), {"database db": ALONE, "views": ALONE}),
        (
            CreateView(view=V, body="SELECT 1", reads=(T, TableName("e", "x"))),
            {
                "database db": WITH_OTHERS,
                "database e": WITH_OTHERS,
                "table db.t": WITH_OTHERS,
                "table e.x": WITH_OTHERS,
                "table db.v": ALONE,
                "views": WITH_OTHERS,
            },
        ),
        (
            CreateView(view=V, body="SELECT 1", reads=(V,)),
            {"database db": WITH_OTHERS, "table db.v": ALONE, "views": WITH_OTHERS},
        ),
        (
            RenameView(view=V, to=W),
            {"database db": WITH_OTHERS, "table db.v": ALONE, "table db.w": ALONE, "views": WITH_OTHERS},
        ),
        (DropView(view=V), {"database db": WITH_OTHERS, "table db.v": ALONE, "views": WITH_OTHERS}),
        (DropView(view=V, cascade=True), {"database db": WITH_OTHERS, "table db.v": ALONE, "views": ALONE}),
        (
            Comment(on=OnView(view=V), text="x"),
            {"database db": WITH_OTHERS, "table db.v": ALONE, "views": WITH_OTHERS},
        ),
        (AlterCluster(settings={}), {"cluster": ALONE}),
        (Rebalance(stops=True), {"cluster": ALONE}),
        (RevokeCertificate(serial="1f", revokes=True), {"cluster": ALONE}),
        (AlterNode(node="n", drains=True), {"cluster": ALONE}),
        (CreateUser(name="Ann", password="x"), {"principal ann": ALONE}),
        (SetPassword(name="ann", password="x"), {"principal ann": ALONE}),
        (SetCertificate(name="Ann", is_on=True), {"principal ann": ALONE}),
        (CreateToken(name="T", user="Ann", hash=b"h"), {"token t": ALONE, "principal ann": WITH_OTHERS}),
        (DropToken(name="T"), {"token t": ALONE}),
        (CreateRole(name="R"), {"principal r": ALONE}),
        (DropPrincipal(kind=PrincipalKind.ROLE, name="r"), {"principal r": ALONE}),
        (
            RenamePrincipal(kind=PrincipalKind.USER, name="ann", to="Eve"),
            {"principal ann": ALONE, "principal eve": ALONE},
        ),
        (
            GrantRights(rights=(Right.SELECT,), on=OnCluster(), to="ann"),
            {"cluster": WITH_OTHERS, "principal ann": ALONE},
        ),
        (
            Revoke(rights=(Right.SELECT,), on=OnDatabase(name="db"), of="ann"),
            {"database db": WITH_OTHERS, "principal ann": ALONE},
        ),
        (
            GrantRights(rights=(Right.SELECT,), on=OnTable(table=T), to="ann"),
            {"database db": WITH_OTHERS, "table db.t": WITH_OTHERS, "principal ann": ALONE},
        ),
        (
            Revoke(rights=(Right.SELECT,), on=OnView(view=V), of="ann"),
            {
                "database db": WITH_OTHERS,
                "table db.v": WITH_OTHERS,
                "views": WITH_OTHERS,
                "principal ann": ALONE,
            },
        ),
        (GrantRole(role="r", user="ann"), {"principal r": WITH_OTHERS, "principal ann": ALONE}),
        (RevokeRole(role="r", user="ann"), {"principal r": WITH_OTHERS, "principal ann": ALONE}),
    ],
)
def test_what_each_other_statement_claims(statement, expected):
    assert claims(statement) == expected
