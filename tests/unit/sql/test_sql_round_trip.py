"""Properties: what is rendered is read back, and any text is read or definitely refused, in silence."""

import contextlib
import io

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leasehold.core.words.records.principals import Right
from leasehold.core.words.statements import (
    AnyStatement,
    ColumnDefinition,
    CreateTable,
    Describe,
    DropTable,
    GrantRights,
    OnCluster,
    RenameColumn,
    ShowTables,
    TableName,
)
from leasehold.core.words.types import Plain
from leasehold.errors import Definite
from leasehold.sql.parse import parse
from leasehold.sql.secrets import redacted
from tests.few import examples
from tests.unit.sql.rendering import render
from tests.unit.sql.statements import BY_KIND, STATEMENTS, WORDS

LANGUAGE = r"""
CREATE DROP ALTER TABLE DATABASE SCHEMA IF NOT EXISTS NULL a b.c `x y` INT STRING DECIMAL(10,2) ARRAY<INT> ( ) , . ; =
< > :: [ ] { } ' " ` -- /* */ /*+ 'v' 4 4L 1.5 ADD COLUMN COLUMNS RENAME TO ON CLUSTER CLUSTERED BY INTO BUCKETS
TBLPROPERTIES USING leasehold AS SELECT FROM JOIN WITH CASE WHEN LIKE DEFAULT PRIMARY KEY CHECK UNIQUE SHOW TABLES
NODES DESCRIBE EXECUTE FETCH SET DECLARE BEGIN PARTITION COMMENT LOCATION $x ? @a {{x}} \\
lease_duration lease_margin min_in_sync '2s' '300ms' OR REPLACE VIEW SELECT UNION ALL DISTINCT WHERE GROUP BY ORDER
LIMIT OVER INTERVAL DATE TIMESTAMP X'00' x'0' 1e3 TRUE FALSE - + <= >= <> BETWEEN AND NOT IN EXISTS CASCADE DELETE UNSET
TYPE FIRST AFTER USER ROLE PASSWORD GRANT REVOKE ALL FOR HISTORY EXPLAIN CANCEL PROCEDURE IS DBPROPERTIES LATERAL VALUES
"""
PIECES = st.sampled_from([*LANGUAGE.split(), "\u00e9", "\0"])
QUIET = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(text: str) -> AnyStatement | Definite:
    try:
        return parse(text)
    except Definite as error:
        return error


def check_read_or_refused(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        outcome = read(text)
        if isinstance(outcome, Definite):
            assert outcome.hint
            assert outcome.text
            redacted(text)
        else:
            assert parse(render(outcome)) == outcome
    assert out.getvalue() == err.getvalue() == ""


@QUIET
@given(STATEMENTS)
def test_what_is_rendered_is_read_back(statement: AnyStatement) -> None:
    assert parse(render(statement)) == statement


@pytest.mark.parametrize("kind", BY_KIND, ids=lambda kind: kind.__name__)
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_every_kind_of_statement_is_read_back(kind: type[AnyStatement], data: st.DataObject) -> None:
    statement = data.draw(BY_KIND[kind])
    assert type(statement) is kind
    assert parse(render(statement)) == statement


def test_any_word_can_be_a_name_everywhere() -> None:
    for word in WORDS:
        name = TableName(word, word)
        one = ColumnDefinition(name=word, type=Plain("DATE"))
        statements: list[AnyStatement] = [
            CreateTable(name=name, columns=(one,), cluster_by=word, time_column=word),
            RenameColumn(table=name, old=word, new=word),
            DropTable(table=name),
            GrantRights(rights=(Right.SELECT,), on=OnCluster(), to=word),
            ShowTables(database=word),
            Describe(table=name),
        ]
        for statement in statements:
            assert parse(render(statement)) == statement


@QUIET
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    check_read_or_refused(text)


@QUIET
@given(
    st.sampled_from(
        [
            "",
            "CREATE TABLE a.b ",
            "CREATE TABLE a.b (x ",
            "ALTER TABLE a.b ADD ",
            "ALTER TABLE a.b ALTER COLUMN x ",
            "CREATE VIEW a.v AS SELECT ",
            "CREATE VIEW a.v AS WITH q AS (SELECT * FROM a.b) SELECT * FROM q ",
            "DELETE FROM a.b WHERE x = ",
            "GRANT SELECT ON ",
            "SHOW ",
        ]
    ),
    st.lists(PIECES, max_size=12),
)
@example("ALTER TABLE a.b ADD ", ["COLUMN", "x", "INT", "garbage"])
def test_any_words_of_the_language_are_read_or_refused(start: str, pieces: list[str]) -> None:
    check_read_or_refused(start + " ".join(pieces))


@QUIET
@given(STATEMENTS, st.data())
def test_a_statement_with_a_fault_is_read_or_refused(statement: AnyStatement, data: st.DataObject) -> None:
    text = render(statement)
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, min(len(text), first + 8)))
    check_read_or_refused(text[:first] + data.draw(st.just("") | PIECES | st.text(max_size=3)) + text[last:])
