"""Which columns and rows a SELECT of Spark needs of each table that it names."""

import pytest

from leasehold.core.words.records import Field, UseState
from leasehold.ids import FieldId
from leasehold.limits.statements import FILTER_VALUES_MAX, FILTERS_MAX
from leasehold.sql.front import read
from leasehold.sql.pushdown import ALL, ReadNeeds, needed
from leasehold.sql.references import read_references
from leasehold.sql.where import read_where

TYPES = {
    "a": "BIGINT",
    "b": "INT",
    "s": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP",
    "x": "DOUBLE",
    "f": "FLOAT",
    "y": "BOOLEAN",
    "p": "DECIMAL(10,2)",
    "w": "DECIMAL(38,18)",
    "z": "DECIMAL(38,30)",
    "bin": "BINARY",
}


def fields(names: str) -> list[Field]:
    return [
        Field(id=FieldId(place), name=name, type=TYPES.get(name, "STRING"), nullable=True, state=UseState.IN_USE)
        for place, name in enumerate(names.split(), start=1)
    ]


KNOWN = {"d.t": fields("a b s day at x f y p w bin z"), "d.u": fields("a c s"), "e.t": fields("k")}


def of(text: str) -> dict[int, ReadNeeds]:
    select = read_references(read(text))
    named = {place: KNOWN.get(str(one.name).lower()) for place, one in enumerate(select.references)}
    found = needed(select, {place: one for place, one in named.items() if one is not None})
    for one in found.values():
        assert one.where is None or read_where(one.where), "a scan reads it"
    return found


def columns(text: str) -> list[str | None]:
    """Of each reference, with spaces between them; None for all."""
    found = of(text)
    return [None if one.columns is None else " ".join(one.columns) for _, one in sorted(found.items())]


def where(text: str) -> list[str | None]:
    return [one.where for _, one in sorted(of(text).items())]


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT a FROM d.t", ["a"]),
        ("SELECT A, t.`B`, D.T.s FROM d.t", ["a b s"]),
        ("SELECT count(*) FROM d.t", [""]),
        ("SELECT count(*), 2 * 3 FROM d.t WHERE a > 1", ["a"]),
        ("SELECT * FROM d.t", [None]),
        ("SELECT * EXCEPT (a) FROM d.t", [None]),
        ("SELECT count(t.*) FROM d.t", [None]),
        ("SELECT count(DISTINCT *) FROM d.t", [None]),
        ("SELECT count(*, a) FROM d.t", [None]),
        ("SELECT count(* EXCEPT (a)) FROM d.t", [None]),
        ("SELECT struct(*) FROM d.t", [None]),
        ("SELECT (SELECT max(struct(t.*)) FROM d.u) FROM d.t", ["", None]),
        ("SELECT a FROM d.t WHERE EXISTS (SELECT struct(*)) AND b = 1", [None]),
        ("SELECT (SELECT count(*) FROM d.t), (SELECT sum(a) FROM d.u)", ["a", "a"]),
        ("SELECT u.* FROM d.t JOIN d.u ON t.a = u.a", ["a", None]),
        ("SELECT d.u.* FROM d.t JOIN d.u ON t.a = u.a", ["a", None]),
        ("SELECT * FROM d.t JOIN d.u USING (a)", [None, None]),
        ("SELECT * FROM (d.t JOIN d.u USING (a))", [None, None]),
        ("SELECT * FROM (SELECT b FROM d.t)", ["b"]),
        ("SELECT * FROM (SELECT * FROM d.t) JOIN d.u USING (a)", [None, None]),
        ("SELECT b FROM d.t WHERE EXISTS (SELECT * FROM d.u WHERE u.a = t.a)", ["a b", None]),
        ("SELECT b FROM d.t WHERE a = (SELECT max(a) FROM d.u WHERE c = b)", ["a b", "a c"]),
        ("SELECT l.a, r.b FROM d.t l JOIN d.t r USING (day)", ["a day", "b day"]),
        ("SELECT t.s, u.s FROM d.t, d.u", ["s", "s"]),
        ("SELECT t.s, u.c FROM d.t, d.u", ["s", "c"]),
        ("SELECT t.s, c FROM d.t, d.u", ["s", "c"]),
        ("SELECT a AS b FROM d.t ORDER BY b", ["a b"]),
        ("SELECT a FROM d.t GROUP BY ALL HAVING max(b) > 1 ORDER BY min(x)", ["a b x"]),
        ("SELECT a FROM d.t SORT BY b", ["a b"]),
        ("SELECT rank() OVER w FROM d.t WINDOW w AS (PARTITION BY b ORDER BY s)", ["b s w"]),
        ("WITH v AS (SELECT * FROM d.u) SELECT v.c, t.a FROM v, d.t", [None, "a"]),
        ("SELECT a FROM d.t UNION ALL SELECT c FROM d.u", ["a", "a c"]),
        ("(SELECT a FROM d.t) EXCEPT SELECT * FROM d.u", ["a", None]),
        ("SELECT transform(array(a), y -> y + b) FROM d.t", ["a b y"]),
        ("SELECT m.a.b, t.s.x FROM d.t", ["s"]),
        ("SELECT 's' FROM d.t", ["s"]),
        ("SELECT named_struct('k', a).k FROM d.t -- b", ["a"]),
        ("SELECT date FROM d.t", [""]),
        ("SELECT a FROM `day`.t, d.u", ["a"]),
        ("SELECT 1 FROM day.t JOIN d.t AS a USING (b)", ["a b day"]),
        ("SELECT at FROM d.t", ["at"]),
        ("SELECT a FROM d.t TABLESAMPLE (5 ROWS) VERSION", ["a"]),
        ("SELECT b FROM d.t AS w(a, b)", [None]),
        ("SELECT v.a FROM (d.t) AS v", [None]),
        ("SELECT v.c FROM (d.t JOIN d.u USING (a)) v JOIN d.u ON u.a = v.b", [None, None, "a"]),
        ("SELECT b FROM d.t JOIN (FROM d.u) USING (a)", [None, None]),
        ("SELECT a FROM d.t NATURAL JOIN d.u", [None, None]),
        ("SELECT a FROM d.t LATERAL VIEW explode(s) AS b", [None]),
        ("SELECT a FROM d.t, LATERAL (SELECT t.b)", [None]),
        ("SELECT 1 FROM d.t PIVOT (sum(a) FOR b IN (1))", [None]),
        ("SELECT 1 FROM d.t UNPIVOT (v FOR n IN (a, b))", [None]),
        ("SELECT TRANSFORM(a) USING 'cat' AS (b) FROM d.t", [None]),
        ("SELECT `a|b` FROM d.t", [None]),
        ("SELECT ${column} FROM d.t", [None]),
        ("SELECT IDENTIFIER('a') FROM d.t", [None]),
        ("SELECT a FROM d.t |> WHERE b = 1", [None]),
        ("SELECT a FROM d.t UNION BY NAME SELECT c FROM d.u", [None, None]),
        ("WITH RECURSIVE r AS (SELECT a FROM d.t) SELECT a FROM r", [None]),
        ("SELECT 1 FROM d.t, spark.other", [""]),
        ("SELECT s.a FROM d.t", ["s"]),
    ],
)
def test_columns_whose_names_occur(text: str, found: list[str | None]) -> None:
    assert columns(text) == found


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("a = 1", "`a` = 1"),
        ("A <= -1 AND t.b > 2", "`a` <= -1 AND `b` > 2"),
        ("d.t.a == 1", "`a` = 1"),
        ("(a >= 1 AND (b < 2))", "`a` >= 1 AND `b` < 2"),
        ("a BETWEEN 1 AND 2 AND b = 3", "`a` BETWEEN 1 AND 2 AND `b` = 3"),
        ("a IN (1, -2)", "`a` IN (1, -2)"),
        ("s = 'x' AND s LIKE 'a%'", "`s` = 'x' AND `s` LIKE 'a%'"),
        ("s IN ('x', 'ä 🙂')", "`s` IN ('x', 'ä 🙂')"),
        ("day >= DATE '2013-06-01'", "`day` >= DATE '2013-06-01'"),
        ("at < TIMESTAMP '2013-06-01 12:00:00.5Z'", "`at` < TIMESTAMP '2013-06-01 12:00:00.5Z'"),
        ("at < TIMESTAMP '2013-06-01T12:00:00+05:45'", "`at` < TIMESTAMP '2013-06-01T12:00:00+05:45'"),
        ("x > 1.5", "`x` > 1.5"),
        ("p = 1.25 AND p < 7 AND w >= 0.5", "`p` = 1.25 AND `p` < 7 AND `w` >= 0.5"),
        ("bin IS NOT NULL AND f is not null", "`bin` IS NOT NULL AND `f` IS NOT NULL"),
        ("a = 1 AND rand() < 0.5 AND (b = 2 OR s = 'x')", "`a` = 1"),
        # Never: what a NULL fulfils, what is not joined by AND, and what compares anything but a column with a literal.
        ("a IS NULL", None),
        ("a <> 1", None),
        ("NOT a = 1", None),
        ("NOT (a = 1 AND b = 1)", None),
        ("a = 1 OR b = 2", None),
        ("a <=> 1", None),
        ("a NOT IN (1)", None),
        ("a NOT BETWEEN 1 AND 2", None),
        ("a = b", None),
        ("a + 1 = 2", None),
        ("a = 1 + 1", None),
        ("a = 1 = y", None),
        ("a IN (1, b)", None),
        ("a IN (SELECT 1)", None),
        ("a BETWEEN 1 AND b", None),
        ("a BETWEEN SYMMETRIC 2 AND 1", None),
        ("s NOT LIKE 'a%'", None),
        ("s LIKE 'a_%'", None),
        ("s LIKE '%a'", None),
        ("s LIKE 'a'", None),
        ("s LIKE 'a%' ESCAPE '/'", None),
        ("s LIKE ANY ('a%')", None),
        ("s ILIKE 'a%'", None),
        ("coalesce(a = 1, true)", None),
        ("CASE WHEN a = 1 THEN true END", None),
        # Never: pairs of types that Spark casts, and texts that are not just what stands between the quotes.
        ("a = '1'", None),
        ("a = 1.0", None),
        ("a = 1L", None),
        ("a = 1e3", None),
        ("b = 2147483648", None),
        ("x = 1", None),
        ("x = 0.12345678901234567", None),
        ("x = 1e300", None),
        ("f = 1.5", None),
        ("f = 1", None),
        ("a = BIGINT '5'", None),
        ("p = 1e1", None),
        ("p = 1.234", None),
        ("w = 123456789012345678901", None),
        ("w IN (1, 123456789012345678901)", None),
        # Spark would round the column, to a type that has room for the literal's.
        ("w > 1.000000000000000000", "`w` > 1.000000000000000000"),
        ("w > 1.0000000000000000000", None),
        ("w = 3000000000", "`w` = 3000000000"),
        ("z IN (1, 2)", None),
        ("z < 12345678.5", "`z` < 12345678.5"),
        ("s = 1", None),
        ('s = "x"', None),
        (r"s = 'a\tb'", None),
        (r"s = r'a\tb'", None),
        ("s = 'it''s'", None),
        ("s = 'a' 'b'", None),
        ("s = 'x' COLLATE UTF8_LCASE", None),
        ("s = 'x' AND y = (\"x\" = s)", None),
        ("day = '2013-06-01'", None),
        ("day = DATE '2013-6-1'", None),
        ("day = DATE '2013-02-30'", None),
        ("day = CAST('2013-06-01' AS DATE)", None),
        ("day = DATE '2013-06-01' OR FALSE", None),
        ("at = TIMESTAMP '2013-06-01 12:00:00'", None),
        ("at = TIMESTAMP '2013-06-01'", None),
        ("at = CAST('2013-06-01 12:00:00Z' AS TIMESTAMP)", None),
        ("at = TIMESTAMP '2013-06-01 12:00:00 Europe/Paris'", None),
        ("at > DATE '2013-06-01'", None),
        ("day > TIMESTAMP '2013-06-01 12:00:00Z'", None),
        ("y = TRUE", None),
        ("y", None),
        ("bin = X'00'", None),
        ("other = 1", None),
        ("u.a = 1", None),
        ("e.t.a = 1", None),
    ],
)
def test_conditions_that_spark_and_leasehold_understand_alike(condition: str, taken: str | None) -> None:
    assert where(f"SELECT a FROM d.t WHERE {condition}") == [taken]


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("SELECT a FROM d.t l LEFT JOIN d.u r USING (s) WHERE l.a = 1 AND r.c = 'x'", ["`a` = 1", "`c` = 'x'"]),
        ("SELECT 1 FROM d.t FULL JOIN d.u USING (a) WHERE a = 1 AND t.a = 2", ["`a` = 2", None]),
        ("SELECT 1 FROM d.t JOIN d.u ON t.a = u.a WHERE c = 'x' AND b = 1", ["`b` = 1", "`c` = 'x'"]),
        ("SELECT 1 FROM d.t LEFT SEMI JOIN d.u ON t.a = u.a WHERE b = 1 AND c = 'x'", ["`b` = 1", None]),
        ("SELECT 1 FROM d.t LEFT ANTI JOIN d.u ON t.a = u.a WHERE c = 'x'", [None, None]),
        ("SELECT 1 FROM d.t JOIN d.u ON t.a = 1", [None, None]),
        ("SELECT a FROM d.t GROUP BY a HAVING a = 1", [None]),
        ("SELECT a FROM d.t QUALIFY a = 1", [None]),
        ("SELECT a FROM (SELECT a FROM d.t) WHERE a = 1", [None]),
        ("SELECT a FROM (SELECT a FROM d.t WHERE b = 2) WHERE a = 1", ["`b` = 2"]),
        ("WITH v AS (SELECT a FROM d.t WHERE b = 2) SELECT a FROM v WHERE a = 1", ["`b` = 2"]),
        ("SELECT b AS a FROM d.t WHERE a = 1", ["`a` = 1"]),
        ("SELECT a FROM d.t WHERE a = 1 UNION SELECT a FROM d.t WHERE a = 2", ["`a` = 1", "`a` = 2"]),
        ("SELECT l.a FROM d.t l, d.t r WHERE l.a = 1 AND r.a = 2", ["`a` = 1", "`a` = 2"]),
        ("SELECT 1 FROM d.t, e.t WHERE t.a = 1", [None, None]),
        ("SELECT 1 FROM d.t WHERE EXISTS (SELECT 1 FROM d.u WHERE c = 'x' AND b = 1)", [None, "`c` = 'x'"]),
        ("SELECT 1 FROM d.t WHERE a = 1 AND b IN (SELECT a FROM d.u WHERE s = 'x')", ["`a` = 1", "`s` = 'x'"]),
        ("SELECT sum(a) FILTER (WHERE b = 1) FROM d.t", [None]),
        ("SELECT a FROM d.t TABLESAMPLE (5 ROWS) WHERE a = 1", [None]),
        ("SELECT a FROM (d.t JOIN d.u USING (a)) WHERE b = 1", [None, None]),
        ("SELECT 1 FROM d.t AS w(b, a) WHERE a = 1", [None]),
        ("SELECT a FROM d.t WHERE s = '${x}'", [None]),
        ("SELECT b FROM d.t LATERAL VIEW explode(array(1)) AS b WHERE b = 1", [None]),
        ("SELECT a FROM d.t WHERE a = 1 LIMIT 1", ["`a` = 1"]),
        ("SELECT day FROM d.t WHERE day = DATE '2013-06-01' AND s = '2013-06-01'", ["`s` = '2013-06-01'"]),
    ],
)
def test_only_the_where_of_the_select_that_names_the_table(text: str, taken: list[str | None]) -> None:
    assert where(text) == taken


def test_no_more_conditions_than_a_scan_takes() -> None:
    many = " AND ".join(f"a <> {n} AND a > {n}" for n in range(FILTERS_MAX + 1))
    (found,) = where(f"SELECT a FROM d.t WHERE {many}")
    assert found is not None
    assert len(read_where(found)) == FILTERS_MAX
    listed = ", ".join(map(str, range(FILTER_VALUES_MAX + 1)))
    assert where(f"SELECT a FROM d.t WHERE b = 1 AND a IN ({listed})") == ["`b` = 1"]


def test_nothing_is_decided_for_names_of_others() -> None:
    assert of("SELECT v.a FROM d.view v, d.t WHERE v.a = 1 AND t.a = 2") == {1: ReadNeeds(("a",), "`a` = 2")}
    assert of("SELECT * FROM d.t NATURAL JOIN d.view") == {0: ALL}
