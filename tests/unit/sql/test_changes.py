"""UPDATE and MERGE INTO: what they name, and what is refused in them."""

import pytest

from leasehold.errors import LeaseholdError
from leasehold.sql.changes import Matched, NotMatched, read_merge, read_update


def test_an_update_says_what_becomes_of_which_rows() -> None:
    found = read_update("update d.T as x set x.a = x.a + 1, B = CASE WHEN c IN (1, 2) THEN 'where, ' END WHERE d > 3;")
    assert (str(found.table), found.alias, found.where) == ("d.T", "x", "d > 3")
    assert found.changes == {"a": "x.a + 1", "B": "CASE WHEN c IN (1, 2) THEN 'where, ' END"}


def test_an_update_of_all_rows_is_qualified_with_the_table() -> None:
    found = read_update("UPDATE d.t SET `a` = t.end, t.b = map(1, array(2, 3)[0])")
    assert (found.alias, found.where) == ("t", None)
    assert found.changes == {"a": "t.end", "b": "map(1, array(2, 3)[0])"}


@pytest.mark.parametrize(
    ("clauses", "matched", "not_matched"),
    [
        ("WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", "update", "insert"),
        ("WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN DELETE", "delete", "insert"),
        (
            "WHEN MATCHED THEN UPDATE SET t.n = CASE WHEN s.n > 1 THEN s.n ELSE 0 END, m = 2",
            {"n": "CASE WHEN s.n > 1 THEN s.n ELSE 0 END", "m": "2"},
            "ignore",
        ),
        ("WHEN NOT MATCHED THEN INSERT (K, n) VALUES (s.`k`, abs(s.n, 1))", "ignore", {"n": "abs(s.n, 1)"}),
    ],
)
def test_a_merge_says_what_becomes_of_rows(clauses: str, matched: Matched, not_matched: NotMatched) -> None:
    found = read_merge(f"MERGE INTO d.t USING d.late AS s ON t.k = s.K {clauses}")
    assert (str(found.table), found.target_alias, found.source_alias, found.on) == ("d.t", "t", "s", ("k",))
    assert found.source == "SELECT * FROM d.late AS `s`"
    assert (found.when_matched, found.when_not_matched) == (matched, not_matched)


@pytest.mark.parametrize(
    ("using", "source", "alias"),
    [
        ("late", "SELECT * FROM late AS `late`", "late"),
        ("d.late VERSION AS OF 7 x", "SELECT * FROM d.late VERSION AS OF 7 AS `x`", "x"),
        ("(SELECT a AS k FROM u AS v) x", "SELECT * FROM (SELECT a AS k FROM u AS v) AS `x`", "x"),
    ],
)
def test_the_source_of_a_merge_is_a_table_or_a_select(using: str, source: str, alias: str) -> None:
    found = read_merge(f"MERGE INTO d.t USING {using} ON {alias}.k = t.k AND t.l = {alias}.l WHEN MATCHED THEN DELETE")
    assert (found.source, found.source_alias, found.on) == (source, alias, ("k", "l"))


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET a = 1",
        "UPDATE d.t SET",
        "UPDATE d.t SET a",
        "UPDATE d.t SET a = ",
        "UPDATE d.t SET a = 1,",
        "UPDATE d.t SET a = 1, A = 2",
        "UPDATE d.t SET u.a = 1",
        "UPDATE d.t SET a = (1",
        "UPDATE d.t SET a = 1)",
        "UPDATE d.t SET a = 1 WHERE",
        "UPDATE d.t SET a = 1 WHERE b = 1)",
        "UPDATE d.t VERSION AS OF 3 SET a = 1",
    ],
)
def test_no_update(text: str) -> None:
    with pytest.raises(LeaseholdError) as caught:
        read_update(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MERGE INTO t USING d.s ON t.k = s.k WHEN MATCHED THEN DELETE", "two parts"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k", "WHEN MATCHED"),
        ("MERGE INTO d.t USING d.s WHEN MATCHED THEN DELETE", "'ON'"),
        ("MERGE INTO d.t USING d.t ON t.k = t.k WHEN MATCHED THEN DELETE", "both sides are called t"),
        ("MERGE INTO d.t USING (SELECT 1 AS k) ON t.k = s.k WHEN MATCHED THEN DELETE", "a name is expected"),
        ("MERGE INTO d.t USING d.s ON t.k = s.l WHEN MATCHED THEN DELETE", "one name on both sides"),
        ("MERGE INTO d.t USING d.s ON k = s.k WHEN MATCHED THEN DELETE", "the name of its side"),
        ("MERGE INTO d.t USING d.s ON t.k > s.k WHEN MATCHED THEN DELETE", "'=' is expected"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k OR t.l = s.l WHEN MATCHED THEN DELETE", "near 'OR'"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN MATCHED AND s.x > 1 THEN DELETE", "near 'AND'"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE", "near 'BY'"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", "twice"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)", "s.k is expected"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.n)", "s.k is expected"),
        ("MERGE INTO d.t USING d.s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k)", "1 values"),
    ],
)
def test_no_merge(text: str, said: str) -> None:
    with pytest.raises(LeaseholdError) as caught:
        read_merge(text)
    assert said in str(caught.value)
    assert caught.value.hint
