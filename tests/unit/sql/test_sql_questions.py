"""SHOW, DESCRIBE, EXPLAIN and CANCEL: what is read as which statement, and what is refused and why."""

import pytest

from leasehold.core.words.statements import (
    AnyStatement,
    CancelProcedure,
    CreateUser,
    Describe,
    DescribeDatabase,
    DropTable,
    Explain,
    OnCluster,
    OnTable,
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
    ShowTables,
    ShowTokens,
    ShowViews,
    TableName,
)
from leasehold.sql.parse import parse
from tests.unit.sql.refusals import refused
from tests.unit.sql.rendering import render

AB = TableName("a", "b")

ACCEPTED: list[tuple[str, AnyStatement]] = [
    ("SHOW DATABASES", ShowDatabases()),
    ("show tables;", ShowTables()),
    ("SHOW TABLES IN a", ShowTables(database="a")),
    ("SHOW TABLES FROM `a`", ShowTables(database="a")),
    ("SHOW VIEWS", ShowViews()),
    ("SHOW VIEWS IN a", ShowViews(database="a")),
    ("SHOW NODES -- all of them", ShowNodes()),
    ("show cluster", ShowCluster()),
    ("show coordinators", ShowCoordinators()),
    ("SHOW TBLPROPERTIES a.b", ShowProperties(table=AB)),
    ("SHOW BUCKETS OF a.b", ShowBuckets(table=AB)),
    ("show rebalance", ShowRebalance()),
    ("show repairs", ShowRepairs()),
    ("SHOW PROCEDURES", ShowProcedures()),
    ("SHOW HISTORY", ShowHistory()),
    ("SHOW HISTORY FOR DATABASE A", ShowHistory(of="database a")),
    ("SHOW HISTORY FOR TABLE A.B", ShowHistory(of="table a.b")),
    ("SHOW HISTORY FOR VIEW a.v", ShowHistory(of="table a.v")),
    ("SHOW HISTORY FOR USER u", ShowHistory(of="principal u")),
    ("SHOW HISTORY FOR ROLE r", ShowHistory(of="principal r")),
    ("SHOW HISTORY FOR CLUSTER", ShowHistory(of="cluster")),
    ("SHOW USERS", ShowPrincipals(roles=False)),
    ("SHOW TOKENS", ShowTokens()),
    ("SHOW ROLES", ShowPrincipals(roles=True)),
    ("SHOW GRANTS", ShowGrants()),
    ("SHOW GRANTS FOR `on`", ShowGrants(principal="on")),
    ("SHOW GRANTS ON CLUSTER", ShowGrants(on=OnCluster())),
    ("SHOW GRANTS FOR u ON TABLE a.b", ShowGrants(principal="u", on=OnTable(AB))),
    ("DESCRIBE a.b", Describe(table=AB)),
    ("DESC TABLE a.`b`", Describe(table=AB)),
    ("DESCRIBE table.b", Describe(table=TableName("table", "b"))),
    ("DESCRIBE database.b", Describe(table=TableName("database", "b"))),
    ("DESCRIBE extended.b", Describe(table=TableName("extended", "b"))),
    ("DESC DATABASE a", DescribeDatabase(name="a")),
    ("EXPLAIN DROP TABLE a.b", Explain(statement=DropTable(table=AB))),
    ("explain create user u password 'p';", Explain(statement=CreateUser(name="u", password="p"))),
    ("CANCEL PROCEDURE 3", CancelProcedure(number=3)),
    (f"CANCEL PROCEDURE {2**60}", CancelProcedure(number=2**60)),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_accepted(text: str, expected: AnyStatement) -> None:
    assert parse(text) == expected
    assert parse(render(expected)) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SHOW", "at the end"),
        ("SHOW COLUMNS", "COLUMNS is not supported"),
        ("SHOW DATABASES LIKE 'a'", "LIKE is not supported"),
        ("SHOW TABLES a", "A is not supported"),
        ("SHOW TABLES IN 'a'", "near \"'a'\""),
        ("SHOW TABLES IN r'a'", "near \"r'a'\""),
        ("SHOW `NODES`", "near '`NODES`'"),
        ("SHOW CREATE TABLE a.b", "CREATE is not supported"),
        ("SHOW HISTORY FOR a.b", "A is not supported"),
        ("SHOW HISTORY FOR", "at the end"),
        ("SHOW HISTORY LIMIT 5", "LIMIT is not supported"),
        ("SHOW GRANTS u", "'ON' is expected"),
        ("SHOW USERS FOR u", "FOR is not supported"),
        ("DESCRIBE EXTENDED a.b", "EXTENDED is not supported"),
        ("DESCRIBE a.b c", "C is not supported"),
        ("DESCRIBE", "a name is expected"),
        ("EXPLAIN", "at the end"),
        ("EXPLAIN SHOW NODES", "statements that change something"),
        ("EXPLAIN EXPLAIN DROP TABLE a.b", "statements that change something"),
        ("EXPLAIN CANCEL PROCEDURE 3", "statements that change something"),
        ("EXPLAIN ANALYZE DROP TABLE a.b", "statements that change something"),
        ("EXPLAIN SELECT 1", "statements that change something"),
        ("EXPLAIN DROP TABLE a.b c", "C is not supported"),
        ("CANCEL 3", "'PROCEDURE' is expected"),
        ("CANCEL PROCEDURE", "number of a procedure"),
        ("CANCEL PROCEDURE -1", "near '-'"),
        ("CANCEL PROCEDURE 1.5", "number of a procedure"),
        ("CANCEL PROCEDURE 3, 4", "near ','"),
        ("CANCEL PROCEDURE " + "9" * 5_000, "number of a procedure"),
    ],
)
def test_refused(text: str, said: str) -> None:
    refused(text, "BAD_STATEMENT", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SHOW TABLES IN a.b", "a.b"),
        ("SHOW TABLES IN `a b`", "a b"),
        ("SHOW HISTORY FOR TABLE b", "two parts, database.table"),
        ("SHOW HISTORY FOR USER a.b", "a.b"),
        ("DESCRIBE b", "two parts, database.table"),
        ("DESCRIBE a.b.c", "a.b.c"),
        ("DESCRIBE a.2b", "2b"),
        ("DESCRIBE DATABASE a b".replace(" b", ".b"), "a.b"),
    ],
)
def test_refused_names(text: str, said: str) -> None:
    refused(text, "BAD_IDENTIFIER", said)
