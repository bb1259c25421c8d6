"""INSERT INTO .. SELECT: where its rows go, and where its SELECT begins."""

import pytest

from leasehold.errors import LeaseholdError
from leasehold.sql.insert import read_insert, read_insert_query


@pytest.mark.parametrize(
    ("text", "columns", "select"),
    [
        ("INSERT INTO d.t SELECT a FROM d.u", (), "SELECT a FROM d.u"),
        ("insert into table D.`t` (a, `b`) select 1, 2;", ("a", "b"), "select 1, 2;"),
        ("INSERT INTO d.t (SELECT 1)", (), "(SELECT 1)"),
        ("INSERT INTO d.t ((SELECT 1) UNION SELECT 2)", (), "((SELECT 1) UNION SELECT 2)"),
        ("/* SELECT */ INSERT INTO d.t (a) WITH w AS (SELECT 1) SELECT 2", ("a",), "WITH w AS (SELECT 1) SELECT 2"),
    ],
)
def test_a_select_behind_the_columns(text: str, columns: tuple[str, ...], select: str) -> None:
    found = read_insert_query(text)
    assert found is not None
    assert (str(found.table).lower(), found.columns) == ("d.t", columns)
    assert text[found.source.tokens[found.first].start :] == select


@pytest.mark.parametrize("text", ["INSERT OVERWRITE d.t SELECT 1", "insert overwrite table d.t (a) (SELECT 1)"])
def test_overwrite_is_told(text: str) -> None:
    found, added = read_insert_query(text), read_insert_query("INSERT INTO d.t SELECT 1")
    assert found is not None
    assert added is not None
    assert (str(found.table), found.overwrites, added.overwrites) == ("d.t", True, False)


def test_rows_of_literals_are_none() -> None:
    assert read_insert_query("INSERT INTO d.t (a) VALUES (1)") is None
    assert read_insert("INSERT INTO d.t (a) VALUES (1)").columns == ("a",)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE d.t VALUES (1)",
        "INSERT OVERWRITE INTO d.t SELECT 1",
        "INSERT INTO t SELECT 1",
        "INSERT INTO d.t (a, A) SELECT 1, 2",
        "INSERT INTO d.t PARTITION (a = 1) SELECT 1",
        "INSERT INTO d.t BY NAME SELECT 1 AS a",
        "INSERT INTO",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(LeaseholdError):
        if read_insert_query(text) is None:
            read_insert(text)
