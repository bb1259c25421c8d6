"""All ways to read a table give the same rows: over Flight, by Spark's reader of files, and without Spark.

Nullability differs: to Spark, a column that comes from files may be null, also where it is NOT NULL in the table. One
that all files lack is its first value, which is not null.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from leasehold.client.cluster import Cluster
from leasehold.client.table import conditions
from leasehold.core.data.read_groups import members
from leasehold.core.words.messages import ScanPlan
from leasehold.spark import joined_files, table
from leasehold.spark.local_frames import local_frame
from leasehold.spark.options import plan_options
from leasehold.spark.types import spark_schema
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark.drawn_tables import COMPARISONS, DrawnTable, rows_of
from tests.e2e.waiting import files_below
from tests.few import few

pytestmark = pytest.mark.spark

TABLES = 200
QUERIES = 3
ZONE = "spark.sql.session.timeZone"
ZONES = ("UTC", "Asia/Kathmandu", "America/New_York")
SETTINGS = {
    "as it is": {},
    "by field id": {"spark.sql.parquet.fieldId.read.enabled": "true"},
    "without filters": {"spark.sql.parquet.filterPushdown": "false"},
}
WAYS = ("client", "local", "joined", *SETTINGS, "count")
"""Besides the source over Flight."""
AT_ONCE, SOME = 20, 2
Opened = Callable[[ScanPlan], list[list[Path]]]


@pytest.fixture
def opened(running: RunningCluster, tmp_path: Path) -> Opened:
    """Makes the folders of the groups of a plan: links to the files of the nodes."""
    made = iter(range(1_000))

    def link(plan: ScanPlan) -> list[list[Path]]:
        files = {file.name: file for file in files_below(running.directory, ".parquet")}
        root = tmp_path / f"an [odd] {{name}} with * = %41 {next(made)}"
        folders: list[list[Path]] = []
        for number, segments in enumerate(members(plan)):
            folder = root / str(number)
            folder.mkdir(parents=True)
            for one in segments:
                os.link(files[f"{one.id}.parquet"], folder / f"{one.id}.parquet")
            folders.append([folder])
        assert sum(map(len, members(plan))) == len(plan.segments), "all are in groups"
        return folders

    return link


def nullable(schema: StructType) -> StructType:
    return StructType([StructField(one.name, one.dataType, True) for one in schema.fields])


@pytest.mark.parametrize("seed", few(5, range(TABLES)))
def test_all_ways_to_read_give_the_same_rows(spark: SparkSession, cluster: Cluster, opened: Opened, seed: int) -> None:
    with _drawn(spark, cluster, seed) as drawn:
        for _ in range(QUERIES):
            _compare(spark, drawn, opened, WAYS)


@pytest.mark.parametrize("first", few(4, range(0, TABLES, AT_ONCE)))
def test_some_ways_to_read_give_the_same_rows(
    spark: SparkSession, cluster: Cluster, opened: Opened, first: int
) -> None:
    """Of each table one query, in ways that are drawn."""
    for seed in range(first, first + AT_ONCE):
        with _drawn(spark, cluster, seed) as drawn:
            _compare(spark, drawn, opened, drawn.random.sample(WAYS, k=SOME))


@contextmanager
def _drawn(spark: SparkSession, cluster: Cluster, seed: int) -> Generator[DrawnTable]:
    random = Random(seed)
    drawn = DrawnTable(cluster, f"e2e.drawn_{seed}", random)
    drawn.grow()
    spark.conf.set(ZONE, random.choice(ZONES))
    try:
        yield drawn
    except Exception as error:
        error.add_note("\n".join(drawn.log))
        raise
    finally:
        spark.conf.set(ZONE, "UTC")
        cluster.sql(f"DROP TABLE {drawn.name}")


def _compare(spark: SparkSession, drawn: DrawnTable, opened: Opened, ways: Sequence[str]) -> None:
    random = drawn.random
    names = [one.name for one in drawn.fields()]
    columns = random.sample(names, k=random.randint(1, len(names))) if random.random() < 0.5 else None
    operators = (*COMPARISONS, "IN", "IS NULL", "IS NOT NULL", "LIKE")
    found = [one for one in (drawn.condition(operators) for _ in range(random.randint(0, 2))) if one]
    where = " AND ".join(found) or None
    pushed = [drawn.spark_condition() for _ in range(random.choice((0, 1, 1, 2)))]
    pushed = pushed if columns is None else []
    drawn.log.append(f"-- columns={columns} where={where} filters={pushed}")
    source = filtered(table(spark, drawn.name, columns, where=where, local=False), pushed)
    expected = rows_of(source.toArrow())
    if "client" in ways and not pushed:
        scanned = drawn.cluster.table(drawn.name).scan(columns, where=where).read_all()
        assert rows_of(scanned) == expected, "the client and the source"
    if "local" in ways:
        whole = table(spark, drawn.name, columns, where=where, local=True)
        assert rows_of(filtered(whole, pushed).toArrow()) == expected, "files that the nodes have handed out"
    if "joined" in ways:
        with patch.object(joined_files, "JOINED_FILES_MIN", 2):
            joined = table(spark, drawn.name, columns, where=where, local=True)
        assert rows_of(filtered(joined, pushed).toArrow()) == expected, "files that were joined"
    plan = drawn.cluster.plan(drawn.name, columns, where=conditions(where), grouped=True)
    folders, others = opened(plan), None
    if random.random() < 0.25:
        elsewhere = random.sample(range(len(folders)), k=random.randint(0, min(2, len(folders))))
        others = over_flight(spark, plan, elsewhere)
        folders = [[] if place in elsewhere else one for place, one in enumerate(folders)]
    frame = filtered(local_frame(spark, plan, folders, others), pushed)
    assert nullable(frame.schema) == nullable(source.schema)
    for name in (one for one in ways if one in SETTINGS):
        with settings(spark, SETTINGS[name]):
            # A frame is planned once, so each setting has one of its own.
            assert rows_of(frame.select("*").toArrow()) == expected, name
    if "count" in ways:
        assert frame.count() == len(expected)


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Generator[None]:
    """Sets settings of the session, and forgets them."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


def over_flight(spark: SparkSession, plan: ScanPlan, groups: list[int]) -> DataFrame:
    """The rows of some groups of a plan by the source."""
    segments = tuple(one for place, each in enumerate(members(plan)) if place in groups for one in each)
    rest = msgspec.structs.replace(plan, segments=segments, grouped=None)
    reader = spark.read.format("leasehold").schema(spark_schema(plan.fields))
    return reader.options(**plan_options(rest)).load(plan.facts.name)


def filtered(frame: DataFrame, texts: list[str]) -> DataFrame:
    for one in texts:
        frame = frame.where(one)
    return frame


def test_the_rest_of_a_plan_is_read_as_it_was_planned(spark: SparkSession, cluster: Cluster, opened: Opened) -> None:
    """Over Flight, beside files: with the rows and the cutoff of the plan, or not at all."""
    cluster.sql("CREATE TABLE e2e.rest (id BIGINT, v STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    rows = cluster.table("e2e.rest")
    rows.append(pa.table({"id": range(10), "v": ["a"] * 10}))
    cluster.sql("ALTER TABLE e2e.rest ADD COLUMN w INT DEFAULT 7")
    rows.append(pa.table({"id": range(10, 20), "v": ["b"] * 10}))
    plan = cluster.plan("e2e.rest", ["w", "id"], grouped=True)
    assert plan.grouped is not None
    assert len(plan.grouped.groups) == 2
    frame = local_frame(spark, plan, [[], opened(plan)[1]], over_flight(spark, plan, [0]))
    rows.append(pa.table({"id": range(20, 30), "v": ["c"] * 10}))
    assert sorted(row["id"] for row in frame.collect()) == list(range(20)), "later rows are not of the plan"
    cluster.sql("DELETE FROM e2e.rest WHERE id < 20 AND id >= 0")
    with pytest.raises(Exception, match="ROWS_TAKEN_AWAY"):
        frame.select("id").collect()
