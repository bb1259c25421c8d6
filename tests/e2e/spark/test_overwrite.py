"""Writes that replace rows: all of them, those that fulfil conditions, or those of the days that come anew."""

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DateType, LongType, StructField, StructType

from leasehold.client.cluster import Cluster
from leasehold.errors import BadSettings, LeaseholdError, Refused
from leasehold.spark import sql, table, write
from leasehold.spark.sink import LeaseholdSink
from leasehold.spark.source import LeaseholdSource
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("id", LongType()), StructField("day", DateType())])
JUNE = [dt.date(2013, 6, day) for day in range(1, 31)]
FIFTEENTH = "day = DATE '2013-06-15'"
Fill = Callable[[str], str]


def days(spark: SparkSession, begin: int, end: int, day: str = "id % 30") -> DataFrame:
    """Rows with these ids, in days of June 2013."""
    return spark.range(begin, end).selectExpr("id", f"date_add(DATE '2013-06-01', int({day})) AS day")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def rows_of(*found: int, day: int = 15) -> pa.Table:
    return pa.table({"id": list(found), "day": pa.array([JUNE[day - 1]] * len(found), pa.date32())})


@pytest.fixture
def filled(spark: SparkSession, cluster: Cluster) -> Fill:
    """Makes a table with the ids below 300, ten for each day, all days in each file."""

    def fill(name: str) -> str:
        cluster.sql(f"CREATE TABLE e2e.{name} (id BIGINT, day DATE) CLUSTERED BY (id) INTO 2 BUCKETS")
        write(days(spark, 0, 300), f"e2e.{name}")
        return f"e2e.{name}"

    return fill


def test_all_rows_are_replaced_and_frames_of_before_keep_theirs(spark: SparkSession, filled: Fill) -> None:
    name = filled("replaced")
    before = [table(spark, name, local=local) for local in (False, True)]
    assert [ids(one) for one in before] == [list(range(300))] * 2

    write(days(spark, 1_000, 1_010), name, "overwrite")
    assert ids(table(spark, name)) == list(range(1_000, 1_010))
    assert [ids(one) for one in before] == [list(range(300))] * 2

    days(spark, 5, 7).write.format("leasehold").mode("overwrite").save(name)
    assert ids(table(spark, name)) == [5, 6]
    write(days(spark, 0, 0), name, "overwrite")
    assert ids(table(spark, name)) == []


def test_a_day_is_replaced_and_the_other_rows_of_its_files_stay(spark: SparkSession, filled: Fill) -> None:
    name = filled("a_day")
    kept = [one for one in range(300) if one % 30 != 14]
    for _ in range(2):  # run again, it gives the same
        write(days(spark, 1_000, 1_005, "14"), name, "overwrite", where=FIFTEENTH)
        assert ids(table(spark, name)) == [*kept, *range(1_000, 1_005)]
        assert ids(table(spark, name, where=FIFTEENTH)) == list(range(1_000, 1_005))

    outside = days(spark, 2_000, 2_010)
    with pytest.raises(Refused) as caught:
        write(outside, name, "overwrite", where=FIFTEENTH)
    assert caught.value.code == "OUTSIDE_REPLACED"
    with pytest.raises(PySparkException, match="OUTSIDE_REPLACED"):
        outside.write.format("leasehold").mode("overwrite").option("replaceWhere", FIFTEENTH).save(name)
    assert ids(table(spark, name)) == [*kept, *range(1_000, 1_005)]


def test_the_days_of_the_new_rows_are_replaced(spark: SparkSession, filled: Fill) -> None:
    name = filled("by_day")
    write(days(spark, 1_000, 1_004, "id % 2"), name, "overwrite", by="day")
    kept = [one for one in range(300) if one % 30 > 1]
    assert ids(table(spark, name)) == [*kept, *range(1_000, 1_004)]
    write(days(spark, 0, 0), name, "overwrite", by="day")
    assert ids(table(spark, name)) == [*kept, *range(1_000, 1_004)]
    frame = spark.sql("SELECT 1 AS id, CAST(NULL AS DATE) AS day")
    with pytest.raises(Refused) as caught:
        write(frame, name, "overwrite", by="day")
    assert caught.value.code == "BAD_VALUE"
    with pytest.raises(PySparkException, match=r"BAD_VALUE.*leave these rows out"):
        frame.write.format("leasehold").mode("overwrite").options(overwriteMode="dynamic", by="day").save(name)


def test_a_table_is_overwritten_with_what_was_read_of_it(spark: SparkSession, filled: Fill) -> None:
    name = filled("itself")
    write(table(spark, name).where("id < 20"), name, "overwrite")
    assert ids(table(spark, name)) == list(range(20))
    sql(spark, f"INSERT OVERWRITE {name} SELECT id + 1, day FROM {name} WHERE id < 5")
    assert ids(table(spark, name)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    [
        ("append", {"replaceWhere": FIFTEENTH}, r"replaceWhere is for a write that replaces rows.*overwrite"),
        ("overwrite", {"replaceWere": FIFTEENTH}, "replaceWhere"),
        ("overwrite", {"replaceWhere": "day"}, "BAD_STATEMENT"),
        ("overwrite", {"replaceWhere": "dya = DATE '2013-06-15'"}, "NOT_FOUND"),
        ("overwrite", {"by": "day"}, "dynamic"),
        ("overwrite", {"overwriteMode": "dynamic"}, "by"),
        ("overwrite", {"overwriteMode": "dynamics", "by": "day"}, "write static or dynamic"),
        ("overwrite", {"overwriteMode": "dynamic", "by": "dya"}, "NO_SUCH_COLUMN"),
        ("overwrite", {"isolation": "none"}, "write one of serializable, snapshot"),
        ("error", {}, "Overwrite"),
    ],
)
def test_what_can_not_be_meant_is_refused_and_changes_nothing(
    spark: SparkSession, cluster: Cluster, mode: str, options: dict[str, str], said: str
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.meant (id BIGINT, day DATE)")
    writer = days(spark, 0, 3).write.format("leasehold").options(**options)
    with pytest.raises(PySparkException, match=said):
        writer.mode(mode).save("e2e.meant")
    assert cluster.plan("e2e.meant").segments == ()


def test_an_unknown_mode_is_refused(spark: SparkSession) -> None:
    with pytest.raises(BadSettings) as caught:
        write(spark.range(1), "e2e.meant", "replace")  # pyright: ignore[reportArgumentType]
    assert caught.value.hint == "write append or overwrite"


def test_doubles_are_no_keys_to_replace_by(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.doubles (id DOUBLE)")
    with pytest.raises(Refused) as caught:
        write(spark.sql("SELECT 1.0D AS id"), "e2e.doubles", "overwrite", by="id")
    assert caught.value.code == "BAD_SCHEMA"
    assert "name a column of whole numbers" in (caught.value.hint or "")


def begun(running: RunningCluster, name: str, **options: str) -> tuple[LeaseholdSink, list[WriterCommitMessage | None]]:
    """An overwrite with one new row, that waits for its commit."""
    given = {"table": name, "cluster": str(running.directory), **options}
    sink = LeaseholdSource(given).writer(SCHEMA, overwrite=True)
    (batch,) = rows_of(7).to_batches()
    return sink, [sink.write(iter([batch]))]


def test_of_two_writes_that_replace_a_day_one_wins(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, filled: Fill
) -> None:
    name = filled("raced")
    sink, staged = begun(running, name, replaceWhere=FIFTEENTH)
    cluster.table(name).overwrite(rows_of(1_000), FIFTEENTH)
    with pytest.raises(LeaseholdError, match="CONFLICT"):
        sink.commit(staged)
    sink.abort(staged)
    assert ids(table(spark, name, where=FIFTEENTH)) == [1_000]


def test_rows_that_were_added_meanwhile_are_a_conflict_unless_they_may_stay(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, filled: Fill
) -> None:
    name = filled("added")
    serializable, first = begun(running, name, replaceWhere=FIFTEENTH)
    snapshot, second = begun(running, name, replaceWhere=FIFTEENTH, isolation="snapshot")
    elsewhere, third = begun(running, name, replaceWhere="day = DATE '2013-06-15' AND id < 100")
    cluster.table(name).append(rows_of(1_000))
    with pytest.raises(LeaseholdError, match=r"further ones were added.*CONFLICT"):
        serializable.commit(first)
    snapshot.commit(second)
    assert ids(table(spark, name, where=FIFTEENTH)) == [7, 1_000]
    with pytest.raises(LeaseholdError, match="CONFLICT"):
        elsewhere.commit(third)


def test_rows_that_were_deleted_meanwhile_are_a_conflict(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, filled: Fill
) -> None:
    name = filled("deleted")
    sink, staged = begun(running, name, replaceWhere=FIFTEENTH)
    cluster.sql(f"DELETE FROM {name} WHERE id < 200")
    with pytest.raises(LeaseholdError, match="CONFLICT"):
        sink.commit(staged)
    sink, staged = begun(running, name, replaceWhere=FIFTEENTH)
    sink.commit(staged)
    assert ids(table(spark, name)) == [7, *(one for one in range(200, 300) if one % 30 != 14)]


def test_a_commit_that_is_asked_again_changes_nothing(
    spark: SparkSession, running: RunningCluster, filled: Fill
) -> None:
    name = filled("asked_again")
    sink, staged = begun(running, name)
    sink.commit(staged)
    sink.commit(staged)
    sink.abort(staged)
    assert ids(table(spark, name)) == [7]
