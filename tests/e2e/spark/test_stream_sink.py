"""A stream that is written to a table: each batch once, however often Spark runs it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import DataStreamWriter

from leasehold.client.cluster import Cluster
from leasehold.spark import table
from tests.e2e.spark.patience import to_its_end

pytestmark = pytest.mark.spark

Feed = Callable[[int, int], None]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """Adds a file with these ids to the folder that `fed` reads."""

    def add(begin: int, end: int) -> None:
        spark.range(begin, end, 1, 1).write.mode("append").parquet(str(tmp_path / "in"))

    return add


def fed(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A file is a batch."""
    return spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))


def run(writer: "DataStreamWriter", name: str, tmp_path: Path, checkpoint: str = "checkpoint") -> None:
    """Writes what there is."""
    to_its_end(writer.format("leasehold").option("checkpointLocation", str(tmp_path / checkpoint)), name)


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row["id"] for row in table(spark, name).select("id").collect())


def forget_commits(tmp_path: Path, *, all_of_them: bool = False) -> None:
    """As if Spark had been killed before it noted that its last batch was committed."""
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    for one in commits if all_of_them else commits[-1:]:
        one.unlink()
        (one.parent / f".{one.name}.crc").unlink(missing_ok=True)


def test_batches_are_written_in_order_over_several_runs(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    feed(0, 100)
    feed(100, 200)
    run(fed(spark, tmp_path).writeStream, "e2e.streamed", tmp_path)
    assert ids(spark, "e2e.streamed") == list(range(200))
    feed(200, 300)
    run(fed(spark, tmp_path).writeStream, "e2e.streamed", tmp_path)
    assert ids(spark, "e2e.streamed") == list(range(300))


def test_a_query_may_have_a_name(spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path) -> None:
    """Spark tells a sink of the name as if it were an option."""
    cluster.sql("CREATE TABLE e2e.streamed_named (id BIGINT)")
    feed(0, 10)
    run(fed(spark, tmp_path).writeStream.queryName("arriving"), "e2e.streamed_named", tmp_path)
    assert ids(spark, "e2e.streamed_named") == list(range(10))


def test_a_batch_that_spark_runs_again_is_there_once(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed_again (id BIGINT)")
    for number in range(3):
        feed(10 * number, 10 * number + 10)
        run(fed(spark, tmp_path).writeStream, "e2e.streamed_again", tmp_path)
        forget_commits(tmp_path)
    feed(30, 40)
    run(fed(spark, tmp_path).writeStream, "e2e.streamed_again", tmp_path)
    assert ids(spark, "e2e.streamed_again") == list(range(40))


def test_a_checkpoint_that_is_an_earlier_copy_is_refused(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed_back (id BIGINT)")
    feed(0, 10)
    run(fed(spark, tmp_path).writeStream, "e2e.streamed_back", tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    for begin in (10, 20):
        feed(begin, begin + 10)
        run(fed(spark, tmp_path).writeStream, "e2e.streamed_back", tmp_path)
    with pytest.raises(PySparkException, match="its checkpoint is an earlier copy"):
        run(fed(spark, tmp_path).writeStream, "e2e.streamed_back", tmp_path, "copy")
    assert ids(spark, "e2e.streamed_back") == list(range(30))


def test_a_checkpoint_does_not_go_on_in_a_table_that_was_made_again(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed_anew (id BIGINT)")
    feed(0, 10)
    run(fed(spark, tmp_path).writeStream, "e2e.streamed_anew", tmp_path)
    cluster.sql("DROP TABLE e2e.streamed_anew")
    cluster.sql("CREATE TABLE e2e.streamed_anew (id BIGINT)")
    feed(10, 20)
    with pytest.raises(PySparkException, match="a table that was dropped since"):
        run(fed(spark, tmp_path).writeStream, "e2e.streamed_anew", tmp_path)
    assert ids(spark, "e2e.streamed_anew") == []
    run(fed(spark, tmp_path).writeStream, "e2e.streamed_anew", tmp_path, "another")
    assert ids(spark, "e2e.streamed_anew") == list(range(20))


def test_complete_results_replace_those_of_the_batch_before(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed_whole (odd BIGINT, count BIGINT)")

    def totals() -> "DataStreamWriter":
        return fed(spark, tmp_path).groupBy(expr("id % 2").alias("odd")).count().writeStream.outputMode("complete")

    def found() -> dict[int, int]:
        return {row["odd"]: row["count"] for row in table(spark, "e2e.streamed_whole").collect()}

    feed(0, 10)
    feed(10, 21)
    run(totals(), "e2e.streamed_whole", tmp_path)
    assert found() == {0: 11, 1: 10}
    forget_commits(tmp_path)
    cluster.sql("INSERT INTO e2e.streamed_whole VALUES (7, 7)")
    run(totals(), "e2e.streamed_whole", tmp_path)
    assert found() == {0: 11, 1: 10, 7: 7}, "the batch was committed before"
    feed(21, 23)
    run(totals(), "e2e.streamed_whole", tmp_path)
    assert found() == {0: 12, 1: 11}


def test_columns_that_the_table_lacks_are_added(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.streamed_wide (id BIGINT)")
    feed(0, 10)
    wide = fed(spark, tmp_path).selectExpr("id", "CAST(id AS STRING) AS text")
    with pytest.raises(PySparkException, match="text"):
        run(wide.writeStream, "e2e.streamed_wide", tmp_path)
    run(wide.writeStream.option("mergeSchema", "true"), "e2e.streamed_wide", tmp_path)
    assert cluster.facts("e2e.streamed_wide").fields[1].name == "text"
    assert ids(spark, "e2e.streamed_wide") == list(range(10))


@pytest.mark.parametrize("option", ["replaceWhere", "by", "asOfRevision", "where", "checkpointLocaton"])
def test_options_that_a_stream_does_not_take_are_refused(
    spark: SparkSession, cluster: Cluster, feed: Feed, tmp_path: Path, option: str
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.streamed_oddly (id BIGINT)")
    feed(0, 10)
    with pytest.raises(PySparkException, match=f"there is no option '{option.lower()}' here"):
        run(fed(spark, tmp_path).writeStream.option(option, "1"), "e2e.streamed_oddly", tmp_path)
    assert ids(spark, "e2e.streamed_oddly") == []
