"""The SELECT of a view against a catalog: what it comes to, what it needs, and what is refused."""

import pytest
from sqlglot import parse_one

from leasehold.core.words.statements import CreateView, TableName
from leasehold.errors import LeaseholdError, NotFound, Refused
from leasehold.limits.statements import VIEW_COLUMNS_EXPANDED_MAX, VIEW_COLUMNS_JOINED_MAX
from leasehold.sql.parse import parse
from leasehold.sql.view_size import check_size
from leasehold.sql.views import resolve, written
from tests.unit.core.catalog_words import create_database
from tests.unit.core.ddl_words import ground, run

TABLES = (
    "CREATE TABLE db.T (A INT, b STRING, ts TIMESTAMP, d DECIMAL(10,2))",
    "CREATE TABLE db.u (a BIGINT, c DOUBLE)",
)


@pytest.fixture(scope="module")
def base():
    whole = ground(create_database(), *map(parse, TABLES))
    statement = parse("CREATE VIEW db.below AS SELECT A AS First, b, d * 2 AS double_d FROM db.t")
    whole.begin(statement, view=resolve(statement, whole.catalog))
    return whole


def view(base, body, names=""):
    statement = parse(f"CREATE VIEW db.v {names} AS {body}")
    assert isinstance(statement, CreateView)
    return resolve(statement, base.catalog)


def tree(body):
    return parse_one(body, dialect="spark")


def columns(base, body, names=""):
    return [(column.name, column.type) for column in view(base, body, names).columns]


def needs(base, body):
    names = {one.id: one.name for one in (*base.catalog.tables.values(), *base.catalog.views.values())}
    return {names[need.object]: need.fields for need in view(base, body).needs}


def refused(base, code, body, names="", kind=Refused):
    with pytest.raises(kind) as caught:
        view(base, body, names)
    assert caught.value.code == code, caught.value.text
    assert caught.value.hint
    return caught.value.text


# ---------------------------------------------------------------- columns


def test_a_star_is_written_out_with_the_names_as_they_are_spelled(base):
    assert columns(base, "SELECT * FROM db.t") == [
        ("A", "INT"),
        ("b", "STRING"),
        ("ts", "TIMESTAMP"),
        ("d", "DECIMAL(10,2)"),
    ]
    assert view(base, "SELECT t.* EXCEPT (b, ts) FROM db.t").body == (
        "SELECT `t`.`a` AS `a`, `t`.`d` AS `d` FROM `db`.`t` AS `t`"
    )


def test_types_are_told_where_every_engine_agrees(base):
    body = "SELECT a AS Foo, count(*) AS n, sum(a) AS s, CAST(b AS DATE) AS day, d + 1 AS e FROM db.t GROUP BY a, b, d"
    assert columns(base, body) == [("Foo", "INT"), ("n", "BIGINT"), ("s", ""), ("day", "DATE"), ("e", "")]
    assert columns(base, "WITH q AS (SELECT a x, a + 1 y FROM db.t) SELECT x, y FROM q") == [("x", "INT"), ("y", "")]
    assert columns(base, "SELECT first, double_d FROM db.below") == [("first", "INT"), ("double_d", "")]


def test_a_union_has_the_types_that_all_of_it_agrees_on(base):
    assert columns(base, "SELECT A, b FROM db.t UNION ALL SELECT a, CAST(c AS STRING) FROM db.u") == [
        ("A", ""),
        ("b", "STRING"),
    ]


def test_columns_take_the_names_that_the_view_gives(base):
    assert columns(base, "SELECT a + 1, b FROM db.t ORDER BY b", "(One, Two)") == [("One", ""), ("Two", "STRING")]
    refused(base, "COLUMN_COUNT", "SELECT a FROM db.t", "(one, two)")


def test_every_column_has_a_name_of_its_own(base):
    assert "column 2 of the view has no name: a + 1" in refused(base, "NO_COLUMN_NAME", "SELECT a, a + 1 FROM db.t")
    refused(base, "NO_COLUMN_NAME", "SELECT count(*) FROM db.t")
    refused(base, "DUPLICATE_COLUMN", "SELECT * FROM db.t JOIN db.u ON t.a = u.a")
    refused(base, "DUPLICATE_COLUMN", "SELECT a AS x, b AS X FROM db.t")


# ---------------------------------------------------------------- needs


def test_it_needs_the_columns_that_are_named_anywhere(base):
    assert needs(base, "SELECT a FROM db.t") == {"T": (1,)}
    assert needs(base, "SELECT a FROM db.t WHERE d > 1 ORDER BY ts") == {"T": (1, 3, 4)}
    assert needs(base, "SELECT count(*) AS n FROM db.t") == {"T": ()}
    assert needs(base, "SELECT 1 AS one") == {}
    assert needs(base, "SELECT double_d FROM db.below") == {"below": ()}


def test_it_needs_what_subqueries_name_of_tables_around_them(base):
    body = (
        "SELECT x.b FROM db.t x WHERE EXISTS (SELECT 1 FROM db.u y WHERE y.a = x.a AND y.c > (SELECT max(d) FROM db.t))"
    )
    assert needs(base, body) == {"T": (1, 2, 4), "u": (1, 2)}
    assert needs(base, "SELECT q.a FROM (SELECT * FROM db.t) q JOIN db.u USING (a)") == {"T": (1, 2, 3, 4), "u": (1,)}


def test_the_stored_text_comes_to_the_same_again(base):
    bodies = (
        "SELECT * FROM db.t",
        "WITH q AS (SELECT a, d FROM db.t) SELECT q.*, u.C FROM q JOIN db.u USING (a) LIMIT 3",
        "SELECT a, row_number() OVER (PARTITION BY b ORDER BY ts DESC) AS n FROM db.t QUALIFY n = 1",
        "(SELECT a FROM db.t) UNION (SELECT a FROM db.u) ORDER BY a",
    )
    for body in bodies:
        first = view(base, body)
        again = CreateView(
            view=TableName("db", "v"),
            body=first.body,
            reads=(TableName("db", "t"), TableName("db", "u")),
            names=tuple(column.name for column in first.columns),
        )
        assert resolve(again, base.catalog).body == first.body


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("SELECT nope FROM db.t", "nope"),
        ("SELECT t.nope FROM db.t", "nope"),
        ("SELECT z.a FROM db.t", "'z'"),
        ("SELECT a FROM db.t JOIN db.u ON true", "'a'"),
        ("SELECT c FROM db.t WHERE EXISTS (SELECT c FROM db.u)", "'c'"),
    ],
)
def test_a_column_that_is_not_there_or_of_two_tables_is_named(base, body, said):
    assert said in refused(base, "NO_SUCH_COLUMN", body, kind=NotFound)


def test_a_table_that_is_not_there_is_named(base):
    assert "db.none" in refused(base, "NOT_FOUND", "SELECT a FROM db.none", kind=NotFound)
    assert "other" in refused(base, "NOT_FOUND", "SELECT a FROM other.t", kind=NotFound)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT java_method('java.lang.System', 'exit', 1) AS x FROM db.t",
        "SELECT no_such_function(a) AS x FROM db.t",
        "SELECT count(DISTINCT *) AS n FROM db.t",
        "SELECT a FROM db.t PIVOT (sum(d) FOR b IN ('x', 'y'))",
        "SELECT :x AS x FROM db.t",
    ],
)
def test_what_can_not_be_checked_or_reaches_outside_is_refused(base, body):
    """Here or by the parser, whichever sees it first."""
    with pytest.raises(Refused) as caught:
        view(base, body)
    assert caught.value.code in {"NOT_IN_A_VIEW", "BAD_STATEMENT"}


@pytest.mark.parametrize(
    "body",
    [
        "SELECT struct(*) AS x FROM db.t",
        "SELECT count(t.*) AS x FROM db.t",
        "SELECT count(DISTINCT t.*) AS x FROM db.t",
        "SELECT count(*, a) AS x FROM db.t",
        "SELECT to_json(struct(t.*)) AS x FROM db.t",
        "SELECT coalesce(*) AS x FROM db.t",
        "SELECT array(*) AS x FROM db.t",
        "SELECT a FROM db.t WHERE b IN (*)",
    ],
)
def test_a_star_within_an_expression_is_refused(base, body):
    """It would be stored as it stands, and mean other columns later."""
    with pytest.raises(Refused) as caught:
        view(base, body)
    assert caught.value.code in {"NOT_IN_A_VIEW", "BAD_STATEMENT"}


def test_stars_that_are_written_out_stay_allowed(base):
    assert columns(base, "SELECT count(*) AS n, count(*) OVER () AS m FROM db.t") == [("n", "BIGINT"), ("m", "")]
    assert needs(base, "SELECT 1 AS x WHERE EXISTS (SELECT t.* EXCEPT (a) FROM db.t)") == {"T": (2, 3, 4)}


def test_a_natural_join_is_refused(base):
    """Columns that are added later would be joined by too."""
    assert "NATURAL" in refused(base, "NOT_IN_A_VIEW", "SELECT b FROM db.t NATURAL JOIN db.u")


def test_the_branches_of_a_union_are_matched_by_position(base):
    for way in ("UNION BY NAME", "UNION ALL BY NAME"):
        refused(base, "NOT_IN_A_VIEW", f"SELECT a, b FROM db.t {way} SELECT a, c FROM db.u")
    for several in ("UNION", "INTERSECT", "EXCEPT", "UNION ALL SELECT 1, 2 UNION ALL"):
        assert "4 and 2 columns" in refused(base, "COLUMN_COUNT", f"SELECT * FROM db.t {several} SELECT * FROM db.u")
    inner = "SELECT x.a FROM (SELECT a, b FROM db.t UNION ALL SELECT a FROM db.u) x"
    assert "2 and 1 columns" in refused(base, "COLUMN_COUNT", inner)


@pytest.mark.parametrize(
    "function",
    ["current_user()", "session_user()", "current_role()", "current_schema()", "current_database()", "read_csv('/x')"],
)
def test_what_differs_with_the_process_that_reads_is_refused(base, function):
    """DuckDB would tell `duckdb`, and Spark the user of the operating system."""
    assert function[:8].upper() in refused(base, "NOT_IN_A_VIEW", f"SELECT {function} AS x FROM db.t").upper()


def test_functions_that_read_files_are_refused_whoever_wrote_the_body(base):
    for source in ("read_text('/etc/passwd')", "range(10)"):
        statement = CreateView(view=TableName("db", "v"), body=f"SELECT * FROM {source}", reads=())
        with pytest.raises(Refused) as caught:
            resolve(statement, base.catalog)
        assert caught.value.code == "NOT_IN_A_VIEW"


def test_two_tables_of_one_name_are_told_apart(base):
    whole = ground(
        create_database(), create_database("other"), *map(parse, (TABLES[0], "CREATE TABLE other.t (x INT)"))
    )
    assert needs(whole, "SELECT other.t.x, db.t.a FROM db.t CROSS JOIN other.t") == {"T": (1,), "t": (1,)}
    assert needs(whole, "SELECT x FROM db.t CROSS JOIN other.t") == {"T": (), "t": (1,)}


def test_stars_over_stars_end_at_a_bound(base):
    wide = ", ".join(f"c{place} INT" for place in range(1_000))
    whole = ground(create_database(), parse(f"CREATE TABLE db.w ({wide})"))
    many = VIEW_COLUMNS_EXPANDED_MAX // 1_000 + 1
    body = "SELECT " + ", ".join(f"(SELECT count(*) FROM (SELECT * FROM db.w)) AS n{one}" for one in range(many))
    refused(whole, "TOO_MANY_COLUMNS", body)
    doubled = "".join(f", q{one} AS (SELECT x.* FROM q{one - 1} x CROSS JOIN q{one - 1} y)" for one in range(1, 60))
    refused(whole, "TOO_MANY_COLUMNS", f"WITH q0 AS (SELECT * FROM db.w){doubled} SELECT c0 FROM q59")


def test_nothing_but_our_errors_comes_of_any_body(base):
    bodies = (
        "",
        "SELECT",
        "SELECT (",
        "DROP TABLE x",
        "SELECT * FROM",
        "WITH a AS (SELECT 1 x) SELECT * FROM b.c",
        "é",
    )
    for body in bodies:
        with pytest.raises(LeaseholdError):
            resolve(CreateView(view=TableName("db", "v"), body=body, reads=()), base.catalog)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT * FROM db.t",
        "SELECT t.*, x.c FROM db.t JOIN db.u x USING (a) JOIN db.t y USING (a, b) WHERE a > 1",
        "SELECT a + 1 AS x, x * x AS y, y + x + a AS z FROM db.t WHERE z > 1 GROUP BY 1, 2, z",
        "SELECT (SELECT max(a) FROM (SELECT * FROM db.t)) AS x, x AS y, x + y AS z FROM db.u",
        "WITH q AS (SELECT * FROM db.t UNION ALL SELECT * FROM db.t) SELECT * FROM (SELECT * FROM q) AS r",
        "SELECT a FROM db.t WHERE EXISTS (SELECT * FROM db.u WHERE c > 1 ORDER BY c)",
        "SELECT *, a + d AS e FROM db.t GROUP BY 1, 2, 3, 4, 5",
    ],
)
def test_what_names_come_to_is_never_counted_short(base, body):
    comes_to = sum(1 for _ in tree(view(base, body).body).walk())
    assert check_size(tree(body), {("db", "t"): 4, ("db", "u"): 2}) >= comes_to


@pytest.mark.parametrize(
    "body",
    [
        "SELECT a + a AS x0" + "".join(f", x{one} + x{one} AS x{one + 1}" for one in range(14)) + " FROM db.t",
        f"SELECT {'+'.join(['a'] * 200)} AS x FROM db.t GROUP BY {','.join(['1'] * 100)}",
        f"SELECT {'+'.join(['a'] * 200)} AS x FROM db.t HAVING {' AND '.join(['x = 1'] * 100)}",
        f"SELECT {'+'.join(['a'] * 2_000)} AS x FROM db.t",
        "SELECT t.a FROM db.t" + "".join(f" JOIN db.t AS t{one} USING (a, b, ts, d)" for one in range(100)),
    ],
    ids=["aliases of aliases", "positions", "HAVING", "a chain", "USING"],
)
def test_a_text_that_comes_to_far_more_than_its_length_is_refused(base, body):
    """Each of these took seconds, and the first gigabytes with as many words again."""
    refused(base, "SELECT_TOO_LONG", body)


def test_what_is_read_again_and_again_ends_at_a_bound():
    wide = ", ".join(f"c{place} INT" for place in range(2_000))
    whole = ground(create_database(), parse(f"CREATE TABLE db.w ({wide})"))
    read = VIEW_COLUMNS_JOINED_MAX // 2_000
    bodies = [" CROSS JOIN ".join(f"db.w AS x{one}" for one in range(many)) for many in (read, read + 1)]
    assert columns(whole, f"SELECT x0.c1 FROM {bodies[0]}") == [("c1", "INT")]
    refused(whole, "TOO_MANY_COLUMNS", f"SELECT x0.c1 FROM {bodies[1]}")


# ---------------------------------------------------------------- for an engine


def test_tables_are_called_by_their_words_in_each_dialect(base):
    body = view(base, "SELECT T.a / 2 AS half, b FROM db.T WHERE d > 1 ORDER BY a").body
    words = {"db.T": "one", "db.u": "two"}
    assert written(body, words, "spark").endswith("FROM `one` AS `t` WHERE `t`.`d` > 1 ORDER BY `t`.`a`")
    assert 'FROM "one" AS "t"' in written(body, words, "duckdb")
    # Spark sorts NULL first, and so does what DuckDB is given.
    assert written(body, words, "duckdb").endswith("NULLS FIRST")


def test_names_of_ctes_are_left_alone(base):
    body = view(base, "WITH t AS (SELECT c FROM db.u) SELECT c FROM t").body
    assert written(body, {"db.u": "two"}, "spark") == (
        "WITH `t` AS (SELECT `u`.`c` AS `c` FROM `two` AS `u`) SELECT `t`.`c` AS `c` FROM `t` AS `t`"
    )


def test_a_view_that_was_dropped_since_can_not_be_read(base):
    whole = ground(create_database(), *map(parse, TABLES))
    run(whole, parse("DROP TABLE db.u"))
    with pytest.raises(NotFound):
        view(whole, "SELECT a FROM db.u")
