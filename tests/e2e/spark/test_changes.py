"""The changes of a table in Spark: at once, and as a stream."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import Refused
from leasehold.spark import changes, merge, write
from leasehold.spark.types import spark_schema
from tests.e2e.spark.kinds import EVERY_TYPE, UTC, rows
from tests.e2e.spark.patience import to_its_end

pytestmark = pytest.mark.spark

Follow = Callable[..., list[Row]]


@pytest.fixture
def made(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "e2e.changed_" + "".join(one if one.isalnum() else "_" for one in request.node.name.removeprefix("test_"))
    cluster.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    return name


@pytest.fixture
def follow(spark: SparkSession, tmp_path: Path) -> Follow:
    """Runs a query from the changes of a table to files until it has read what there is; all rows that it has read."""

    def run(name: str, checkpoint: str = "checkpoint", **options: object) -> list[Row]:
        reader = spark.readStream.format("leasehold").option("changes", "true")
        frame = reader.options(**{one: str(value) for one, value in options.items()}).load(name)
        out = str(tmp_path / f"{checkpoint}-out")
        writer = frame.writeStream.format("parquet").option("path", out)
        to_its_end(writer.option("checkpointLocation", str(tmp_path / checkpoint)))
        return spark.read.schema(frame.schema).parquet(out).collect()

    return run


def append(cluster: Cluster, name: str, *ids: int, text: str = "") -> int:
    return cluster.table(name).append(pa.table({"id": ids, "v": [f"{text}{one}" for one in ids]})).revision


def seen(found: list[Row]) -> list[tuple[int, str, str]]:
    return sorted((row["id"], row["v"], row["_change"]) for row in found)


def applied(frame: DataFrame) -> Counter[int]:
    """What is left of the ids once each change has happened."""
    found: Counter[int] = Counter()
    for row in frame.collect():
        found[row["id"]] += 1 if row["_change"] == "insert" else -1
    return +found


def test_a_merge_of_one_row_is_two_changes(spark: SparkSession, cluster: Cluster, made: str) -> None:
    since = append(cluster, made, *range(100))
    late = spark.createDataFrame([(7, "late"), (200, "new")], "id LONG, v STRING")
    merge(late, made, on=["id"])
    found = changes(spark, made, since)
    assert seen(found.collect()) == [(7, "7", "delete"), (7, "late", "insert"), (200, "new", "insert")]
    ((revision, time),) = {(row["_revision"], row["_committed_at"]) for row in found.collect()}
    told = cluster.table(made).changes(since).read_all().to_pylist()
    assert {(row["_revision"], row["_committed_at"]) for row in told} == {(revision, time.astimezone(UTC))}
    assert since < revision <= cluster.facts(made).revision
    append(cluster, made, 300)
    assert found.count() == 3, "a frame keeps the revision at which it was made"
    assert applied(changes(spark, made, 0)) == Counter([*range(100), 200, 300])


def test_changes_have_all_types(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql(f"CREATE TABLE e2e.changed_types ({EVERY_TYPE})")
    facts = cluster.facts("e2e.changed_types")
    frame = spark.createDataFrame(rows(), spark_schema(facts.fields))
    write(frame, facts.name)
    since = cluster.facts(facts.name).revision
    write(frame.filter("id < 2"), facts.name, "overwrite")
    found = changes(spark, facts.name, since)
    assert {row["_change"] for row in found.collect()} == {"delete"}
    gone = found.drop("_change", "_revision", "_committed_at")
    assert sorted(map(str, gone.collect())) == sorted(str(row) for row in frame.collect() if row["id"] >= 2)


def test_options_say_what_is_read(spark: SparkSession, cluster: Cluster, made: str) -> None:
    since = append(cluster, made, 1)
    until = append(cluster, made, 2)
    append(cluster, made, 3)
    reader = spark.read.format("leasehold").option("changesSince", since)
    assert seen(reader.option("changesUntil", until).load(made).collect()) == [(2, "2", "insert")]
    assert reader.option("columns", "id").load(made).columns == ["id", "_change", "_revision", "_committed_at"]
    for option, value, said in [("where", "id = 1", "no option 'where'"), ("changesUntil", "now", "no whole number")]:
        with pytest.raises(PySparkException, match=said):
            spark.read.format("leasehold").options(changesSince=since, **{option: value}).load(made).collect()
    with pytest.raises(PySparkException, match="_change, _revision, _committed_at"):
        spark.read.format("leasehold").options(changesSince=since).schema("id LONG").load(made).collect()


def test_what_was_deleted_is_an_error_unless_it_is_ignored(spark: SparkSession, cluster: Cluster, made: str) -> None:
    since = append(cluster, made, 1, 2)
    cluster.sql(f"DELETE FROM {made} WHERE id = 1")
    append(cluster, made, 3)
    with pytest.raises(Refused, match="deleted rows can't be read"):
        changes(spark, made, since)
    assert seen(changes(spark, made, since, ignore_deletes=True).collect()) == [(3, "3", "insert")]


def test_a_stream_of_changes_begins_with_a_snapshot(
    spark: SparkSession, cluster: Cluster, follow: Follow, made: str
) -> None:
    append(cluster, made, 1, 2)
    assert seen(follow(made)) == [(1, "1", "insert"), (2, "2", "insert")]
    merge(spark.createDataFrame([(2, "late")], "id LONG, v STRING"), made, on=["id"])
    append(cluster, made, 3)
    cluster.compact(made)
    expected = [(1, "1", "insert"), (2, "2", "delete"), (2, "2", "insert"), (2, "late", "insert"), (3, "3", "insert")]
    assert seen(follow(made)) == expected
    assert seen(follow(made)) == expected


def test_a_stream_of_changes_after_a_revision_in_small_batches(
    cluster: Cluster, follow: Follow, made: str, tmp_path: Path
) -> None:
    since = append(cluster, made, 1, 2)
    for number in range(3, 9):
        append(cluster, made, number)
    cluster.table(made).overwrite(pa.table({"id": [9], "v": ["9"]}))
    found = follow(made, startingRevision=since, maxRowsPerTrigger=2)
    assert Counter(row["_change"] for row in found) == {"insert": 7, "delete": 8}
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 4


def test_a_checkpoint_of_a_stream_without_changes_is_none_of_one_with(
    spark: SparkSession, cluster: Cluster, follow: Follow, made: str, tmp_path: Path
) -> None:
    append(cluster, made, 1)
    writer = spark.readStream.format("leasehold").load(made).writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "other")).option("checkpointLocation", str(tmp_path / "checkpoint"))
    to_its_end(writer)
    append(cluster, made, 2)
    with pytest.raises(PySparkException, match="OTHER_CHECKPOINT"):
        follow(made)


def test_a_delete_ends_a_stream_of_changes_unless_it_is_ignored(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 1, 2)
    follow(made)
    cluster.sql(f"DELETE FROM {made} WHERE id = 1")
    append(cluster, made, 3)
    with pytest.raises(PySparkException, match="ROWS_TAKEN_AWAY"):
        follow(made)
    assert seen(follow(made, ignoreDeletes="true"))[-1] == (3, "3", "insert")


def test_a_table_that_was_made_again_ends_a_stream_of_changes(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 1)
    follow(made)
    cluster.sql(f"DROP TABLE {made}")
    cluster.sql(f"CREATE TABLE {made} (id BIGINT, v STRING)")
    append(cluster, made, 2)
    with pytest.raises(PySparkException, match="TABLE_DROPPED"):
        follow(made)
