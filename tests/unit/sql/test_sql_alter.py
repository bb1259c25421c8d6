"""ALTER TABLE, ALTER VIEW, COMMENT ON and DELETE FROM: what is read as which statement, and what is refused and why."""

from typing import Literal as OneOf

import pytest

from leasehold.core.words.statements import (
    AddColumns,
    AlterProperties,
    AnyStatement,
    ColumnDefinition,
    Comment,
    Condition,
    DeleteRows,
    DropColumn,
    Literal,
    MoveColumn,
    OnDatabase,
    OnTable,
    OnView,
    RenameColumn,
    RenameTable,
    RenameView,
    SetDefault,
    TableName,
    WidenColumn,
)
from leasehold.core.words.types import Decimal, Plain
from leasehold.limits.statements import COMMENT_CHARACTERS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.sql.parse import parse
from tests.unit.sql.refusals import refused
from tests.unit.sql.rendering import render

AB = TableName("a", "b")
DAY_NS = 86_400 * SECOND_NS
X = ColumnDefinition(name="x", type=Plain("INT"))
Y = ColumnDefinition(name="y", type=Plain("STRING"))
SURE = ColumnDefinition(name="x", type=Plain("INT"), nullable=False, default=Literal("number", "0"), comment="it")


def where(operator: OneOf["=", "<", "<=", ">"], value: Literal) -> DeleteRows:
    return DeleteRows(table=AB, where=(Condition(column="x", operator=operator, value=value),))


ACCEPTED: list[tuple[str, AnyStatement]] = [
    ("ADD COLUMN x INT", AddColumns(table=AB, columns=(X,))),
    ("ADD COLUMNS (x INT, y STRING)", AddColumns(table=AB, columns=(X, Y))),
    ("ADD COLUMNS (x INT)", AddColumns(table=AB, columns=(X,))),
    ("ADD COLUMN IF NOT EXISTS x INT", AddColumns(table=AB, columns=(X,), if_not_exists=True)),
    ("ADD COLUMNS IF NOT EXISTS (x INT, y STRING)", AddColumns(table=AB, columns=(X, Y), if_not_exists=True)),
    ("ADD COLUMN x INT DEFAULT +0 COMMENT 'it' NOT NULL", AddColumns(table=AB, columns=(SURE,))),
    ("RENAME COLUMN x TO `y`", RenameColumn(table=AB, old="x", new="y")),
    ("RENAME TO A.c", RenameTable(table=AB, to=TableName("A", "c"))),
    ("DROP COLUMN x", DropColumn(table=AB, column="x")),
    ("DROP COLUMN IF EXISTS x CASCADE", DropColumn(table=AB, column="x", if_exists=True, cascade=True)),
    ("ALTER COLUMN x TYPE long", WidenColumn(table=AB, column="x", type=Plain("BIGINT"))),
    ("ALTER COLUMN x TYPE DECIMAL(9,2)", WidenColumn(table=AB, column="x", type=Decimal(9, 2))),
    ("ALTER COLUMN x SET DEFAULT 'q'", SetDefault(table=AB, column="x", default=Literal("string", "q"))),
    ("ALTER COLUMN x DROP DEFAULT", SetDefault(table=AB, column="x", default=None)),
    ("ALTER COLUMN x FIRST", MoveColumn(table=AB, column="x", after=None)),
    ("ALTER COLUMN x AFTER first", MoveColumn(table=AB, column="x", after="first")),
    ("ALTER COLUMN x COMMENT ''", Comment(on=OnTable(AB), column="x", text="")),
    (
        "SET TBLPROPERTIES ('TTL' = '2s', 'x' = 'y')",
        AlterProperties(table=AB, properties={"x": "y"}, ttl_ns=2 * SECOND_NS),
    ),
    ("SET TBLPROPERTIES ('ttl' = '2s')", AlterProperties(table=AB, properties={}, ttl_ns=2 * SECOND_NS)),
    ("SET TBLPROPERTIES ('ttl' = '30 days')", AlterProperties(table=AB, properties={}, ttl_ns=30 * DAY_NS)),
    ("SET TBLPROPERTIES ('ttl' = INTERVAL 30 DAYS)", AlterProperties(table=AB, properties={}, ttl_ns=30 * DAY_NS)),
    ("SET TBLPROPERTIES ('ttl' = INTERVAL '30' DAY)", AlterProperties(table=AB, properties={}, ttl_ns=30 * DAY_NS)),
    (
        "SET TBLPROPERTIES ('ttl' = INTERVAL '1 day' 2 HOURS, 'a' = 'interval')",
        AlterProperties(table=AB, properties={"a": "interval"}, ttl_ns=26 * DAY_NS // 24),
    ),
    ("SET TBLPROPERTIES (x = 'y')", AlterProperties(table=AB, properties={"x": "y"})),
    ("SET TBLPROPERTIES ('Min_In_Sync' = '2')", AlterProperties(table=AB, properties={}, min_in_sync=2)),
    ("UNSET TBLPROPERTIES ('min_in_sync')", AlterProperties(table=AB, properties={}, min_in_sync=0)),
    ("SET TBLPROPERTIES ('Replication' = 3)", AlterProperties(table=AB, properties={}, replication=3)),
    ("UNSET TBLPROPERTIES ('ttl')", AlterProperties(table=AB, properties={}, ttl_ns=0)),
    (
        "UNSET TBLPROPERTIES IF EXISTS ('ttl', 'x')",
        AlterProperties(table=AB, properties={"x": None}, ttl_ns=0, if_exists=True),
    ),
]
WHOLE: list[tuple[str, AnyStatement]] = [
    ("ALTER TABLE IF EXISTS a.b RENAME TO a.c", RenameTable(table=AB, to=TableName("a", "c"), if_exists=True)),
    ("ALTER VIEW a.b RENAME TO a.c", RenameView(view=AB, to=TableName("a", "c"))),
    ("ALTER VIEW IF EXISTS a.b RENAME TO a.c", RenameView(view=AB, to=TableName("a", "c"), if_exists=True)),
    ("COMMENT ON SCHEMA a IS 'x'", Comment(on=OnDatabase("a"), text="x")),
    ("COMMENT ON TABLE a.b IS NULL", Comment(on=OnTable(AB), text="")),
    ("COMMENT ON VIEW a.b IS 'it''s'".replace("''", "\\'"), Comment(on=OnView(AB), text="it's")),
    (
        "DELETE FROM a.b WHERE `x` BETWEEN DATE '2026-01-01' AND DATE '2026-02-01' AND and >= -1.5e3",
        DeleteRows(
            table=AB,
            where=(
                Condition(column="x", operator=">=", value=Literal("date", "2026-01-01")),
                Condition(column="x", operator="<=", value=Literal("date", "2026-02-01")),
                Condition(column="and", operator=">=", value=Literal("number", "-1.5e3")),
            ),
        ),
    ),
    ("DELETE FROM a.b WHERE x = 'y'", where("=", Literal("string", "y"))),
    ("DELETE FROM a.b WHERE x<TIMESTAMP'2026-01-01'", where("<", Literal("timestamp", "2026-01-01"))),
    ("DELETE FROM a.b WHERE x <= FALSE", where("<=", Literal("boolean", "false"))),
    ("DELETE FROM a.b WHERE x > X'00fF'", where(">", Literal("binary", "00ff"))),
    ("DELETE FROM a.b WHERE x = x''", where("=", Literal("binary", ""))),
]


@pytest.mark.parametrize(
    ("text", "expected"), [*((f"ALTER TABLE a.b {change}", expected) for change, expected in ACCEPTED), *WHOLE]
)
def test_accepted(text: str, expected: AnyStatement) -> None:
    assert parse(text) == expected
    assert parse(render(expected)) == expected


REFUSED = [
    ("ALTER TABLE IF EXISTS a.b ADD COLUMN x INT", "ADD is not supported"),
    ("ALTER TABLE a.b PARTITION (x = 1) DROP COLUMN x", "PARTITION is not supported"),
    ("ALTER TABLE a.b ADD COLUMN x INT FIRST", "FIRST is not supported"),
    ("ALTER TABLE a.b ADD COLUMN x INT AFTER y", "AFTER is not supported"),
    ("ALTER TABLE a.b ADD COLUMN x INT, ADD COLUMN y INT", "near ','"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT 1 + 1", "near '+'"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT (1)", "a value is expected"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT - ", "a number is expected"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT .5", "a value is expected"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT 5.", "a number is expected"),
    ("ALTER TABLE a.b ADD COLUMN x INT DEFAULT 10L", "line 1"),
    ("ALTER TABLE a.b ADD COLUMN x BINARY DEFAULT X'0'", "two hex digits"),
    ("ALTER TABLE a.b ADD COLUMN x BINARY DEFAULT 0x00", "two hex digits"),
    ("ALTER TABLE a.b ADD COLUMN x STRING DEFAULT 'a' 'b'", "near \"'b'\""),
    ("ALTER TABLE a.b ADD COLUMN x STRING DEFAULT '\\0'", "not text"),
    ("ALTER TABLE a.b ADD COLUMN x STRING DEFAULT r'a'", "a value is expected"),
    ("ALTER TABLE a.b ADD COLUMN x DATE DEFAULT DATE", "a text in quotes"),
    ("ALTER TABLE a.b ADD COLUMN x TIMESTAMP DEFAULT TIMESTAMP_NTZ '2026-01-01'", "TIMESTAMP_NTZ is not supported"),
    ("ALTER TABLE a.b RENAME COLUMN IF EXISTS x TO y", "EXISTS is not supported"),
    ("ALTER TABLE a.b RENAME a.c", "'TO' or 'COLUMN' is expected"),
    ("ALTER TABLE a.b DROP COLUMN x, y", "near ','"),
    ("ALTER TABLE a.b DROP COLUMNS (x)", "'COLUMN' is expected"),
    ("ALTER TABLE a.b DROP x", "near 'x'"),
    ("ALTER TABLE a.b ALTER x TYPE BIGINT", "'COLUMN' is expected"),
    ("ALTER TABLE a.b ALTER COLUMN x TYPE BIGINT NOT NULL", "NOT is not supported"),
    ("ALTER TABLE a.b ALTER COLUMN x SET NOT NULL", "NOT is not supported"),
    ("ALTER TABLE a.b ALTER COLUMN x DROP NOT NULL", "NOT is not supported"),
    ("ALTER TABLE a.b ALTER COLUMN x SET DEFAULT now()", "NOW is not supported"),
    ("ALTER TABLE a.b ALTER COLUMN x", "at the end"),
    ("ALTER TABLE a.b CHANGE COLUMN x y INT", "CHANGE is not supported"),
    ("ALTER TABLE a.b SET LOCATION '/x'", "LOCATION is not supported"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('a' = 'b'", "',' or ')' is expected"),
    ("ALTER TABLE a.b SET TBLPROPERTIES IF EXISTS ('a' = 'b')", "IF is not supported"),
    ("ALTER TABLE a.b UNSET TBLPROPERTIES ('a' = 'b')", "near '='"),
    ("ALTER VIEW a.b AS SELECT 1", "AS is not supported"),
    ("ALTER VIEW a.b SET TBLPROPERTIES ('a' = 'b')", "SET is not supported"),
    ("COMMENT ON COLUMN a.b.c IS 'x'", "COLUMN is not supported"),
    ("COMMENT TABLE a.b IS 'x'", "'ON' is expected"),
    ("COMMENT ON TABLE a.b 'x'", "'IS' is expected"),
    ("DELETE a.b WHERE x = 1", "'FROM' is expected"),
    ("DELETE FROM a.b", "without WHERE"),
    ("DELETE FROM a.b AS t WHERE x = 1", "AS is not supported"),
    ("DELETE FROM a.b WHERE", "a name is expected at the end"),
    ("DELETE FROM a.b WHERE TRUE", "at the end"),
    ("DELETE FROM a.b WHERE x = 1 OR y = 2", "OR is not supported"),
    ("DELETE FROM a.b WHERE NOT x = 1", "NOT is not supported"),
    ("DELETE FROM a.b WHERE x IN (1, 2)", "IN is not supported"),
    ("DELETE FROM a.b WHERE x LIKE 'y'", "LIKE is not supported"),
    ("DELETE FROM a.b WHERE x IS NULL", "IS is not supported"),
    ("DELETE FROM a.b WHERE x <> 1", "near '<>'"),
    ("DELETE FROM a.b WHERE x <=> 1", "near '<=>'"),
    ("DELETE FROM a.b WHERE x = y", "Y is not supported"),
    ("DELETE FROM a.b WHERE 1 = x", "a name is expected"),
    ("DELETE FROM a.b WHERE (x = 1)", "a name is expected"),
    ("DELETE FROM a.b WHERE lower(x) = 'y'", "near '('"),
    ("DELETE FROM a.b WHERE x < now()", "NOW is not supported"),
    ("DELETE FROM a.b WHERE x BETWEEN 1", "'AND' is expected"),
    ("DELETE FROM a.b WHERE x = 1 AND", "a name is expected at the end"),
    ("DELETE FROM a.b WHERE x = 1 LIMIT 5", "LIMIT is not supported"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_refused(text: str, said: str) -> None:
    refused(text, "BAD_STATEMENT", said)


REFUSED_WITH_A_CODE = [
    ("ALTER TABLE b ADD COLUMN x INT", "BAD_IDENTIFIER", "two parts, database.table"),
    ("ALTER TABLE a.b ADD COLUMNS (x.y INT)", "BAD_IDENTIFIER", "no dot"),
    ("ALTER TABLE a.b ADD COLUMN `#1` INT", "BAD_IDENTIFIER", "#1"),
    ("ALTER TABLE a.b ADD COLUMNS (x INT, `#2` INT)", "BAD_IDENTIFIER", "#2"),
    ("ALTER TABLE a.b RENAME COLUMN x TO `#1`", "BAD_IDENTIFIER", "#1"),
    ("ALTER TABLE a.b RENAME COLUMN x.z TO y", "BAD_IDENTIFIER", "no dot"),
    ("ALTER TABLE a.b DROP COLUMN x.z", "BAD_IDENTIFIER", "no dot"),
    ("ALTER TABLE a.b ALTER COLUMN x.z FIRST", "BAD_IDENTIFIER", "no dot"),
    ("ALTER TABLE a.b RENAME TO c", "BAD_IDENTIFIER", "two parts, database.table"),
    ("ALTER TABLE a.b RENAME TO c.b", "OTHER_DATABASE", "another database, c"),
    ("ALTER VIEW a.b RENAME TO c.b", "OTHER_DATABASE", "another database, c"),
    ("ALTER TABLE a.b ADD COLUMNS (x INT, x INT)", "DUPLICATE_COLUMN", "x"),
    ("ALTER TABLE a.b ADD COLUMN x INT NOT NULL", "NOT_NULL_ADDED", "x"),
    ("ALTER TABLE a.b ADD COLUMN x INT NOT NULL DEFAULT NULL", "NOT_NULL_ADDED", "x"),
    ("ALTER TABLE a.b ADD COLUMNS (x INT, y INT NOT NULL)", "NOT_NULL_ADDED", "y"),
    ("ALTER TABLE a.b ALTER COLUMN x TYPE TEXT", "BAD_TYPE", "unknown column type 'TEXT'"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('replication' = '0')", "BAD_PROPERTY", "not a number of replicas"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('time_column' = 'x')", "BAD_PROPERTY", "can't be changed"),
    ("ALTER TABLE a.b UNSET TBLPROPERTIES ('time_column')", "BAD_PROPERTY", "can't be taken away"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('min_in_sync' = '0')", "BAD_PROPERTY", "not a number of replicas"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('min_in_sync' = '8')", "BAD_PROPERTY", "not a number of replicas"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('min_in_sync' = 'auto')", "BAD_PROPERTY", "not a number of replicas"),
    ("ALTER TABLE a.b UNSET TBLPROPERTIES ('replication')", "BAD_PROPERTY", "can't be taken away"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = '0s')", "BAD_PROPERTY", "zero"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = 'x')", "BAD_PROPERTY", "not a duration"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = '1 month')", "BAD_PROPERTY", "no fixed length"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = INTERVAL)", "BAD_PROPERTY", "not a text"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = INTERVAL 30)", "BAD_PROPERTY", "not a duration"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('ttl' = INTERVAL 30 DAYS)) ", "BAD_STATEMENT", "near ')'"),
    ("ALTER TABLE a.b SET TBLPROPERTIES ('leasehold.x' = 'y')", "BAD_PROPERTY", "reserved"),
    ("ALTER TABLE a.b UNSET TBLPROPERTIES ('x', 'X')", "BAD_PROPERTY", "twice"),
    ("ALTER TABLE a.b ALTER COLUMN x COMMENT '" + "c" * (COMMENT_CHARACTERS_MAX + 1) + "'", "BAD_COMMENT", "1025"),
    ("COMMENT ON TABLE b IS 'x'", "BAD_IDENTIFIER", "two parts, database.table"),
    ("COMMENT ON DATABASE a.b IS 'x'", "BAD_IDENTIFIER", "a.b"),
    ("DELETE FROM b WHERE x = 1", "BAD_IDENTIFIER", "two parts, database.table"),
    ("DELETE FROM a.b WHERE x.y = 1", "BAD_IDENTIFIER", "no dot"),
    ("DELETE FROM a.b WHERE x = NULL", "BAD_VALUE", "equal to nothing"),
    ("DELETE FROM a.b WHERE x BETWEEN 1 AND NULL", "BAD_VALUE", "equal to nothing"),
]


@pytest.mark.parametrize(("text", "code", "said"), REFUSED_WITH_A_CODE)
def test_refused_with_a_code(text: str, code: str, said: str) -> None:
    refused(text, code, said)


def test_delete_without_a_condition_is_told_what_else_there_is() -> None:
    assert "DROP TABLE a.b" in refused("DELETE FROM a.b", "BAD_STATEMENT").hint
