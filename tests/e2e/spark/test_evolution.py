"""Tables whose columns come from a DataFrame: made for it, or altered by a write of it."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Rows
from leasehold.errors import AlreadyExists, LeaseholdError, NotFound
from leasehold.spark import create, sql, table, write

pytestmark = pytest.mark.spark

NESTED = "array(1) AS l, struct(1 AS a) AS s, TIMESTAMP_NTZ '2026-06-15 12:00:00' AS t, NULL AS n, id AS `a b`"


def columns_of(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    return [(one.name, one.type) for one in cluster.facts(name).fields]


@pytest.mark.parametrize("local", [True, False])
def test_a_write_adds_columns_and_widens_them(spark: SparkSession, cluster: Cluster, local: bool) -> None:
    name = f"e2e.grown_{local}"
    cluster.sql(f"CREATE TABLE {name} (id INT, p DECIMAL(5,2), f FLOAT)")
    write(spark.sql("SELECT 1 AS id, CAST(1.5 AS DECIMAL(5,2)) AS p, CAST(0.5 AS FLOAT) AS f"), name)
    wider = spark.sql(
        "SELECT 5000000000 AS ID, CAST(12345.67 AS DECIMAL(9,2)) AS p, CAST(0.1 AS DOUBLE) AS f, 'x' AS s, NULL AS n"
    )
    for _ in range(2):
        write(wider.drop("n"), name, merge_schema=True)
    assert columns_of(cluster, name) == [("id", "BIGINT"), ("p", "DECIMAL(9,2)"), ("f", "DOUBLE"), ("s", "STRING")]
    found = table(spark, name, local=local).selectExpr("id", "CAST(p AS STRING)", "f", "s").collect()
    new = (5_000_000_000, "12345.67", 0.1, "x")
    assert sorted(map(tuple, found)) == sorted([(1, "1.50", 0.5, None), new, new])


def test_rows_may_be_replaced_by_wider_ones(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.regrown (id INT)")
    write(spark.range(3).selectExpr("int(id) AS id"), "e2e.regrown")
    fresh = spark.range(2).selectExpr("id", "id * 2 AS twice")
    fresh.write.format("leasehold").mode("overwrite").option("mergeSchema", "true").save("e2e.regrown")
    assert sorted(map(tuple, table(spark, "e2e.regrown").collect())) == [(0, 0), (1, 2)]


@pytest.mark.parametrize("merge_schema", [True, False])
def test_columns_that_no_table_can_have_are_told_at_once(
    spark: SparkSession, cluster: Cluster, merge_schema: bool
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.ungrown (id BIGINT)")
    with pytest.raises(PySparkException) as caught:
        write(spark.sql(f"SELECT id, {NESTED} FROM range(1)"), "e2e.ungrown", merge_schema=merge_schema)
    said = str(caught.value)
    told = ["to_json(l)", "to_json(s)", "CAST(t AS TIMESTAMP)", "CAST(n AS STRING)", "'a b'"]
    assert [one in said for one in told] == [merge_schema] * len(told)
    assert columns_of(cluster, "e2e.ungrown") == [("id", "BIGINT")]


@pytest.mark.parametrize("given", ["yes", ""])
def test_an_option_that_is_neither_true_nor_false(spark: SparkSession, cluster: Cluster, given: str) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.ungrown (id BIGINT)")
    with pytest.raises(PySparkException, match="mergeSchema"):
        spark.range(1).write.format("leasehold").mode("append").option("mergeSchema", given).save("e2e.ungrown")


def test_a_table_is_made_with_its_rows(spark: SparkSession, cluster: Cluster) -> None:
    frame = spark.range(100).selectExpr("id", "concat('s', id) AS Name", "timestamp_seconds(4e9 + id) AS at")
    create(frame, "e2e.made", cluster_by="id", ttl="30d", time_column="at", properties={"team": "it's"})
    facts = cluster.facts("e2e.made")
    assert columns_of(cluster, "e2e.made") == [("id", "BIGINT"), ("Name", "STRING"), ("at", "TIMESTAMP")]
    assert len(facts.buckets) == 4
    shown = cluster.sql("SHOW TBLPROPERTIES e2e.made")
    assert isinstance(shown, Rows)
    assert {("ttl", "30d"), ("time_column", "at"), ("team", "it's")} <= {row[:2] for row in shown.rows}
    assert table(spark, "e2e.made").count() == 100
    with pytest.raises(AlreadyExists):
        create(frame, "e2e.made")
    assert table(spark, "e2e.made").count() == 100


def test_create_table_as_select(spark: SparkSession, cluster: Cluster) -> None:
    select = "SELECT id % 3 AS k, sum(id) AS total FROM range(9) GROUP BY 1"
    assert sql(spark, f"CREATE TABLE e2e.selected CLUSTERED BY (k) INTO 2 BUCKETS AS {select}").columns == []
    assert sorted(map(tuple, table(spark, "e2e.selected").collect())) == [(0, 9), (1, 12), (2, 15)]
    sql(spark, "CREATE TABLE IF NOT EXISTS e2e.selected AS SELECT 1 AS a")
    assert columns_of(cluster, "e2e.selected") == [("k", "BIGINT"), ("total", "BIGINT")]
    with pytest.raises(AlreadyExists):
        sql(spark, "CREATE TABLE e2e.selected AS SELECT 1 AS a")
    sql(spark, "CREATE TABLE e2e.reselected AS (SELECT total FROM e2e.selected WHERE k = 2)")
    assert table(spark, "e2e.reselected").collect() == [(15,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE e2e.unmade (a INT) AS SELECT 1 AS a", "columns of its SELECT"),
        ("CREATE TABLE e2e.unmade PARTITIONED BY (a) AS SELECT 1 AS a", "PARTITIONED"),
        ("CREATE TABLE e2e.unmade AS SELECT array(1) AS a", "to_json"),
        ("CREATE TABLE e2e.unmade AS SELECT 1 AS a, 2 AS a", "occurs twice"),
        ("CREATE TABLE nowhere.unmade AS SELECT 1 AS a", "nowhere"),
        ("CREATE TABLE unmade AS SELECT 1 AS a", "two parts"),
    ],
)
def test_no_table_is_made_of_what_is_refused(spark: SparkSession, cluster: Cluster, text: str, said: str) -> None:
    with pytest.raises(LeaseholdError, match=said):
        sql(spark, text)
    with pytest.raises(NotFound):
        cluster.facts("e2e.unmade")


def test_no_table_stays_if_its_rows_can_not_be_written(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(PySparkException):
        sql(spark, "CREATE TABLE e2e.unmade AS SELECT CAST(raise_error('no') AS STRING) AS a, id FROM range(3)")
    with pytest.raises(NotFound):
        cluster.facts("e2e.unmade")
