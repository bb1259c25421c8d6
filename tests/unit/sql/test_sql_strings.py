"""Text in quotes means the same wherever it stands: a doubled quote is a quote, and so is one behind a backslash."""

import pytest
from sqlglot import exp, parse_one

from leasehold.core.words.statements import (
    Comment,
    CreateTable,
    CreateUser,
    CreateView,
    DeleteRows,
    Literal,
)
from leasehold.errors import Refused
from leasehold.sql.parse import parse

READ = [
    ("'it''s'", "it's"),
    (r"'it\'s'", "it's"),
    ("''''", "'"),
    ("'''a''b'''", "'a'b'"),
    ("''", ""),
    ('"it\'s ""it"""', 'it\'s "it"'),
    ("'say \"\"'", 'say ""'),
    (r"'a\\b\n'", "a\\b\n"),
    (r"'a\\''b'", "a\\'b"),
]


@pytest.mark.parametrize(("written", "text"), READ)
def test_in_definitions_and_deletes(written: str, text: str) -> None:
    made = parse(f"CREATE TABLE a.b (x STRING DEFAULT {written} COMMENT {written}) TBLPROPERTIES ('k' = {written})")
    assert isinstance(made, CreateTable)
    assert made.columns[0].default == Literal("string", text)
    assert made.columns[0].comment == text
    assert made.properties == {"k": text}
    deleted = parse(f"DELETE FROM a.b WHERE x = {written}")
    assert isinstance(deleted, DeleteRows)
    assert deleted.where[0].value == Literal("string", text)
    commented = parse(f"COMMENT ON DATABASE a IS {written}")
    assert isinstance(commented, Comment)
    assert commented.text == text


@pytest.mark.parametrize(("written", "text"), READ)
def test_in_a_password(written: str, text: str) -> None:
    created = parse(f"CREATE USER u PASSWORD {written[0]}secret {written[1:]}")
    assert isinstance(created, CreateUser)
    assert created.password == f"secret {text}"


@pytest.mark.parametrize(("written", "text"), READ)
def test_in_the_select_of_a_view(written: str, text: str) -> None:
    view = parse(f"CREATE VIEW a.v AS SELECT {written} AS c FROM a.b")
    assert isinstance(view, CreateView)
    assert [one.this for one in parse_one(view.body, dialect="spark").find_all(exp.Literal)] == [text]


@pytest.mark.parametrize("written", ["'it''s", "'it's'", "'", "'''", r"'it\'"])
def test_without_its_end_it_is_refused(written: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(f"COMMENT ON DATABASE a IS {written}")
    assert caught.value.code == "BAD_STATEMENT"
