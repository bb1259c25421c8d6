"""SELECTs that DuckDB runs over scans, of tables and through views: rows, types, and what others make of them."""

import datetime as dt
import sys
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from leasehold.errors import NotFound, NotInstalled, Refused
from tests.unit.client.query_words import AT, Tables, read, select


def test_columns_have_the_names_of_the_view_in_its_order() -> None:
    body = "SELECT `t`.`a` AS `a`, `t`.`d` * 2 AS `_col_1` FROM `db`.`t` AS `t` WHERE `t`.`a` > 3"
    rows = read(Tables(), ("db.v", body, ("Number", "Twice"))).read_all()
    assert rows.to_pylist() == [{"Number": a, "Twice": Decimal("0.20")} for a in (4, 5)]


def test_a_table_named_twice_is_read_twice_and_whole() -> None:
    tables = Tables()
    body = "SELECT `x`.`a` AS `a` FROM `db`.`t` AS `x` JOIN `db`.`t` AS `y` ON `x`.`a` = `y`.`a` ORDER BY `x`.`a`"
    assert read(tables, ("db.v", body, ("a",))).read_all().to_pydict() == {"a": [0, 1, 2, 3, 4, 5]}
    assert (tables.opened, tables.ended) == (2, 2)


def test_a_view_reads_the_views_before_it() -> None:
    low = ("db.low", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t` WHERE `t`.`a` < 4", ("small",))
    top = ("db.top", "SELECT MAX(`low`.`small`) AS `m` FROM `db`.`low` AS `low`", ("m",))
    assert read(Tables(), low, top).read_all().to_pydict() == {"m": [3]}


def test_types_are_those_of_tables_and_integers_end_at_64_bits() -> None:
    body = (
        "SELECT SUM(`t`.`a`) AS `s`, COUNT(*) AS `n`, MAX(`t`.`d`) AS `d`, MAX(`t`.`ts`) AS `ts` FROM `db`.`t` AS `t`"
    )
    reader = read(Tables(), ("db.v", body, ("s", "n", "d", "ts")))
    assert [str(kind) for kind in reader.schema.types] == [
        "int64",
        "int64",
        "decimal128(10, 2)",
        "timestamp[us, tz=UTC]",
    ]
    assert reader.read_all().to_pylist() == [{"s": 15, "n": 6, "d": Decimal("0.10"), "ts": AT}]


def test_a_day_is_a_day_of_utc() -> None:
    body = "SELECT CAST(`t`.`ts` AS DATE) AS `day` FROM `db`.`t` AS `t` LIMIT 1"
    assert read(Tables(), ("db.v", body, ("day",))).read_all().to_pydict() == {"day": [dt.date(2026, 7, 1)]}


def test_what_ends_a_scan_is_raised_as_it_is() -> None:
    dropped = NotFound("view db.v was dropped", code="VIEW_DROPPED")
    for body in ("SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t`", "SELECT SUM(`t`.`a`) AS `a` FROM `db`.`t` AS `t`"):
        with pytest.raises(NotFound) as caught:
            read(Tables(ends_with=dropped), ("db.v", body, ("a",))).read_all()
        assert caught.value is dropped


def test_what_duckdb_says_comes_as_our_error() -> None:
    body = "SELECT CAST('x' AS DECIMAL(38,0)) + NO_SUCH(`t`.`a`) AS `a` FROM `db`.`t` AS `t`"
    with pytest.raises(Refused, match=r"(?i)no_such") as caught:
        read(Tables(), ("db.v", body, ("a",)))
    assert caught.value.code == "NOT_ON_THIS_ENGINE"


# ---------------------------------------------------------------- what is typed


def test_only_the_columns_that_are_named_are_read() -> None:
    for text, columns in (
        ("SELECT A FROM db.T", ["a"]),
        ("SELECT d + 1 AS e FROM db.t WHERE ts IS NOT NULL", ["d", "ts"]),
        ("SELECT count(*) FROM db.t", ["a"]),  # the narrowest stands for the rows
        ("SELECT * FROM db.t", ["a", "d", "ts"]),
        ("SELECT x.a FROM db.t x WHERE EXISTS (SELECT 1 FROM db.t y WHERE y.d = x.d)", ["a", "d"]),
    ):
        tables = Tables()
        select(tables, text).read_all()
        assert {tuple(one) for one in tables.columns} == {tuple(columns)}, text


def test_columns_are_called_as_they_were_written() -> None:
    answer = select(Tables(), "SELECT count(*), Max(a), A AS `Next`, x.a, x.a + 1 FROM db.t AS x GROUP BY x.a LIMIT 1")
    assert answer.read_all().schema.names == ["COUNT(*)", "MAX(a)", "Next", "a", "x.a + 1"]


def test_the_name_of_a_table_stands_for_its_rows() -> None:
    answer = select(Tables(), " db.T ")
    assert [str(kind) for kind in answer.schema.types] == ["int32", "decimal128(10, 2)", "timestamp[us, tz=UTC]"]
    assert answer.read_all().num_rows == 6


def test_rows_come_in_the_order_that_was_asked_for() -> None:
    tables = Tables(batches=40, rows=10_000)
    numbers = select(tables, "SELECT a FROM db.t ORDER BY a DESC").read_all()["a"].to_pylist()
    assert numbers == list(range(399_999, -1, -1))


def test_a_table_is_read_directly_and_through_a_view_at_once() -> None:
    low = ("db.low", "SELECT `t`.`a` AS `a` FROM `db`.`t` AS `t` WHERE `t`.`a` < 2", ("small",))
    answer = select(Tables(), "SELECT count(*) AS n FROM db.t JOIN db.low ON a >= small", low)
    assert answer.read_all().to_pydict() == {"n": [6 + 5]}


def test_a_select_without_a_table_runs() -> None:
    assert select(Tables(), "SELECT 1 + 1 AS two, 'it''s' AS said").read_all().to_pylist() == [
        {"two": 2, "said": "it's"}
    ]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("SELECT nope FROM db.t", "NO_SUCH_COLUMN", "column 'nope' at line 1, column 8"),
        ("SELECT aa FROM db.t", "NO_SUCH_COLUMN", "'aa'"),
        ("SELECT q.* FROM db.t", "BAD_STATEMENT", "q"),
        ("SELECT a FROM t", "BAD_IDENTIFIER", "'t'"),
        ("SELECT a\n FROM db.t WHERE", "BAD_STATEMENT", "line 2, column 12"),
        ("SELECT a FROM db.t SORT BY a", "NOT_ON_THIS_ENGINE", "SORT BY"),
        ("SELECT a FROM db.t DISTRIBUTE BY a", "NOT_ON_THIS_ENGINE", "DISTRIBUTE BY"),
        ("SELECT a FROM db.t CLUSTER BY a", "NOT_ON_THIS_ENGINE", "CLUSTER BY"),
        ("SELECT y FROM db.t LATERAL VIEW explode(split('a b', ' ')) q AS y", "NOT_ON_THIS_ENGINE", "LATERAL VIEW"),
        ("SELECT /*+ BROADCAST(t) */ a FROM db.t", "NOT_ON_THIS_ENGINE", "BROADCAST"),
        ("SELECT input_file_name() FROM db.t", "NOT_ON_THIS_ENGINE", "input_file_name"),
        ("SELECT TRANSFORM(a) USING 'cat' AS (b) FROM db.t", "NOT_ON_THIS_ENGINE", "TRANSFORM"),
        ("SELECT schema_of_json('{}') FROM db.t", "NOT_ON_THIS_ENGINE", "schema_of_json"),
        ("SELECT a, count(*) FROM db.t", "QUERY_FAILED", "GROUP BY"),
        ("SELECT sum(9223372036854775807) AS s FROM db.t", "QUERY_FAILED", ""),
    ],
)
def test_what_is_refused_says_why(text: str, code: str, said: str) -> None:
    with pytest.raises(Refused) as caught:
        select(Tables(), text).read_all()
    assert caught.value.code == code
    assert said in caught.value.text
    assert "leasehold_" not in caught.value.text
    assert caught.value.hint


def test_what_only_spark_runs_comes_with_the_line_to_type() -> None:
    with pytest.raises(Refused) as caught:
        select(Tables(), "SELECT a FROM db.T SORT BY a")
    assert caught.value.hint == (
        'in Python: import leasehold.spark; spark = leasehold.spark.session(cluster="here:1");'
        " leasehold.spark.sql(spark, 'SELECT a FROM db.T SORT BY a').show()"
    )


# ---------------------------------------------------------------- what others make of it


def test_the_answer_is_a_stream_of_arrow() -> None:
    text = "SELECT a FROM db.t"
    assert pa.table(select(Tables(), text)).num_rows == 6
    assert select(Tables(), text).to_pandas()["a"].tolist() == list(range(6))
    with duckdb.connect() as connection:
        connection.register("answer", select(Tables(), text))
        assert connection.sql("SELECT max(a) FROM answer").fetchall() == [(5,)]
    with select(Tables(), text) as answer:
        answer.close()
        assert answer.read_all().num_rows == 0


def test_polars_makes_a_frame_of_it() -> None:
    frame = select(Tables(), "SELECT a, d, ts FROM db.t").to_polars()
    assert frame.schema == {"a": pl.Int32, "d": pl.Decimal(10, 2), "ts": pl.Datetime("us", "UTC")}
    assert frame["a"].to_list() == list(range(6))
    assert set(frame["d"]) == {Decimal("0.10")}


@pytest.mark.parametrize(("package", "wanted"), [("polars", "polars"), ("pandas", "'leasehold[spark]'")])
def test_a_package_is_asked_for_where_it_is_missing(package: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotInstalled) as caught, select(Tables(), "SELECT a FROM db.t") as result:
        getattr(result, f"to_{package}")()
    assert caught.value.hint == f"pip install {wanted}"
