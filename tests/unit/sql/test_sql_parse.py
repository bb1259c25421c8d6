"""Golden tables: what is accepted and as which statement, and what is refused and why."""

import pytest

from leasehold.core.words.statements import (
    AddColumns,
    AlterDatabase,
    AnyStatement,
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Literal,
    TableName,
)
from leasehold.core.words.types import Decimal, Plain
from leasehold.errors import BadStatement
from leasehold.limits.statements import (
    BUCKETS_MAX,
    COLUMNS_MAX,
    COMMENT_CHARACTERS_MAX,
    IDENTIFIER_CHARACTERS_MAX,
    REPLICATION_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.sql.parse import parse
from tests.unit.sql.refusals import refused
from tests.unit.sql.rendering import render

AB = TableName("a", "b")
X = ColumnDefinition(name="x", type=Plain("INT"))
Y = ColumnDefinition(name="y", type=Plain("STRING"))
TS = ColumnDefinition(name="ts", type=Plain("TIMESTAMP"))
LONGEST = "n" * IDENTIFIER_CHARACTERS_MAX

ACCEPTED: list[tuple[str, AnyStatement]] = [
    ("CREATE DATABASE a", CreateDatabase(name="a")),
    ("create schema if not exists `A_1`;", CreateDatabase(name="A_1", if_not_exists=True)),
    (f"CREATE DATABASE {LONGEST}", CreateDatabase(name=LONGEST)),
    ("DROP DATABASE a", DropDatabase(name="a")),
    ("DROP SCHEMA IF EXISTS a ;", DropDatabase(name="a", if_exists=True)),
    ("CREATE TABLE a.b (x INT)", CreateTable(name=AB, columns=(X,))),
    ("-- a comment\nCREATE /* here */ TABLE a.b\n(\n  x INT -- there\n)", CreateTable(name=AB, columns=(X,))),
    ("CREATE TABLE IF NOT EXISTS a.b (x INT)", CreateTable(name=AB, columns=(X,), if_not_exists=True)),
    ("CREATE TABLE `a`.`b` (`x` INT) USING leasehold", CreateTable(name=AB, columns=(X,))),
    (
        "CREATE TABLE a.b (x INT NOT NULL)",
        CreateTable(name=AB, columns=(ColumnDefinition(name="x", type=Plain("INT"), nullable=False),)),
    ),
    (
        "CREATE TABLE a.b (x INT, y STRING) CLUSTERED BY (X) INTO 8 BUCKETS",
        CreateTable(name=AB, columns=(X, Y), cluster_by="x", buckets=8),
    ),
    (
        f"CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO {BUCKETS_MAX} BUCKETS",
        CreateTable(name=AB, columns=(X,), cluster_by="x", buckets=BUCKETS_MAX),
    ),
    (
        """CREATE TABLE a.b (x INT, ts TIMESTAMP)
        TBLPROPERTIES ('TTL' = '1h30m', 'time_column' = 'TS', 'replication' = 2, owner = 'it\\'s me', "a.b-c_D" = '')
        CLUSTERED BY (x) INTO 2 BUCKETS USING LEASEHOLD;""",
        CreateTable(
            name=AB,
            columns=(X, TS),
            cluster_by="x",
            buckets=2,
            replication=2,
            ttl_ns=5_400 * SECOND_NS,
            time_column="ts",
            properties={"owner": "it's me", "a.b-c_d": ""},
        ),
    ),
    (
        f"CREATE TABLE a.b (d DATE) TBLPROPERTIES ('time_column' = 'd', 'replication' = '{REPLICATION_MAX}')",
        CreateTable(
            name=AB,
            columns=(ColumnDefinition(name="d", type=Plain("DATE")),),
            time_column="d",
            replication=REPLICATION_MAX,
        ),
    ),
    ("DROP TABLE a.b", DropTable(table=AB)),
    ("DROP TABLE IF EXISTS a.b;", DropTable(table=AB, if_exists=True)),
    ("DROP TABLE IF EXISTS a.b CASCADE", DropTable(table=AB, if_exists=True, cascade=True)),
    ("DROP DATABASE IF EXISTS a CASCADE", DropDatabase(name="a", if_exists=True, cascade=True)),
    (
        "CREATE DATABASE a WITH DBPROPERTIES ('Owner' = 'me') COMMENT 'it\\'s'",
        CreateDatabase(name="a", comment="it's", properties={"owner": "me"}),
    ),
    (
        "CREATE TABLE a.b (x INT COMMENT 'count' DEFAULT -1 NOT NULL, y STRING DEFAULT NULL) COMMENT 'rows'",
        CreateTable(
            name=AB,
            columns=(
                ColumnDefinition(
                    name="x", type=Plain("INT"), nullable=False, default=Literal("number", "-1"), comment="count"
                ),
                ColumnDefinition(name="y", type=Plain("STRING"), default=Literal("null", "")),
            ),
            comment="rows",
        ),
    ),
    ("ALTER DATABASE a SET DBPROPERTIES ('x' = 'y')", AlterDatabase(name="a", properties={"x": "y"})),
    ("ALTER SCHEMA a UNSET DBPROPERTIES ('x', Y)", AlterDatabase(name="a", properties={"x": None, "y": None})),
    (
        "ALTER DATABASE a UNSET DBPROPERTIES IF EXISTS ('x')",
        AlterDatabase(name="a", properties={"x": None}, if_exists=True),
    ),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_accepted(text: str, expected: AnyStatement) -> None:
    assert parse(text) == expected
    assert parse(render(expected)) == expected


TYPES = {
    "BOOLEAN": Plain("BOOLEAN"),
    "tinyint": Plain("TINYINT"),
    "SMALLINT": Plain("SMALLINT"),
    "INT": Plain("INT"),
    "INTEGER": Plain("INT"),
    "BIGINT": Plain("BIGINT"),
    "long": Plain("BIGINT"),
    "FLOAT": Plain("FLOAT"),
    "REAL": Plain("FLOAT"),
    "DOUBLE": Plain("DOUBLE"),
    "DECIMAL": Decimal(10, 0),
    "DECIMAL(5)": Decimal(5, 0),
    "Decimal ( 38 , 38 )": Decimal(38, 38),
    "NUMERIC": Decimal(10, 0),
    "NUMERIC(4,2)": Decimal(4, 2),
    "STRING": Plain("STRING"),
    "VARCHAR": Plain("STRING"),
    "BINARY": Plain("BINARY"),
    "DATE": Plain("DATE"),
    "TIMESTAMP": Plain("TIMESTAMP"),
}


@pytest.mark.parametrize("form", ["CREATE TABLE a.b (x {})", "ALTER TABLE a.b ADD COLUMN x {}"])
@pytest.mark.parametrize(("text", "expected"), TYPES.items())
def test_types(form: str, text: str, expected: object) -> None:
    statement = parse(form.format(text))
    assert isinstance(statement, CreateTable | AddColumns)
    assert statement.columns[0].type == expected


@pytest.mark.parametrize("form", ["CREATE TABLE a.b (x {})", "ALTER TABLE a.b ADD COLUMN x {}"])
@pytest.mark.parametrize(
    "text",
    [
        "TEXT",
        "BYTE",
        "SHORT",
        "INT(4)",
        "STRNG",
        "VARCHAR(5)",
        "CHAR(5)",
        "BINARY(5)",
        "DECIMAL(39,0)",
        "DECIMAL(0)",
        "DECIMAL(2,3)",
        "ARRAY<INT>",
        "MAP<STRING, INT>",
        "STRUCT<a: INT>",
        "TIMESTAMP_NTZ",
        "TIMESTAMP_LTZ",
        "INT[]",
    ],
)
def test_other_types_are_refused_where_they_stand(form: str, text: str) -> None:
    refused(form.format(text), "BAD_TYPE", "unknown column type", "line 1, column")


REFUSED = [
    # Nothing, too much, or not one of ours.
    ("", "no statement"),
    (" \n\t", "no statement"),
    (";", "no statement"),
    ("-- nothing\n/* at all */", "no statement"),
    ("DROP TABLE a.b; DROP TABLE a.c", "line 1, column 15"),
    ("DROP TABLE a.b;;", "one statement"),
    ("DROP TABLE a.b\0", "line 1, column 15"),
    ("DROP TABLE a.\n\ud800", "line 2, column 1"),
    ("SELECT 1", "clients read and write rows"),
    ("INSERT INTO a.b VALUES (1)", "clients read and write rows"),
    ("EXPLAIN SELECT 1", "near 'SELECT'"),
    ("'x'", "line 1"),
    ("CREATE FUNCTION f AS 'x'", "FUNCTION is not supported"),
    ("DROP FUNCTION a.v", "FUNCTION is not supported"),
    ("ALTER", "at the end"),
    # What the text lacks, and what sqlglot would turn into an opaque command or forget.
    ("CREATE TABLE a.b (x INT", "',' or ')' is expected"),
    ("CREATE TABLE a.b (x INT /* no end", "quote or a comment"),
    ("DROP TABLE a.b 'no end", "quote or a comment"),
    ("CREATE TABLE a.b", "at least one column"),
    ("CREATE TABLE a.b ()", "at least one column"),
    ("CREATE TABLE a.b (x)", "no type"),
    ("CREATE TABLE a.b (x INT,)", "near ')'"),
    ("CREATE TABLE a.b, (x INT)", "near ','"),
    ("CREATE TABLE a.'b' (x INT)", "a name is expected"),
    ("CREATE TABLE a.b (x INT) garbage", "near 'garbage'"),
    ("CREATE TABLE a.b (x INT) foo = 'bar'", "FOO is not supported"),
    ("ALTER TABLE a.b ADD COLUMN x INT\ngarbage", "line 2, column 1, near 'garbage'"),
    ("ALTER TABLE a.b ADD COLUMN x INT, y INT", "near"),
    ("ALTER TABLE a.b ADD COLUMN x", "no type at the end"),
    ("ALTER TABLE a.b ADD x INT", "X is not supported"),
    ("ALTER TABLE a.b ADD COLUMNS x INT", "'(' is expected"),
    ("ALTER TABLE a.b", "at the end"),
    ("DROP TABLE a.b x", "near 'x'"),
    ("DROP TABLE", "at the end"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO 4L BUCKETS", "line 1"),
    # ON CLUSTER, which parses as a table of that name.
    ("CREATE DATABASE a ON CLUSTER c", "line 1"),
    ("CREATE TABLE a.b ON CLUSTER c (x INT)", "line 1"),
    ("CREATE TABLE a.b (x INT) ON CLUSTER c", "line 1"),
    ("ALTER TABLE a.b ON CLUSTER c ADD COLUMN x INT", "ON is not supported"),
    ("DROP TABLE a.b ON CLUSTER c", "line 1"),
    ("DROP DATABASE a ON CLUSTER", "ON is not supported"),
    # Clauses that have a meaning elsewhere, refused by name.
    ("CREATE OR REPLACE TABLE a.b (x INT)", "OR REPLACE is for views"),
    ("CREATE EXTERNAL TABLE a.b (x INT)", "EXTERNAL"),
    ("CREATE TEMPORARY TABLE a.b (x INT)", "TEMPORARY"),
    ("CREATE TABLE a.b (x INT) PARTITIONED BY (x)", "PARTITIONED BY"),
    ("CREATE TABLE a.b (x INT) LOCATION '/x'", "LOCATION"),
    ("CREATE TABLE a.b (x INT) COMMENT 'x' COMMENT 'y'", "twice"),
    ("CREATE TABLE a.b (x INT) OPTIONS ('a' = 'b')", "OPTIONS"),
    ("CREATE TABLE a.b (x INT) USING delta", "'LEASEHOLD' is expected"),
    ("CREATE TABLE a.b (x INT) STORED AS leasehold", "STORED is not supported"),
    ("CREATE TABLE a.b (x INT) CLUSTER BY (x)", "CLUSTER BY"),
    ("CREATE TABLE a.b (x INT) AS SELECT 1", "AS is not supported"),
    ("CREATE TABLE a.b AS SELECT 1", "AS is not supported"),
    ("CREATE TABLE a.b LIKE c.d", "column"),
    ("CREATE TABLE a.b (x INT, PRIMARY KEY (x))", "PRIMARY KEY"),
    ("CREATE TABLE a.b (x INT PRIMARY KEY)", "PRIMARY KEY"),
    ("CREATE TABLE a.b (x INT COMMENT x)", "a text in quotes"),
    ("CREATE TABLE a.b (x INT DEFAULT now())", "NOW is not supported"),
    ("CREATE TABLE a.b (x INT DEFAULT 3 DEFAULT 4)", "twice"),
    ("CREATE TABLE a.b (x INT NOT NULL NOT NULL)", "twice"),
    ("CREATE TABLE a.b (x INT CHECK (x > 1))", "CHECK"),
    ("CREATE TABLE a.b (x INT UNIQUE)", "UNIQUE"),
    ("CREATE TABLE a.b (x STRING COLLATE y)", "COLLATE"),
    ("CREATE TABLE a.b (x INT, y INT GENERATED ALWAYS AS (x + 1))", "GENERATED"),
    ("CREATE TABLE a.b (x INT NULL)", "NULL"),
    ("CREATE TABLE a.b (x INT, y INT) CLUSTERED BY (x, y) INTO 4 BUCKETS", "one column"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) SORTED BY (x) INTO 4 BUCKETS", "SORTED is not supported"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO 4 BUCKETS CLUSTERED BY (x) INTO 4 BUCKETS", "twice"),
    ("CREATE TABLE a.b (x INT) USING leasehold USING leasehold", "twice"),
    ("CREATE TABLE a.b (x INT) TBLPROPERTIES ('a' = 'b') TBLPROPERTIES ('c' = 'd')", "twice"),
    ("CREATE DATABASE a COMMENT 'x' COMMENT 'y'", "twice"),
    ("CREATE DATABASE a LOCATION '/x'", "LOCATION"),
    ("CREATE DATABASE a WITH PROPERTIES ('a' = 'b')", "PROPERTIES is not supported"),
    ("DROP DATABASE a CASCADE CASCADE", "CASCADE is not supported"),
    ("DROP DATABASE a RESTRICT", "RESTRICT"),
    ("DROP DATABASE a, b", "near ','"),
    ("DROP TABLE a.b PURGE", "PURGE"),
    ("DROP TABLE a.b, a.c", "near ','"),
    ("DROP TEMPORARY TABLE a.b", "TEMPORARY"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_refused(text: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    error = refused(text, "BAD_STATEMENT", said)
    assert isinstance(error, BadStatement)
    assert capfd.readouterr() == ("", ""), "sqlglot would warn of what it does not understand"


COLUMNS = "x INT, ts TIMESTAMP"
REFUSED_WITH_A_CODE = [
    ("CREATE TABLE b (x INT)", "BAD_IDENTIFIER", "two parts, database.table"),
    ("CREATE TABLE c.a.b (x INT)", "BAD_IDENTIFIER", "c.a.b"),
    ("CREATE TABLE a.b (LIKE c.d)", "BAD_TYPE", "column LIKE"),
    ("CREATE TABLE a.b (x INT, CONSTRAINT k CHECK (x > 1))", "BAD_TYPE", "column CONSTRAINT"),
    ("CREATE TABLE a.b (x INT COMMENT '" + "c" * (COMMENT_CHARACTERS_MAX + 1) + "')", "BAD_COMMENT", "1025"),
    ("CREATE DATABASE a COMMENT '" + "c" * (COMMENT_CHARACTERS_MAX + 1) + "'", "BAD_COMMENT", "1025"),
    ("CREATE DATABASE a WITH DBPROPERTIES ('ttl' = '1d')", "BAD_PROPERTY", "only for tables"),
    ("CREATE DATABASE a WITH DBPROPERTIES ('a' = 'b', 'A' = 'c')", "BAD_PROPERTY", "twice"),
    ("CREATE TABLE d.c.a.b (x INT)", "BAD_IDENTIFIER", "d.c.a.b"),
    ("CREATE TABLE a.1b (x INT)", "BAD_IDENTIFIER", "1b"),
    ("CREATE TABLE a.`b c` (x INT)", "BAD_IDENTIFIER", "b c"),
    ("CREATE TABLE a.b (x.y INT)", "BAD_IDENTIFIER", "no dot"),
    ("CREATE TABLE a.b (`x.y` INT)", "BAD_IDENTIFIER", "x.y"),
    ("CREATE TABLE a.b (`#1` INT)", "BAD_IDENTIFIER", "#1"),
    ("CREATE TABLE a.b (prix_é INT)", "BAD_IDENTIFIER", "prix_é"),
    (f"CREATE DATABASE {LONGEST}n", "BAD_IDENTIFIER", "nnn"),
    ("CREATE DATABASE a.b", "BAD_IDENTIFIER", "a.b"),
    ("DROP TABLE b", "BAD_IDENTIFIER", "two parts, database.table"),
    ("DROP TABLE a.b.c", "BAD_IDENTIFIER", "a.b.c"),
    ("DROP DATABASE a.b", "BAD_IDENTIFIER", "a.b"),
    ("CREATE TABLE a.b (x INT, y INT, X STRING)", "DUPLICATE_COLUMN", "X"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (y) INTO 4 BUCKETS", "NO_SUCH_COLUMN", "y"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO 0 BUCKETS", "BAD_BUCKETS", "1024"),
    (f"CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO {BUCKETS_MAX + 1} BUCKETS", "BAD_BUCKETS", "1024"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO 1.5 BUCKETS", "BAD_BUCKETS", "1024"),
    ("CREATE TABLE a.b (x INT) CLUSTERED BY (x) INTO 1e1 BUCKETS", "BAD_BUCKETS", "1024"),
]
BAD_PROPERTIES = [
    ("'ttl' = '30d'", "needs 'time_column'"),
    ("'ttl' = '0s', 'time_column' = 'ts'", "zero"),
    ("'ttl' = '30', 'time_column' = 'ts'", "not a duration"),
    ("'ttl' = 30, 'time_column' = 'ts'", "not a duration"),
    ("'time_column' = 'x'", "TIMESTAMP or DATE"),
    ("'time_column' = 'nope'", "TIMESTAMP or DATE"),
    ("'replication' = '0'", "replicas"),
    (f"'replication' = '{REPLICATION_MAX + 1}'", "replicas"),
    ("'replication' = 'two'", "replicas"),
    ("'a' = 'b', 'A' = 'c'", "twice"),
    ("'leasehold.a' = 'b'", "reserved"),
    ("'LEASEHOLD.a' = 'b'", "reserved"),
    ("'' = 'b'", "key"),
    ("'a b' = 'c'", "key"),
    ("'" + "a" * 65 + "' = 'c'", "key"),
    ("a.b = 'c'", "plain word"),
    ("'a' = true", "not a text"),
    ("'a' = 1.5", "not a text"),
    ("'a' = 'b' 'c'", "not a text"),
    ("'a' = X'00'", "not a text"),
    ("'a' = '" + "v" * 1_025 + "'", "too long"),
    ("'a' = 'b\\0'", "NUL"),
    (", ".join(f"'k{number}' = 'v'" for number in range(65)), "more than 64"),
]


@pytest.mark.parametrize(("text", "code", "said"), REFUSED_WITH_A_CODE)
def test_refused_with_a_code(text: str, code: str, said: str) -> None:
    refused(text, code, said)


@pytest.mark.parametrize(("text", "said"), BAD_PROPERTIES)
def test_refused_properties(text: str, said: str) -> None:
    refused(f"CREATE TABLE a.b ({COLUMNS}) TBLPROPERTIES ({text})", "BAD_PROPERTY", said)


@pytest.mark.parametrize(
    ("text", "grammar"),
    [
        ("CREATE TABLE a.b", "CREATE TABLE [IF NOT EXISTS] database.table"),
        ("create schema a b", "CREATE DATABASE [IF NOT EXISTS] name"),
        ("DROP TABLE a.b CASCADED", "DROP TABLE [IF EXISTS] database.table [CASCADE]"),
        ("ALTER TABLE a.b FOO", "ALTER TABLE database.table ADD COLUMN"),
        ("DESC", "DESCRIBE [TABLE] database.table"),
        ("SHOW COLUMNS", "SHOW DATABASES"),
        ("SHOW CLUSTER x", "| CLUSTER"),
        ("EXPLAIN DROP ROLE", "DROP ROLE [IF EXISTS] name"),
        ("EXPLAIN SHOW NODES", "SHOW DATABASES"),
        ("CREATE OR REPLACE VIEW", "CREATE [OR REPLACE] VIEW"),
        ("ALTER CLUSTER RESET x", "ALTER CLUSTER SET setting = value"),
        ("CREATE INDEX x", "CREATE ROLE [IF NOT EXISTS] name"),
        ("VACUUM", "one of CREATE DATABASE"),
        ("CREATE TABLE a.b ('", "CREATE TABLE [IF NOT EXISTS]"),
    ],
)
def test_the_hint_is_the_grammar_that_seems_meant(text: str, grammar: str) -> None:
    assert grammar in refused(text, "BAD_STATEMENT").hint


def test_an_unqualified_table_is_told_how_to_qualify_it() -> None:
    assert "database.weather" in refused("DROP TABLE weather", "BAD_IDENTIFIER").hint


def test_the_widest_table_is_read() -> None:
    columns = [f"column_{number:0120} DECIMAL(38,10) NOT NULL" for number in range(COLUMNS_MAX)]
    statement = parse(f"CREATE TABLE a.b ({', '.join(columns)})")
    assert isinstance(statement, CreateTable)
    assert len(statement.columns) == COLUMNS_MAX
    assert parse(render(statement)) == statement
    refused(f"CREATE TABLE a.b ({', '.join(columns)}, more INT)", "TOO_MANY_COLUMNS", str(COLUMNS_MAX + 1))
