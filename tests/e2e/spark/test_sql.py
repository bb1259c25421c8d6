"""`leasehold.spark.sql`: SELECTs of Spark over names of the cluster, and statements that the cluster runs."""

import datetime as dt
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import BadSettings, BadStatement, LeaseholdError, NotFound, Refused
from leasehold.spark import queries, sql
from leasehold.sql.pushdown import ReadNeeds
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark

DAYS = [dt.date(2013, 6, day) for day in (1, 15, 15, 30)]
ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "customer": pa.array([1, 1, 2, None, 9, 2], pa.int32()),
        "day": [*DAYS, None, DAYS[0]],
        "note": ["it's", "e2e.customers", None, "%", "ä 🙂", "b"],
        "price": pa.array([1.5, -0.0, None, 2.5, 1e300, float("nan")], pa.float64()),
    }
)
CUSTOMERS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": ["ann", "bob", None], "day": DAYS[:3]})
TABLES = {"orders": ORDERS, "customers": CUSTOMERS}


@pytest.fixture(scope="module", autouse=True)
def tables(running: RunningCluster, spark: SparkSession) -> Iterator[None]:
    """The same rows as `shop.orders` and `shop.customers` in the cluster, and as `orders` and `customers` in Spark."""
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE shop")
        cluster.sql("CREATE TABLE shop.Orders (id BIGINT NOT NULL, customer INT, day DATE, note STRING, price DOUBLE)")
        cluster.sql("CREATE TABLE shop.customers (id INT, name STRING, day DATE)")
        cluster.sql(
            "CREATE VIEW shop.spent (Customer, paid) AS"
            " SELECT c.name, sum(o.price) FROM shop.orders o JOIN shop.customers c ON o.customer = c.id GROUP BY c.name"
        )
        cluster.table("shop.orders").append(ORDERS.slice(0, 3))
        cluster.table("shop.orders").append(ORDERS.slice(3))
        cluster.table("shop.customers").append(CUSTOMERS)
    for name, rows in TABLES.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    yield
    for name in TABLES:
        spark.catalog.dropTempView(name)


QUERIES = (
    "SELECT * FROM {orders}",
    "SELECT {orders}.ID, {orders}.* FROM {orders} WHERE {orders}.day IS NULL",
    "SELECT o.*, c.name FROM {orders} AS o JOIN {customers} c ON o.customer = c.id",
    "SELECT a.id, b.id FROM {orders} a JOIN {orders} b USING (customer)",
    "SELECT {customers}.name, count(*) FROM {orders} LEFT JOIN {customers} ON customer = {customers}.id GROUP BY ALL",
    "WITH orders AS (SELECT id + 1 AS id FROM {orders}) SELECT id FROM orders UNION SELECT id FROM {customers}",
    "SELECT name FROM {customers} c WHERE EXISTS (SELECT 1 FROM {orders} WHERE customer = c.id AND price > 1)",
    "SELECT note, /* FROM shop.nothing */ 'FROM shop.orders' FROM {orders} -- JOIN shop.nothing",
    "SELECT max_by(note, id), transform(array(1, 2), x -> x + count(*)) FROM {orders}",
    "SELECT id, rank() OVER (PARTITION BY customer ORDER BY day, id) FROM {orders} ORDER BY id LIMIT 3",
    "SELECT * FROM ({orders} JOIN {customers} USING (day))",
    "SELECT id, x FROM {orders} LATERAL VIEW explode(array(id, 0)) AS x WHERE x > 0",
    "SELECT * FROM (SELECT customer, price FROM {orders}) PIVOT (sum(price) FOR customer IN (1, 2))",
    "SELECT `Id` FROM {orders} TABLESAMPLE (100 PERCENT) WHERE {orders}.id <> 2",
    "SELECT ID FROM {ORDERS} w(ID, b, c, d, e) WHERE b = 1",
    "(SELECT day FROM {orders}) INTERSECT SELECT day FROM {customers};",
    "SELECT o.id FROM {orders} o NATURAL JOIN {customers}",
    "SELECT v.n, o.id FROM VALUES (1), (2) AS v(n) JOIN {orders} o ON v.n = o.customer",
)


def explained(frame: DataFrame) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        frame.explain(True)
    return shown.getvalue()


def answers(frame: DataFrame) -> tuple[list[str], list[str]]:
    return [one.lower() for one in frame.columns], sorted(map(str, frame.collect()))


def of_spark(spark: SparkSession, query: str) -> tuple[list[str], list[str]]:
    names = {one: one for one in TABLES}
    return answers(spark.sql(query.format(**names, **{key.upper(): one for key, one in names.items()})))


def of_cluster(query: str) -> str:
    names = {one: f"shop.{one}" for one in TABLES}
    return query.format(**names, **{key.upper(): f"SHOP.`{key.upper()}`" for key in names})


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_spark_over_the_same_rows(spark: SparkSession, query: str) -> None:
    before = {one.name for one in spark.catalog.listTables()}
    assert answers(sql(spark, of_cluster(query))) == of_spark(spark, query)
    assert {one.name for one in spark.catalog.listTables()} == before


@pytest.mark.parametrize("local", [True, False])
def test_files_and_flight_answer_the_same(spark: SparkSession, local: bool) -> None:
    query = QUERIES[4]
    assert answers(sql(spark, of_cluster(query), local=local)) == of_spark(spark, query)


def test_views_and_tables_of_spark_stand_beside_tables(spark: SparkSession, cluster: Cluster) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW wanted AS SELECT 'ann' AS name")
    found = sql(spark, "SELECT s.customer, paid FROM Shop.Spent s JOIN wanted ON name = customer")
    assert [tuple(row) for row in found.collect()] == [("ann", 1.5)]
    spark.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW wanted AS SELECT 'bob' AS name")
    present = cluster.facts("shop.orders").revision
    then = f"SELECT spent.customer FROM shop.spent VERSION AS OF {present} JOIN global_temp.wanted ON customer = name"
    assert [tuple(row) for row in sql(spark, then).collect()] == [("bob",)]
    assert sql(spark, "SELECT 1 AS one").collect()[0].one == 1
    with pytest.raises(NotFound, match="no"):
        sql(spark, "SELECT * FROM default.nothing")


def test_one_revision_for_all_names(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE shop.ticks (n INT)")
    ticks = cluster.table("shop.ticks")
    one = pa.table({"n": pa.array([1], pa.int32())})
    first = ticks.append(one).revision
    frame = sql(
        spark, "SELECT (SELECT count(*) FROM shop.ticks) AS a, (SELECT sum(n) FROM shop.ticks) AS b", local=False
    )
    ticks.append(one)
    assert tuple(frame.collect()[0]) == (1, 1), "both are of the revision at which the frame was made"
    now = sql(
        spark, f"SELECT (SELECT count(*) FROM shop.ticks) AS a, count(*) AS b FROM shop.ticks VERSION AS OF {first}"
    )
    assert tuple(now.collect()[0]) == (2, 1)
    assert sql(spark, "SELECT * FROM shop.ticks", as_of=first).count() == 1
    noted = dt.datetime.now(dt.UTC)
    again = sql(spark, f"SELECT * FROM shop.ticks TIMESTAMP AS OF '{noted.isoformat()}' AS t", as_of=first)
    assert again.count() == 2, "a time behind a name comes first"


def test_rows_that_come_while_a_select_is_made_are_in_all_names_or_in_none(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop.ones", "shop.twos"):
        cluster.sql(f"CREATE TABLE {name} (n INT)")
    one, read = pa.table({"n": pa.array([1], pa.int32())}), queries.read_table

    def read_and_add(*about: Any, **more: Any) -> DataFrame:
        frame = read(*about, **more)
        for name in ("shop.ones", "shop.twos"):
            cluster.table(name).append(one)
        return frame

    monkeypatch.setattr(queries, "read_table", read_and_add)
    counted = (
        "SELECT (SELECT count(*) FROM shop.ones), (SELECT count(*) FROM shop.twos), (SELECT sum(n) FROM shop.ones)"
    )
    for local in (True, False):
        left, right, again = sql(spark, counted, local=local).collect()[0]
        assert left == right == (again or 0)
    assert cluster.table("shop.ones").scan().read_all().num_rows == 6


def test_fewer_columns_and_segments_are_read(spark: SparkSession) -> None:
    text = (
        "SELECT o.day FROM shop.orders o LEFT JOIN shop.customers c ON o.customer = c.id WHERE o.id > 4 AND note = 'b'"
    )
    for local in (True, False):
        frame = sql(spark, text, local=local)
        assert [tuple(row) for row in frame.collect()] == [(DAYS[0],)]
        plan = explained(frame)
        assert "price" not in plan
        assert "name#" not in plan
    files = sql(spark, text, local=True)
    assert "leasehold local shop.Orders, 1 of 2 segments" in explained(files)
    assert sql(spark, "SELECT count(*) FROM shop.orders WHERE id > 4").collect()[0][0] == 2


def test_a_condition_that_the_cluster_refuses_stays_with_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "needed", lambda *_: {0: ReadNeeds(("id", "note"), "id = 'x'")})
    assert sql(spark, "SELECT id FROM shop.orders WHERE note = 'b'").collect()[0].id == 6


def test_all_columns_are_read_where_names_differ_by_their_case(spark: SparkSession) -> None:
    text = "SELECT id FROM shop.orders WHERE id > 4"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        frame = sql(spark, text)
        assert sorted(row.id for row in frame.collect()) == [5, 6]
        assert "price" in explained(frame)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert "price" not in explained(sql(spark, text))


def test_a_table_that_is_altered_meanwhile_is_read_anew(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE TABLE shop.moving (a INT, b INT)")
    cluster.table("shop.moving").append(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}))
    swaps = ["a TO c", "b TO a", "c TO b"]
    given = queries.needed

    def altered(*about: Any) -> Any:
        if swaps:
            cluster.sql(f"ALTER TABLE shop.moving RENAME COLUMN {swaps.pop(0)}")
        return given(*about)

    monkeypatch.setattr(queries, "needed", altered)
    with pytest.raises(Refused, match="again and again"):
        sql(spark, "SELECT * FROM shop.moving")
    found = sql(spark, "SELECT a FROM shop.moving WHERE b = 1")
    assert [tuple(row) for row in found.collect()] == [(2,)]


def test_insert_from_a_select(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE shop.copies (id BIGINT NOT NULL, note STRING DEFAULT 'none', day DATE)")
    answer = sql(spark, "INSERT INTO shop.copies SELECT id, note, day FROM shop.orders WHERE id < 3")
    assert (answer.columns, answer.count()) == ([], 0)
    sql(spark, "INSERT INTO TABLE Shop.Copies (DAY, id) (WITH w AS (SELECT 7 AS n) SELECT DATE '2020-01-01', n FROM w)")
    sql(spark, "INSERT INTO shop.copies SELECT id + 10, note, day FROM shop.copies WHERE id = 1")
    rows = [
        (1, "it's", DAYS[0]),
        (2, "e2e.customers", DAYS[1]),
        (7, "none", dt.date(2020, 1, 1)),
        (11, "it's", DAYS[0]),
    ]
    assert sorted(tuple(row) for row in sql(spark, "SELECT * FROM shop.copies").collect()) == rows
    for text, said in (
        ("INSERT INTO shop.copies SELECT id FROM shop.orders", "COLUMN_COUNT"),
        ("INSERT INTO shop.copies (idd) SELECT id FROM shop.orders", "NO_SUCH_COLUMN"),
        ("INSERT INTO shop.copies (id, ID) SELECT id, id FROM shop.orders", "DUPLICATE_COLUMN"),
        ("INSERT OVERWRITE shop.copies VALUES (1, 'x', NULL)", "BAD_STATEMENT"),
        ("INSERT OVERWRITE shop.copies (id) SELECT id, id FROM shop.orders", "COLUMN_COUNT"),
        ("INSERT INTO shop.copeis SELECT * FROM shop.copies", "NOT_FOUND"),
    ):
        with pytest.raises(LeaseholdError) as caught:
            sql(spark, text)
        assert caught.value.code == said
    with pytest.raises(Refused, match="id is string where the table has BIGINT"):
        sql(spark, "INSERT INTO shop.copies SELECT note, note, day FROM shop.orders")
    assert sql(spark, "SELECT * FROM shop.copies").count() == len(rows)


def test_definitions_answer_their_receipt(spark: SparkSession) -> None:
    row = sql(spark, "CREATE TABLE shop.made (a INT, b STRING)").collect()[0]
    assert (row.outcome, row.statement) == ("COMMITTED", "CREATE TABLE shop.made (a INT, b STRING)")
    assert row.revision > 0
    assert 0 < row.elapsed_ms < row.bound_ms
    added = sql(spark, "INSERT INTO shop.made VALUES (1, 'x'), (2, NULL)").collect()
    assert [tuple(one) for one in added] == [("shop.made", "2", "0")]
    sql(spark, "DELETE FROM shop.made WHERE a = 1")
    assert [tuple(one) for one in sql(spark, "SELECT * FROM shop.made").collect()] == [(2, None)]
    columns = sql(spark, "DESCRIBE shop.made").collect()
    assert [one[0] for one in columns] == ["a", "b"]
    sql(spark, "DROP TABLE shop.made")
    assert "made" not in {one[1] for one in sql(spark, "SHOW TABLES IN shop").collect()}


def test_numbers_that_are_inserted_take_the_type_of_the_table(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE shop.numbers (d DOUBLE, i INT, m DECIMAL(5, 2))")
    sql(spark, "INSERT INTO shop.numbers SELECT 40.5, 7L, 1")
    sql(spark, "INSERT INTO shop.numbers (m, d) SELECT 1.5, 2L")
    rows = sql(spark, "SELECT * FROM shop.numbers ORDER BY d").collect()
    assert [tuple(row) for row in rows] == [(2.0, None, Decimal("1.50")), (40.5, 7, Decimal("1.00"))]
    for values, code in (
        ("1, 3000000000, 1", "CAST_OVERFLOW"),
        ("1, 1, 1000", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("1, 1.5, 1", "ROWS_DO_NOT_FIT"),
        ("1, 1, 1.001", "ROWS_DO_NOT_FIT"),
        ("'1', 1, 1", "ROWS_DO_NOT_FIT"),
    ):
        with pytest.raises((PySparkException, Refused)) as caught:
            sql(spark, f"INSERT INTO shop.numbers SELECT {values}")
        assert code in f"{caught.value} {getattr(caught.value, 'code', '')}"
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Refused, match="the rows do not fit"):
            sql(spark, "INSERT INTO shop.numbers SELECT 1.5, 3000000000, 1")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert sql(spark, "SELECT * FROM shop.numbers").count() == 2


def test_what_is_inserted_may_hold_no_numbers(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE shop.words (word STRING)")
    sql(spark, "INSERT INTO shop.words SELECT 'a'")
    assert sql(spark, "SELECT word FROM shop.words").collect()[0]["word"] == "a"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("SELECT * FROM shop.orderz", NotFound, "Orders"),
        ("SELECT * FROM shpo.orders", NotFound, "shop"),
        ("SELECT FROM WHERE", BadStatement, "attach"),
        ("SELECT * FROM shop.orders VERSION AS OF 'x'", BadStatement, "VERSION AS OF 12"),
        ("SELECT * FROM shop.orders TIMESTAMP AS OF current_date()", BadStatement, "TIMESTAMP AS OF '2"),
        ("SELECT * FROM shop.orders TIMESTAMP AS OF '2026-06-15'", BadSettings, "time zone"),
        ("SELECT * FROM shop.orders VERSION AS OF 999999999", Refused, "does not exist yet"),
        ("SELECT * FROM shop.orders; SELECT 1", BadStatement, "only one statement"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", BadStatement, "use spark.sql"),
        ("CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1", BadStatement, "use spark.sql"),
        ("CREATE TABLE temp.global (a INT)", NotFound, "SHOW DATABASES"),
        ("CACHE TABLE shop.orders", BadStatement, "use spark.sql"),
        ("SET spark.sql.shuffle.partitions = 2", BadStatement, "use spark.sql"),
        ("FROM shop.orders SELECT id", BadStatement, "SELECT * FROM"),
        ("EXPLAIN SELECT * FROM shop.orders", BadStatement, "explain()"),
        ("DROP TABLE shop.orderz", LeaseholdError, "SHOW TABLES"),
        ("WITH a AS (SELECT 1) INSERT INTO shop.orders SELECT * FROM a", BadStatement, "one SELECT"),
    ],
)
def test_what_is_refused_says_what_to_write(
    spark: SparkSession, text: str, error: type[LeaseholdError], said: str
) -> None:
    with pytest.raises(error) as caught:
        sql(spark, text)
    assert said in f"{caught.value.text} {caught.value.hint}"


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("CREATE TABLE default.own USING leasehold OPTIONS (table 'shop.orders')", "SELECT 1"),
        (
            "CREATE TABLE default.own (id BIGINT) USING leasehold OPTIONS (table 'shop.orders')",
            "SELECT * FROM default.own",
        ),
        ("CREATE TABLE default.own (id BIGINT) USING leasehold", "INSERT INTO default.own VALUES (1)"),
    ],
)
def test_a_table_of_sparks_catalog_says_what_makes_one(spark: SparkSession, made: str, used: str) -> None:
    """Spark loses its options, so it can't be read."""
    try:
        with pytest.raises(AnalysisException, match=r"BAD_SETTINGS.*leasehold\.spark\.sql"):
            spark.sql(made)
            spark.sql(used).collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS default.own")


def test_as_of_is_for_a_select(spark: SparkSession) -> None:
    with pytest.raises(BadSettings):
        sql(spark, "SHOW TABLES", as_of=1)


def test_a_misspelt_column_is_refused_by_spark_with_the_nearest(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        sql(spark, "SELECT nota FROM shop.orders")
    assert "`note`" in str(caught.value)
