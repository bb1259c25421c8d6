"""CREATE VIEW: the canonical text of its SELECT, the tables that it reads, and what a view must not say."""

import pytest

from leasehold.core.words.statements import CreateView, DropView, TableName
from leasehold.sql.parse import parse
from leasehold.sql.query import parse_query
from tests.unit.sql.refusals import refused
from tests.unit.sql.rendering import render

AV = TableName("a", "v")
AB = TableName("a", "b")
AC = TableName("a", "c")


def view(body: str) -> CreateView:
    statement = parse(f"CREATE VIEW a.v AS {body}")
    assert isinstance(statement, CreateView)
    return statement


BODIES = [
    ("SELECT 1", "SELECT 1", ()),
    ("select x , y as z from a.b -- all of them", "SELECT x, y AS z FROM a.b", (AB,)),
    ("SELECT /* these */ * FROM `a`.`b` t WHERE x = 'it\\'s'", "SELECT * FROM `a`.`b` AS t WHERE x = 'it\\'s'", (AB,)),
    ("SELECT * FROM a.b JOIN A.C USING (k)", "SELECT * FROM a.b JOIN A.C USING (k)", (AB, TableName("A", "C"))),
    ("SELECT * FROM a.b, A.B", "SELECT * FROM a.b CROSS JOIN A.B", (AB,)),
    ("(SELECT x FROM a.b)", "(SELECT x FROM a.b)", (AB,)),
    (
        "SELECT x FROM a.b UNION ALL SELECT y FROM a.c ORDER BY x LIMIT 5",
        "SELECT x FROM a.b UNION ALL SELECT y FROM a.c ORDER BY x LIMIT 5",
        (AB, AC),
    ),
    (
        "SELECT count(*) FROM a.b WHERE x IN (SELECT y FROM a.c) AND ts < TIMESTAMP '2026-01-01'",
        "SELECT COUNT(*) FROM a.b WHERE x IN (SELECT y FROM a.c) AND ts < CAST('2026-01-01' AS TIMESTAMP)",
        (AB, AC),
    ),
    (
        "WITH q AS (SELECT * FROM a.b), r AS (SELECT * FROM Q) SELECT * FROM r",
        "WITH q AS (SELECT * FROM a.b), r AS (SELECT * FROM Q) SELECT * FROM r",
        (AB,),
    ),
    (
        "WITH q AS (SELECT 1) SELECT * FROM (SELECT * FROM q) AS r WHERE EXISTS (SELECT 1 FROM q, a.b)",
        "WITH q AS (SELECT 1) SELECT * FROM (SELECT * FROM q) AS r WHERE EXISTS(SELECT 1 FROM q CROSS JOIN a.b)",
        (AB,),
    ),
    (
        "SELECT sum(x) OVER (PARTITION BY y ORDER BY z), x::STRING, a.b.x FROM a.b",
        "SELECT SUM(x) OVER (PARTITION BY y ORDER BY z), CAST(x AS STRING), a.b.x FROM a.b",
        (AB,),
    ),
]


@pytest.mark.parametrize(("text", "body", "reads"), BODIES)
def test_the_canonical_text_and_what_it_reads(text: str, body: str, reads: tuple[TableName, ...]) -> None:
    statement = view(text)
    assert statement.body == body
    assert set(statement.reads) == set(reads)
    assert len(statement.reads) == len(reads)
    assert parse(render(statement)) == statement
    assert view(body) == statement
    assert parse_query(body).sql(dialect="spark") == body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CREATE OR REPLACE VIEW a.v (x, `Y`) COMMENT 'it' AS SELECT 1, 2",
            CreateView(view=AV, body="SELECT 1, 2", reads=(), names=("x", "Y"), or_replace=True, comment="it"),
        ),
        (
            "CREATE VIEW IF NOT EXISTS a.v AS SELECT 1;",
            CreateView(view=AV, body="SELECT 1", reads=(), if_not_exists=True),
        ),
        ("DROP VIEW a.v", DropView(view=AV)),
        ("DROP VIEW IF EXISTS a.v CASCADE", DropView(view=AV, if_exists=True, cascade=True)),
    ],
)
def test_accepted(text: str, expected: CreateView | DropView) -> None:
    assert parse(text) == expected
    assert parse(render(expected)) == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "the SELECT is missing"),
        ("VALUES (1)", "a SELECT is expected"),
        ("TABLE a.b", "a SELECT is expected"),
        ("FROM a.b SELECT x", "a SELECT is expected"),
        ("DELETE FROM a.b", "a SELECT is expected"),
        ("INSERT INTO a.b SELECT 1", "a SELECT is expected"),
        ("WITH q AS (SELECT 1) INSERT INTO a.b SELECT * FROM q", "line 1"),
        ("WITH q AS (DELETE FROM a.b) SELECT 1", "not supported"),
        ("WITH q AS (SELECT 1) FETCH q", "line 1"),
        ("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM q", "RECURSIVE"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT * FROM (WITH q AS (SELECT 1) SELECT * FROM q)", "start of the whole"),
        ("WITH q AS (WITH r AS (SELECT 1) SELECT * FROM r) SELECT * FROM q", "start of the whole"),
        ("(WITH q AS (SELECT 1) SELECT * FROM q)", "start of the whole"),
        ("SELECT", "near 'SELECT'"),
        ("SELECT FROM a.b", "near 'SELECT'"),
        ("SELECT x FROM", "at the end"),
        ("SELECT x FROM a.b WHERE", "near 'WHERE'"),
        ("SELECT x FROM a.b GROUP BY", "near 'GROUP BY'"),
        ("SELECT x FROM a.b JOIN a.c ON", "near 'ON'"),
        ("SELECT (x FROM a.b", "expecting )"),
        ("SELECT x, FROM a.b", "near ','"),
        ("SELECT , x FROM a.b", "something is missing"),
        ("SELECT x FROM a.b GROUP BY x,", "near ','"),
        ("SELECT * INTO c FROM a.b", "INTO"),
        ("SELECT * FROM a.b FOR UPDATE", "locking"),
        ("SELECT /*+ BROADCAST(b) */ * FROM a.b", "hints"),
        ("SELECT :x FROM a.b", "parameters"),
        ("SELECT ? FROM a.b", "parameters"),
        ("SELECT $x FROM a.b", "parameters"),
        ("SELECT {{x}} FROM a.b", "parameters"),
        ("SELECT * FROM a.b VERSION AS OF 3", "VERSION"),
        ("SELECT * FROM a.b TIMESTAMP AS OF '2026-01-01'", "VERSION"),
        ("SELECT * FROM range(5)", "'range'"),
        ("SELECT * FROM read_csv('/etc/passwd')", "only tables and views"),
        ("SELECT reflect('java.lang.System', 'exit')", "'reflect'"),
        ("SELECT java_method('java.lang.System', 'exit')", "'java_method'"),
        ("SELECT TRANSFORM (x) USING 'cat' AS (y) FROM a.b", "runs a program"),
    ],
)
def test_refused(body: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    refused(f"CREATE VIEW a.v AS {body}", "BAD_STATEMENT", said)
    assert capfd.readouterr() == ("", ""), "sqlglot would warn of what it does not understand"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("CREATE VIEW v AS SELECT 1", "BAD_IDENTIFIER", "two parts, database.table"),
        ("CREATE VIEW a.v AS SELECT * FROM b", "BAD_IDENTIFIER", "two parts, database.table"),
        ("CREATE VIEW a.v AS SELECT * FROM d.c.b", "BAD_IDENTIFIER", "d.c.b"),
        ("CREATE VIEW a.v AS SELECT * FROM parquet.`/etc/passwd`", "BAD_IDENTIFIER", "/etc/passwd"),
        ("CREATE VIEW a.v AS SELECT * FROM 'b.parquet'", "BAD_IDENTIFIER", "b.parquet"),
        ("CREATE VIEW a.v AS WITH q AS (SELECT * FROM q) SELECT * FROM q", "BAD_IDENTIFIER", "'q'"),
        ("CREATE VIEW a.v AS WITH q AS (SELECT * FROM r), r AS (SELECT 1) SELECT 1", "BAD_IDENTIFIER", "'r'"),
        ("CREATE VIEW a.v (x, X) AS SELECT 1, 2", "DUPLICATE_COLUMN", "X"),
        ("CREATE VIEW a.v (x.y) AS SELECT 1", "BAD_IDENTIFIER", "no dot"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS a.v AS SELECT 1", "BAD_STATEMENT", "can't be combined"),
        ("CREATE VIEW a.v () AS SELECT 1", "BAD_STATEMENT", "a name is expected"),
        ("CREATE VIEW a.v (x COMMENT 'y') AS SELECT 1", "BAD_STATEMENT", "COMMENT is not supported"),
        ("CREATE VIEW a.v TBLPROPERTIES ('a' = 'b') AS SELECT 1", "BAD_STATEMENT", "TBLPROPERTIES is not supported"),
        ("CREATE TEMPORARY VIEW a.v AS SELECT 1", "BAD_STATEMENT", "TEMPORARY is not supported"),
        ("CREATE VIEW a.v", "BAD_STATEMENT", "'AS' is expected"),
    ],
)
def test_refused_with_a_code(text: str, code: str, said: str) -> None:
    refused(text, code, said)
