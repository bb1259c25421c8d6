"""Spark reads and writes a table whose schema changes: files of every age, defaults, DELETE, rewriting, drops."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import table
from tests.e2e.spark.holding import once, until_there
from tests.e2e.spark.test_write import append

pytestmark = pytest.mark.spark


def values(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_files_of_every_age_read_right(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.ages (k BIGINT, n INT, p DECIMAL(5,2), v STRING)")
    append(spark.createDataFrame([(1, 7, Decimal("1.25"), "a")], "k long, n int, p decimal(5,2), v string"), "e2e.ages")
    for change in (
        "ADD COLUMN day DATE NOT NULL DEFAULT '2026-01-31'",
        "ALTER COLUMN day SET DEFAULT '2026-02-01'",
        "RENAME COLUMN v TO w",
        "ALTER COLUMN n TYPE BIGINT",
        "ALTER COLUMN p TYPE DECIMAL(9,2)",
        "ALTER COLUMN w FIRST",
    ):
        cluster.sql(f"ALTER TABLE e2e.ages {change}")
    append(spark.createDataFrame([(2, 2**40, "b")], "k long, n long, w string"), "e2e.ages")
    frame = table(spark, "e2e.ages")
    assert frame.columns == ["w", "k", "n", "p", "day"]
    assert dict(frame.dtypes)["p"] == "decimal(9,2)"
    assert values(frame) == [
        ("a", 1, 7, Decimal("1.25"), datetime.date(2026, 1, 31)),
        ("b", 2, 2**40, None, datetime.date(2026, 2, 1)),
    ]
    assert values(frame.where("day = DATE '2026-02-01'").select("k")) == [(2,)]


def test_a_frame_that_was_planned_keeps_its_columns_and_ends_with_them(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.planned (k BIGINT, n INT)")
    cluster.table("e2e.planned").append(pa.table({"k": [1], "n": pa.array([10], pa.int32())}))
    frame = table(spark, "e2e.planned", local=False)
    assert values(frame) == [(1, 10)]
    for change in ("ADD COLUMN x INT DEFAULT 5", "RENAME COLUMN n TO m", "ALTER COLUMN m TYPE BIGINT"):
        cluster.sql(f"ALTER TABLE e2e.planned {change}")
    assert values(frame) == [(1, 10)]
    assert values(table(spark, "e2e.planned")) == [(1, 10, 5)]
    cluster.sql("ALTER TABLE e2e.planned DROP COLUMN m")
    with pytest.raises(PySparkException, match="COLUMN_DROPPED"):
        frame.collect()
    cluster.sql("DROP TABLE e2e.planned")
    with pytest.raises(PySparkException, match="TABLE_DROPPED"):
        frame.collect()


def test_a_frame_that_was_loaded_and_never_read_is_to_be_loaded_again_once_a_column_is_wider(
    spark: SparkSession, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE e2e.wider (k BIGINT, n INT)")
    frame = table(spark, "e2e.wider", local=False)
    cluster.sql("ALTER TABLE e2e.wider ALTER COLUMN n TYPE BIGINT")
    with pytest.raises(PySparkException, match=r"n is BIGINT by now, not int \[BAD_SCHEMA\]; load it again"):
        frame.collect()
    assert values(table(spark, "e2e.wider")) == []


def test_deleted_rows_are_gone_from_frames_of_before_too_and_stay_so_when_they_leave_the_files(
    spark: SparkSession, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE e2e.gone (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    append(spark.range(100), "e2e.gone")
    frame = table(spark, "e2e.gone", local=False)
    assert frame.count() == 100
    cluster.sql("DELETE FROM e2e.gone WHERE id >= 10 AND id < 100")
    wanted = [(number,) for number in range(10)]
    assert values(frame) == wanted
    assert frame.count() == 10
    append(spark.range(50, 51), "e2e.gone")
    assert cluster.compact("e2e.gone").rows_removed == 90
    assert values(frame) == wanted
    assert values(table(spark, "e2e.gone")) == [*wanted, (50,)]


def test_a_query_whose_tasks_cross_a_delete_ends_and_its_frame_can_be_queried_again(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """The first tasks have read all rows of theirs, and hold every place until the DELETE has returned."""
    cluster.sql("CREATE TABLE e2e.crossed (id BIGINT) CLUSTERED BY (id) INTO 8 BUCKETS")
    append(spark.range(1000), "e2e.crossed")
    frame = table(spark, "e2e.crossed", local=False)
    first = spark.sparkContext.defaultParallelism
    assert frame.rdd.getNumPartitions() > first, "some tasks come later"
    have_read, deleted = [tmp_path / f"read-{number}" for number in range(first)], tmp_path / "deleted"

    until_deleted = until_there(deleted)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()
        read = list(batches)
        if number < first:
            have_read[number].touch()
            until_deleted()
        yield from read

    def delete() -> None:
        with Cluster(cluster.address, tls=cluster.trusted) as other:
            other.sql("DELETE FROM e2e.crossed WHERE id >= 10")

    deleting = once(lambda: all(one.exists() for one in have_read), delete, deleted)
    with pytest.raises(PySparkException, match="ROWS_TAKEN_AWAY"):
        frame.mapInArrow(held, "id long").collect()
    deleting.join()
    assert values(frame) == [(number,) for number in range(10)]
    with pytest.raises(PySparkException, match="ROWS_TAKEN_AWAY"):
        frame.rdd.collect()
    assert table(spark, "e2e.crossed", local=False).rdd.count() == 10


def test_a_column_with_a_default_may_be_left_out_and_one_without_may_not(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.defaults (id BIGINT NOT NULL, n INT NOT NULL DEFAULT 3, s STRING DEFAULT 's')")
    append(spark.range(1), "e2e.defaults")
    assert values(table(spark, "e2e.defaults")) == [(0, 3, "s")]
    with pytest.raises(PySparkException, match="id is NOT NULL and missing"):
        append(spark.createDataFrame([(1,)], "n int"), "e2e.defaults")
