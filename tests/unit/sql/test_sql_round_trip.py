"""Properties: what is rendered is read back, and any text is read or definitely refused, in silence."""

import contextlib
import io

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leasehold.core.settings import SETTINGS
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
    fold,
)
from leasehold.core.types import PLAIN_NAMES, Decimal, Plain
from leasehold.errors import Definite
from leasehold.limits import BUCKETS_MAX, DURATION_NS_MAX, REPLICATION_MAX
from leasehold.sql.parse import parse
from leasehold.sql.render import _QUOTED, render  # pyright: ignore[reportPrivateUsage] - the words to try as names

WORDS = sorted(word for word in _QUOTED if word.isidentifier() and word.isascii())
NAMES = st.one_of(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z"), st.sampled_from(WORDS), st.sampled_from("abcxyz"))
TABLES = st.builds(TableName, NAMES, NAMES)
TYPES = st.one_of(
    st.sampled_from(sorted(PLAIN_NAMES)).map(Plain),
    st.integers(1, 38).flatmap(lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits))),
)
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30),
    st.text("\\'\"`%_0uUAnNZ{}#-/*; \n", max_size=30),
)
KEYS = st.from_regex(r"\A[a-z0-9_.-]{1,12}\Z").filter(
    lambda key: key not in {"ttl", "time_column", "replication"} and not key.startswith("leasehold.")
)


def columns(nullable: st.SearchStrategy[bool]) -> st.SearchStrategy[tuple[ColumnDefinition, ...]]:
    one = st.builds(ColumnDefinition, name=NAMES, type=TYPES, nullable=nullable)
    return st.lists(one, min_size=1, max_size=5, unique_by=lambda column: fold(column.name)).map(tuple)


@st.composite
def create_tables(draw: st.DrawFn) -> CreateTable:
    those = draw(columns(st.booleans()))
    times = [column.name for column in those if column.type in {Plain("DATE"), Plain("TIMESTAMP")}]
    time_column = draw(st.none() | st.sampled_from(times)) if times else None
    cluster_by = draw(st.none() | st.sampled_from([column.name for column in those]))
    return CreateTable(
        name=draw(TABLES),
        columns=those,
        if_not_exists=draw(st.booleans()),
        cluster_by=cluster_by,
        buckets=draw(st.integers(1, BUCKETS_MAX)) if cluster_by else 1,
        replication=draw(st.none() | st.integers(1, REPLICATION_MAX)),
        ttl_ns=draw(st.none() | st.integers(1, DURATION_NS_MAX)) if time_column else None,
        time_column=time_column,
        properties=draw(st.dictionaries(KEYS, VALUES, max_size=3)),
    )


STATEMENTS: st.SearchStrategy[AnyStatement] = st.one_of(
    create_tables(),
    st.builds(CreateDatabase, name=NAMES, if_not_exists=st.booleans()),
    st.builds(DropDatabase, name=NAMES, if_exists=st.booleans()),
    st.builds(AddColumns, table=TABLES, columns=columns(st.just(True))),
    st.builds(RenameColumn, table=TABLES, old=NAMES, new=NAMES),
    st.builds(DropColumn, table=TABLES, column=NAMES),
    st.builds(DropTable, table=TABLES, if_exists=st.booleans()),
    st.builds(ShowTables, database=st.none() | NAMES),
    st.builds(Describe, table=TABLES),
    st.just(ShowDatabases()),
    st.just(ShowNodes()),
    st.just(ShowCluster()),
    st.fixed_dictionaries({}, optional={one.name: st.integers(one.smallest, one.largest) for one in SETTINGS})
    .filter(bool)
    .map(lambda those: AlterCluster(settings=those)),
)
LANGUAGE = r"""
CREATE DROP ALTER TABLE DATABASE SCHEMA IF NOT EXISTS NULL a b.c `x y` INT STRING DECIMAL(10,2) ARRAY<INT> ( ) , . ; =
< > :: [ ] { } ' " ` -- /* */ /*+ 'v' 4 4L 1.5 ADD COLUMN COLUMNS RENAME TO ON CLUSTER CLUSTERED BY INTO BUCKETS
TBLPROPERTIES USING leasehold AS SELECT FROM JOIN WITH CASE WHEN LIKE DEFAULT PRIMARY KEY CHECK UNIQUE SHOW TABLES
NODES DESCRIBE EXECUTE FETCH SET DECLARE BEGIN PARTITION COMMENT LOCATION $x ? @a {{x}} \\
lease_duration lease_margin min_in_sync '2s' '300ms'
"""
PIECES = st.sampled_from([*LANGUAGE.split(), "\u00e9", "\0"])
QUIET = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


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
        else:
            assert parse(render(outcome)) == outcome
    assert out.getvalue() == err.getvalue() == ""


@QUIET
@given(STATEMENTS)
def test_what_is_rendered_is_read_back(statement: AnyStatement) -> None:
    assert parse(render(statement)) == statement


def test_any_word_can_be_a_name_everywhere() -> None:
    for word in WORDS:
        name = TableName(word, word)
        one = ColumnDefinition(name=word, type=Plain("DATE"))
        statements: list[AnyStatement] = [
            CreateTable(name=name, columns=(one,), cluster_by=word, time_column=word),
            AddColumns(table=name, columns=(one,)),
            RenameColumn(table=name, old=word, new=word),
            DropColumn(table=name, column=word),
            DropTable(table=name),
            CreateDatabase(name=word),
            DropDatabase(name=word),
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
    st.sampled_from(["", "CREATE TABLE a.b ", "CREATE TABLE a.b (x ", "ALTER TABLE a.b ADD "]),
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
