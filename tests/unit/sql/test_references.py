"""The tables that a SELECT for Spark names, and its text with other names."""

import pytest

from leasehold.errors import BadStatement
from leasehold.sql.front import read
from leasehold.sql.references import read_references, rewritten


def rewrite(text: str, *without: int) -> str:
    """With the word `w0` for the first reference, and so on; those at the places `without` are not of the cluster."""
    select = read_references(read(text))
    return rewritten(select, {place: f"w{place}" for place in range(len(select.references)) if place not in without})


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("SELECT a FROM d.t", "SELECT a FROM `w0` AS `t`"),
        ("SELECT a FROM d.t x;", "SELECT a FROM `w0` x"),
        ("select A from D.`T` as `x y`", "select A from `w0` as `x y`"),
        ("SELECT t.a, d.t.b, D.T.* FROM d.t", "SELECT t.a, t.b, T.* FROM `w0` AS `t`"),
        ("SELECT x.a FROM d.t x JOIN d.t y USING (a)", "SELECT x.a FROM `w0` x JOIN `w1` y USING (a)"),
        (
            "SELECT * FROM d.t, e.u LEFT JOIN d.t v ON TRUE",
            "SELECT * FROM `w0` AS `t`, `w1` AS `u` LEFT JOIN `w2` v ON TRUE",
        ),
        ("SELECT * FROM d.t(x, y)", None),
        ("SELECT * FROM d.t AS w(x, y)", "SELECT * FROM `w0` AS w(x, y)"),
        ("SELECT * FROM d.t -- e.u\nWHERE a = 'd.t' /* d.t */", "SELECT * FROM `w0` AS `t` -- e.u\nWHERE a = 'd.t'"),
        ("SELECT 'é🙂d.t', a FROM d.t", "SELECT 'é🙂d.t', a FROM `w0` AS `t`"),
        ("WITH t AS (SELECT * FROM d.t) SELECT * FROM t", "WITH t AS (SELECT * FROM `w0` AS `t`) SELECT * FROM t"),
        ("WITH d AS (SELECT 1 a) SELECT d.a FROM d", "WITH d AS (SELECT 1 a) SELECT d.a FROM d"),
        ("(SELECT a FROM d.t) UNION SELECT a FROM d.u", "(SELECT a FROM `w0` AS `t`) UNION SELECT a FROM `w1` AS `u`"),
        (
            "SELECT a FROM d.t WHERE a IN (SELECT a FROM d.u u)",
            "SELECT a FROM `w0` AS `t` WHERE a IN (SELECT a FROM `w1` u)",
        ),
        ("SELECT * FROM (d.t JOIN d.u USING (a))", "SELECT * FROM (`w0` AS `t` JOIN `w1` AS `u` USING (a))"),
        ("SELECT * FROM d.t VERSION AS OF 7", "SELECT * FROM `w0` AS `t`"),
        ("SELECT * FROM d.t FOR VERSION AS OF '7' x", "SELECT * FROM `w0` x"),
        ("SELECT * FROM d.t TIMESTAMP AS OF '2026' AS x", "SELECT * FROM `w0` AS x"),
        (
            "SELECT * FROM d.t TABLESAMPLE (5 ROWS) WHERE TRUE",
            "SELECT * FROM `w0` TABLESAMPLE (5 ROWS) AS `t` WHERE TRUE",
        ),
        ("SELECT * FROM d.t TABLESAMPLE (BUCKET 1 OUT OF 2) x", "SELECT * FROM `w0` TABLESAMPLE (BUCKET 1 OUT OF 2) x"),
        ("SELECT * FROM d.t PIVOT (sum(a) FOR b IN (1))", "SELECT * FROM `w0` AS `t` PIVOT (sum(a) FOR b IN (1))"),
        ("SELECT /*+ BROADCAST(t) */ a FROM d.t", "SELECT /*+ BROADCAST(t) */ a FROM `w0` AS `t`"),
        ("SELECT /*+ BROADCAST(d.t) */ a FROM d.t", "SELECT /*+ BROADCAST(d.t) */ a FROM `w0` AS `t`"),
        ("SELECT d.t.a FROM d.t x", "SELECT d.t.a FROM `w0` x"),
        ("SELECT d.f(a) FROM d.t", "SELECT d.f(a) FROM `w0` AS `t`"),
        ("SELECT * FROM parquet.`/d.t`, c.d.t, t", "SELECT * FROM parquet.`/d.t`, c.d.t, t"),
        ("SELECT * FROM VALUES (1) AS t(a)", "SELECT * FROM VALUES (1) AS t(a)"),
    ],
)
def test_only_the_names_are_replaced(text: str, becomes: str | None) -> None:
    if becomes is None:
        assert rewrite(text) == text, "a function is no table"
    else:
        assert rewrite(text) == becomes


def test_names_of_others_stay_with_what_belongs_to_them() -> None:
    text = "SELECT d.t.a, e.u.a FROM d.t VERSION AS OF 7 JOIN e.u USING (a)"
    assert rewrite(text, 0) == "SELECT d.t.a, u.a FROM d.t VERSION AS OF 7 JOIN `w1` AS `u` USING (a)"
    assert rewrite(text, 0, 1) == text


def test_what_stands_behind_a_name() -> None:
    text = "SELECT * FROM d.t VERSION AS OF 7, d.u TIMESTAMP AS OF '2026-06-15T12:30:00Z' v, D.T"
    versioned, timed, plain = read_references(read(text)).references
    assert (str(versioned.name), versioned.alias, versioned.revision, versioned.time) == ("d.t", "t", 7, None)
    assert (str(timed.name), timed.alias, timed.revision, timed.time) == ("d.u", "v", None, "2026-06-15T12:30:00Z")
    assert (str(plain.name), plain.alias, plain.revision, plain.time) == ("D.T", "T", None, None)


def test_a_select_behind_other_words() -> None:
    source = read("INSERT INTO d.t SELECT a FROM d.u")
    select = read_references(source, source.forms.index("SELECT"))
    assert rewritten(select, {0: "w"}) == "SELECT a FROM `w` AS `u`"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM d.t VERSION AS OF -1",
        "SELECT * FROM d.t VERSION AS OF 1.5",
        "SELECT * FROM d.t VERSION AS OF x",
        "SELECT * FROM d.t TIMESTAMP AS OF current_timestamp()",
        "SELECT * FROM d.t VERSION AS OF",
        "SELECT d.t.a FROM d.t JOIN e.t ON TRUE",
        "DELETE FROM d.t",
        "SELECT",
        "SELECT a FROM d.t SELECT",
    ],
)
def test_what_can_not_be_resolved_is_refused(text: str) -> None:
    with pytest.raises(BadStatement):
        rewrite(text)


def test_two_tables_of_one_name_need_an_alias_only_where_it_matters() -> None:
    assert rewrite("SELECT 1 FROM d.t JOIN e.t") == "SELECT 1 FROM `w0` AS `t` JOIN `w1` AS `t`"
    assert rewrite("SELECT e.t.a FROM d.t x JOIN e.t") == "SELECT t.a FROM `w0` x JOIN `w1` AS `t`"
