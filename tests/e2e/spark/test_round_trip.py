"""Every type there and back, through several tasks, buckets and replicas."""

import datetime as dt

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from leasehold.client.cluster import Cluster
from leasehold.errors import NotFound, Refused
from leasehold.spark import table
from leasehold.spark.types import spark_schema
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark

UTC = dt.UTC


def test_every_type_comes_back_as_it_was_written(spark: SparkSession, kinds: list[Row], cluster: Cluster) -> None:
    frame = spark.read.format("leasehold").option("table", "e2e.kinds").load()

    assert frame.schema == spark_schema(cluster.facts("e2e.kinds").fields)
    found = sorted(frame.collect(), key=lambda row: row["id"])
    instants = [row["at"] and row["at"].astimezone(UTC) for row in found]
    assert instants == [row[10] for row in kinds]
    assert [tuple(row)[:10] + tuple(row)[11:] for row in found] == [row[:10] + row[11:] for row in kinds]


def test_a_scan_is_shared_among_tasks(spark: SparkSession, kinds: list[Row], cluster: Cluster) -> None:
    segments = cluster.plan("e2e.kinds").segments
    assert len({segment.bucket for segment in segments}) == 4

    assert table(spark, "e2e.kinds").rdd.getNumPartitions() == 4


def test_rows_are_counted_with_and_without_columns(spark: SparkSession, kinds: list[Row]) -> None:
    none = spark.read.format("leasehold").option("table", "e2e.kinds").schema(StructType()).load()

    assert table(spark, "e2e.kinds").count() == len(kinds)
    assert none.count() == len(kinds)


def test_only_the_columns_asked_for_are_read_in_their_order(spark: SparkSession, kinds: list[Row]) -> None:
    frame = table(spark, "e2e.kinds", columns=["tag", "ID"])

    assert frame.columns == ["tag", "id"]
    assert table(spark, "e2e.kinds", ["id"], local=False).schema["id"].nullable is False
    assert frame.schema["id"].nullable is True, "what comes from files may be null, for Spark"
    assert sorted(frame.collect(), key=lambda row: row["id"])[:2] == [Row(tag="ä 漢 🙂", id=0), Row(tag="", id=1)]
    assert frame.where("id < 3").agg({"tag": "count"}).collect() == [Row(3)]


def test_a_schema_by_hand_selects_columns_by_name_regardless_of_case(spark: SparkSession, kinds: list[Row]) -> None:
    frame = spark.read.format("leasehold").option("table", "e2e.kinds").schema("TAG string, number int").load()

    assert frame.columns == ["TAG", "number"]
    assert {tuple(row) for row in frame.collect()} == {(row[7], row[4]) for row in kinds}


def test_a_schema_that_does_not_fit_is_refused_with_every_reason(spark: SparkSession, kinds: list[Row]) -> None:
    reader = spark.read.format("leasehold").option("table", "e2e.kinds")

    with pytest.raises(
        AnalysisException, match=r"e2e\.kinds has no column colour, size \[NOT_FOUND\]; its columns are"
    ):
        reader.schema("id bigint, colour string, size int").load().collect()
    with pytest.raises(AnalysisException, match=r"number is INT by now, not string; tag may hold nulls \[BAD_SCHEMA\]"):
        reader.schema("number string, tag string not null").load().collect()
    with pytest.raises(NotFound, match="no column colour"):
        table(spark, "e2e.kinds", columns=["colour"])
    with pytest.raises(Refused, match="twice"):
        table(spark, "e2e.kinds", columns=["id", "ID"])


def test_a_missing_table_is_told_in_one_line(spark: SparkSession, running: RunningCluster) -> None:
    with pytest.raises(NotFound):
        table(spark, "e2e.nothing")
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("leasehold").option("table", "e2e.nothing").load()
    last_line = next(line for line in str(caught.value).splitlines() if line.startswith("leasehold.errors."))
    assert "e2e.nothing" in last_line
    assert "[NOT_FOUND]" in last_line
    with pytest.raises(AnalysisException, match=r"leasehold: no table is named \[BAD_SETTINGS\]; add .option"):
        spark.read.format("leasehold").load()


def test_an_empty_table_gives_no_rows(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.empty (id INT, tag STRING)")

    frame = table(spark, "e2e.empty")

    assert frame.count() == 0
    assert frame.collect() == []
    assert frame.columns == ["id", "tag"]


def test_a_second_append_adds_to_the_first(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.twice (id BIGINT)")
    writer = spark.range(0, 1_000, numPartitions=2).write.format("leasehold").option("table", "e2e.twice")

    writer.mode("append").save()
    frame = table(spark, "e2e.twice")
    assert frame.count() == 1_000
    writer.mode("append").save()

    again = table(spark, "e2e.twice")
    assert again.count() == 2_000
    assert again.distinct().count() == 1_000
    assert frame.count() == 1_000, "a DataFrame keeps the revision at which it was first read"


def test_the_source_is_found_without_registration(
    spark: SparkSession, running: RunningCluster, kinds: list[Row]
) -> None:
    fresh = spark.newSession().read.format("leasehold")

    assert fresh.options(table="e2e.kinds", cluster=str(running.directory)).load().count() == len(kinds)


def test_a_dead_node_is_read_around(spark: SparkSession, running: RunningCluster, kinds: list[Row]) -> None:
    running.kill("node-1")
    try:
        assert table(spark, "e2e.kinds").count() == len(kinds)
    finally:
        running.restart("node-1")
