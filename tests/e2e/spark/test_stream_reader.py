"""A table that is followed as a stream: its rows at first, then those that are added, each once."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import table
from tests.e2e.spark.patience import to_its_end

pytestmark = pytest.mark.spark

Follow = Callable[..., list[int]]


@pytest.fixture
def follow(spark: SparkSession, tmp_path: Path) -> Follow:
    """Runs a query from one table to files until it has read what there is; all ids that it has read so far."""

    def run(name: str, checkpoint: str = "checkpoint", **options: object) -> list[int]:
        reader = spark.readStream.format("leasehold").options(**{one: str(value) for one, value in options.items()})
        out = str(tmp_path / f"{checkpoint}-out")
        writer = reader.load(name).select("id").writeStream.format("parquet").option("path", out)
        to_its_end(writer.option("checkpointLocation", str(tmp_path / checkpoint)))
        return sorted(row["id"] for row in spark.read.schema("id LONG").parquet(out).collect())

    return run


@pytest.fixture
def made(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "e2e.followed_" + "".join(one if one.isalnum() else "_" for one in request.node.name.removeprefix("test_"))
    cluster.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    return name


def append(cluster: Cluster, name: str, begin: int, end: int) -> int:
    ids = list(range(begin, end))
    return cluster.table(name).append(pa.table({"id": ids, "v": [str(one) for one in ids]})).revision


def test_a_snapshot_and_then_what_is_added(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 0, 10)
    append(cluster, made, 10, 20)
    assert follow(made) == list(range(20))
    assert follow(made) == list(range(20))
    append(cluster, made, 20, 30)
    append(cluster, made, 30, 40)
    assert follow(made) == list(range(40))


def test_an_empty_table_is_followed_too(cluster: Cluster, follow: Follow, made: str) -> None:
    assert follow(made) == []
    append(cluster, made, 0, 10)
    assert follow(made) == list(range(10))


def test_rewritten_rows_are_not_new(cluster: Cluster, follow: Follow, made: str) -> None:
    for begin in range(0, 100, 10):
        append(cluster, made, begin, begin + 10)
    assert follow(made) == list(range(100))
    for begin in range(100, 200, 10):
        append(cluster, made, begin, begin + 10)
    assert cluster.compact(made).segments_replaced > 1
    assert follow(made) == list(range(200))


def test_rows_after_a_revision(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 0, 10)
    revision = append(cluster, made, 10, 20)
    append(cluster, made, 20, 30)
    assert follow(made, startingRevision=revision) == list(range(20, 30))
    append(cluster, made, 30, 40)
    assert follow(made, startingRevision=revision) == list(range(20, 40))


@pytest.mark.parametrize(("option", "batches"), [("maxSegmentsPerTrigger", 8), ("maxRowsPerTrigger", 4)])
def test_batches_have_a_size(
    cluster: Cluster, follow: Follow, made: str, tmp_path: Path, option: str, batches: int
) -> None:
    """Eight segments of ten rows or a few less in the snapshot, and as many afterwards."""
    limit = 1 if option == "maxSegmentsPerTrigger" else 20
    for begin in (0, 40):
        for first in range(begin, begin + 40, 10):
            append(cluster, made, first, first + 10)
        assert follow(made, **{option: limit}) == list(range(begin + 40))
        offsets = [one for one in (tmp_path / "checkpoint" / "offsets").iterdir() if one.name.isdigit()]
        assert len(offsets) >= batches * (1 + begin // 40) // (1 if limit == 1 else 2)


def test_a_delete_ends_the_stream_unless_it_is_ignored(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 0, 10)
    assert follow(made) == follow(made, "ignoring", ignoreDeletes="true") == list(range(10))
    append(cluster, made, 10, 20)
    cluster.sql(f"DELETE FROM {made} WHERE id >= 5 AND id < 15")
    with pytest.raises(PySparkException, match="ROWS_TAKEN_AWAY"):
        follow(made)
    assert follow(made, "ignoring", ignoreDeletes="true") == [*range(10), *range(15, 20)]
    assert follow(made, "anew") == [*range(5), *range(15, 20)]


def test_replaced_rows_end_the_stream_unless_that_is_ignored(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 0, 10)
    assert follow(made) == follow(made, "ignoring", ignoreDeletes="true") == list(range(10))
    rows = pa.table({"id": [7, 70], "v": ["7", "70"]})
    cluster.table(made).overwrite(rows, "id >= 7")
    with pytest.raises(PySparkException, match="ROWS_TAKEN_AWAY"):
        follow(made)
    assert follow(made, "ignoring", ignoreDeletes="true") == sorted([*range(10), 7, 70])
    assert follow(made, "anew") == [*range(8), 70]


def test_a_checkpoint_of_a_table_that_was_made_again_is_refused(cluster: Cluster, follow: Follow, made: str) -> None:
    append(cluster, made, 0, 10)
    assert follow(made) == list(range(10))
    cluster.sql(f"DROP TABLE {made}")
    cluster.sql(f"CREATE TABLE {made} (id BIGINT, v STRING)")
    append(cluster, made, 100, 110)
    with pytest.raises(PySparkException, match="was dropped and made again"):
        follow(made)


def test_new_columns_come_with_the_next_start_and_dropped_ones_end_it(
    spark: SparkSession, cluster: Cluster, follow: Follow, made: str
) -> None:
    append(cluster, made, 0, 10)
    assert follow(made) == list(range(10))
    cluster.sql(f"ALTER TABLE {made} ADD COLUMN w BIGINT DEFAULT 7")
    append(cluster, made, 10, 20)
    assert follow(made) == list(range(20))
    assert spark.readStream.format("leasehold").load(made).columns == ["id", "v", "w"]
    cluster.sql(f"ALTER TABLE {made} DROP COLUMN v")
    append_ids = pa.table({"id": [20]})
    cluster.table(made).append(append_ids)
    assert follow(made) == list(range(21))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"startingRevison": 3}, "startingRevision"),
        ({"where": "id > 3"}, "no option 'where'"),
        ({"startingRevision": "x"}, "no whole number"),
        ({"startingRevision": 10**9}, "does not exist yet"),
        ({"maxRowsPerTrigger": 0}, "write 1 or more"),
        ({"ignoreDeletes": "yes"}, "write true or false"),
    ],
)
def test_bad_options_are_refused(follow: Follow, kinds: object, options: dict[str, object], match: str) -> None:
    with pytest.raises(PySparkException, match=match):
        follow("e2e.kinds", **options)


def test_the_checkpoint_says_how_far_the_stream_is(cluster: Cluster, follow: Follow, made: str, tmp_path: Path) -> None:
    append(cluster, made, 0, 10)
    follow(made)
    last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
    offset = json.loads(last.read_text().splitlines()[-1])
    facts = cluster.facts(made)
    assert (offset["table"], offset["snapshot"], offset["read"]) == (facts.table, None, 0)


def test_a_table_is_copied_by_a_stream(spark: SparkSession, cluster: Cluster, made: str, tmp_path: Path) -> None:
    """From one table into another, both ends ours."""
    cluster.sql(f"CREATE TABLE {made}_copy (id BIGINT, v STRING)")
    for begin in range(0, 30, 10):
        append(cluster, made, begin, begin + 10)
        source = spark.readStream.format("leasehold").option("maxRowsPerTrigger", 5).load(made)
        writer = source.writeStream.format("leasehold").option("checkpointLocation", str(tmp_path / "copied"))
        to_its_end(writer, f"{made}_copy")
    found = table(spark, f"{made}_copy").collect()
    assert sorted((row["id"], row["v"]) for row in found) == [(one, str(one)) for one in range(30)]
