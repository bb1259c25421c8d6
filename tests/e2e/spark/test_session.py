"""Views over a cluster, and the session itself."""

from pathlib import Path

import pytest
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

    spark.sql("INSERT INTO air_ports VALUES ('LGA', 'La Guardia')")
    assert spark.table("air_ports").count() == 1, "a view keeps the revision at which it was first read"
    assert attach(spark) == names
    assert spark.table("air_ports").count() == 2


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
