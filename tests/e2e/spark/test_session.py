"""Views over a cluster, and the session itself."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import AlreadyExists
from leasehold.spark import attach, session, table
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def flights(running: RunningCluster) -> str:
    """A database of two tables with rows."""
    with running.connect() as cluster:
        cluster.sql("CREATE DATABASE air")
        cluster.sql("CREATE TABLE air.ports (code STRING NOT NULL, name STRING)")
        cluster.sql("CREATE TABLE air.flights (id BIGINT, origin STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    return "air"


def test_views_can_be_filled_joined_and_read_again(spark: SparkSession, flights: str) -> None:
    names = attach(spark)

    assert {"air_ports", "air_flights"} <= set(names)
    spark.sql("INSERT INTO air_ports SELECT 'JFK' AS code, 'Kennedy' AS name")
    spark.range(10).selectExpr("id", "IF(id % 2 = 0, 'JFK', 'LGA') AS origin").write.format("leasehold").option(
        "table", "air.flights"
    ).mode("append").save()
    joined = spark.sql("SELECT name, count(*) AS n FROM air_flights JOIN air_ports ON origin = code GROUP BY name")
    assert joined.collect() == [Row(name="Kennedy", n=5)]


def test_each_query_over_an_attached_name_reads_the_present(
    spark: SparkSession, flights: str, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE air.planes (id BIGINT, kind STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    attach(spark)
    frame, before = spark.table("air_planes"), cluster.status().revision
    assert frame.count() == 0
    for number in range(12):
        spark.sql(f"INSERT INTO air_planes VALUES ({number}, 'jet'), ({number + 100}, 'prop')")
        assert spark.table("air_planes").count() == 2 * (number + 1)
    both = "SELECT count(*) AS n FROM air_planes a JOIN air_planes b ON a.id = b.id WHERE a.kind = 'jet'"
    assert spark.sql(both).collect() == [Row(n=12)]
    assert frame.count() == 24, "a frame of the name too"
    cluster.sql("DELETE FROM air.planes WHERE id >= 100")
    assert sorted(row["id"] for row in frame.collect()) == list(range(12))
    assert sum(1 for _ in frame.rdd.toLocalIterator()) == 0, "outside of a query: at the revision of the first one"
    attach(spark, as_of=before)
    assert spark.table("air_planes").count() == 0
    with pytest.raises(PySparkException, match="rows are added to the present"):
        spark.sql("INSERT INTO air_planes VALUES (1, 'glider')")
    attach(spark)
    spark.sql("INSERT INTO air_planes VALUES (1, 'glider')")
    assert spark.table("air_planes").count() == 13
    cluster.sql("DROP TABLE air.planes")
    with pytest.raises(PySparkException, match=r"air\.planes"):
        spark.table("air_planes").count()
    cluster.sql("CREATE TABLE air.planes (id BIGINT, kind STRING)")
    with pytest.raises(PySparkException, match="TABLE_DROPPED"):
        frame.count()
    cluster.sql("DROP TABLE air.planes")


def test_two_tables_that_would_share_a_view_are_refused_and_no_view_is_made(
    spark: SparkSession, cluster: Cluster
) -> None:
    cluster.sql("CREATE DATABASE clash")
    cluster.sql("CREATE DATABASE clash_of")
    cluster.sql("CREATE TABLE clash.of_names (id INT)")
    cluster.sql("CREATE TABLE clash_of.names (id INT)")
    try:
        with pytest.raises(AlreadyExists, match="would both be the view clash_of_names") as caught:
            attach(spark)
        assert "table(spark" in caught.value.hint
        assert not spark.catalog.tableExists("clash_of_names")
    finally:
        cluster.sql("DROP TABLE clash.of_names")
        cluster.sql("DROP TABLE clash_of.names")


def test_a_session_is_made_once_and_shows_instants_in_utc(spark: SparkSession, running: RunningCluster) -> None:
    again = session(cluster=running.directory, master="local[2,4]")

    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.session.timeZone") == "UTC"
    shown = again.sql("SELECT CAST(TIMESTAMP '2026-07-01 12:00:00+02:00' AS STRING)").collect()
    assert shown == [Row("2026-07-01 10:00:00")]


def test_a_cluster_is_found_from_another_working_directory(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE TABLE e2e.anywhere (id INT)")
    monkeypatch.chdir(running.directory.parent)
    frame = table(spark, "e2e.anywhere", cluster=running.directory.name)
    monkeypatch.chdir(tmp_path)

    assert frame.count() == 0
    assert spark.read.format("leasehold").option("table", "e2e.anywhere").load().count() == 0
