"""Large frames, whose rows Spark writes into files before they are sent: the same rows, and the same errors."""

import datetime as dt
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from leasehold.client.cluster import Cluster
from leasehold.errors import Definite, Refused
from leasehold.limits.clients import FEW_ROWS_MAX
from leasehold.spark import driver_rows, merge, sql, table, write
from leasehold.spark import spool as spooling
from leasehold.spark.driver_rows import bytes_here
from leasehold.spark.spool import Spool, spooled
from leasehold.spark.types import spark_schema
from tests.e2e.small_disk import SmallDisk
from tests.e2e.spark.kinds import EVERY_TYPE, rows

pytestmark = pytest.mark.spark

UTC = dt.UTC
Spools = list[Spool | None]


@pytest.fixture
def spools(monkeypatch: pytest.MonkeyPatch) -> Spools:
    """Those of all writes that the test makes; those of few rows have one too."""
    made: Spools = []

    @contextmanager
    def noted(frame: DataFrame) -> Generator[Spool | None]:
        with spooled(frame) as spool:
            made.append(spool)
            assert spool is None or spool.folder.parent.stat().st_mode & 0o777 == 0o700
            yield spool

    monkeypatch.setattr(driver_rows, "FEW_BYTES_MAX", -1)
    monkeypatch.setattr(driver_rows, "spooled", noted)
    return made


@contextmanager
def refused(code: str) -> Generator[None]:
    with pytest.raises(Definite) as caught:
        yield
    assert caught.value.code == code


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row["id"] for row in table(spark, name).select("id").collect())


def left(spark: SparkSession) -> list[str]:
    """The names of spools that are there."""
    context: Any = spark.sparkContext
    return [one.name for one in Path(context._temp_dir).glob("leasehold-*")]


def test_only_frames_of_known_size_and_types_take_this_way(spark: SparkSession) -> None:
    assert bytes_here(spark.range(10_000_000)) == 80_000_000
    assert bytes_here(spark.range(10)) == 80
    assert bytes_here(spark.createDataFrame([Row(id=1)])) is None, "its size is not known"
    assert bytes_here(spark.range(10).selectExpr("id", "array(id) AS several")) is None
    assert bytes_here(spark.range(10).selectExpr("id", "NULL AS nothing")) is None


def test_rows_that_are_few_as_spark_guesses_and_are_not_go_by_way_of_files(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    @contextmanager
    def noted(frame: DataFrame) -> Generator[Spool | None]:
        made.append(1)
        with spooled(frame) as spool:
            yield spool

    monkeypatch.setattr(driver_rows, "spooled", noted)
    cluster.sql("CREATE TABLE e2e.guessed (id BIGINT)")
    for count in (FEW_ROWS_MAX, FEW_ROWS_MAX + 1):
        frame = spark.range(1).selectExpr(f"explode(sequence(1L, {count}L)) AS id")
        write(frame, "e2e.guessed", "overwrite")
        assert ids(spark, "e2e.guessed") == list(range(1, count + 1))
        assert len(made) == (count > FEW_ROWS_MAX)


def test_a_large_frame_is_written_whole(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.large (id BIGINT, tag STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    frame = spark.range(5_000_000).withColumn("tag", F.concat(F.lit("row "), F.col("id").cast("string")))
    assert bytes_here(frame)
    write(frame, "e2e.large")
    found = table(spark, "e2e.large").agg(F.count("*"), F.sum("id"), F.max("tag"), F.countDistinct("tag")).first()
    assert found is not None
    assert tuple(found) == (5_000_000, 4_999_999 * 2_500_000, "row 999999", 5_000_000)
    assert left(spark) == []


@pytest.mark.parametrize("few", [False, True], ids=["by files", "few"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "spark.sql.session.timeZone": "America/Los_Angeles",
            "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
            "spark.sql.parquet.writeLegacyFormat": "true",
            "spark.sql.caseSensitive": "true",
        },
    ],
    ids=["usual", "odd settings"],
)
def test_every_type_comes_back_as_it_was_written(
    spark: SparkSession,
    cluster: Cluster,
    spools: Spools,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    settings: dict[str, str],
    few: bool,
) -> None:
    name = f"e2e.spooled_{len(settings)}_{few}"
    if few:
        monkeypatch.setattr(driver_rows, "FEW_BYTES_MAX", 2**20)
    cluster.sql(f"CREATE TABLE {name} ({EVERY_TYPE}) CLUSTERED BY (id) INTO 4 BUCKETS")
    for key, value in settings.items():
        before = spark.conf.get(key, None)
        spark.conf.set(key, value)
        request.addfinalizer(lambda key=key, before=before: restore(spark, key, before))
    written = rows()
    frame = spark.createDataFrame(written, spark_schema(cluster.facts(name).fields)).repartition(3).cache()
    frame.count()  # now Spark knows its size
    write(frame, name)
    frame.unpersist()

    assert [one is not None for one in spools] == ([] if few else [True])
    found = sorted(table(spark, name, local=False).collect(), key=lambda row: row["id"])
    instants = [row["at"] and row["at"].astimezone(UTC) for row in found]
    assert instants == [row[10] for row in written]
    assert [tuple(row)[:10] + tuple(row)[11:] for row in found] == [row[:10] + row[11:] for row in written]
    old = spark.range(1).selectExpr(
        "99L AS id", "DATE '0001-01-01' AS day", "timestamp_micros(-62135596800000001) AS at"
    )
    write(old, name)
    found_old = cluster.table(name).scan(where="id = 99").read_all()
    assert found_old.column("at").cast(pa.int64()).to_pylist() == [-62135596800000001]
    assert found_old.column("day").to_pylist() == [dt.date(1, 1, 1)]


def restore(spark: SparkSession, key: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


def test_rows_are_replaced_and_merged_this_way(spark: SparkSession, cluster: Cluster, spools: Spools) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_days (id BIGINT, day INT) CLUSTERED BY (id) INTO 2 BUCKETS")
    days = spark.range(100).selectExpr("id", "int(id % 10) AS day")
    write(days, "e2e.spooled_days")
    write(spark.range(200, 205).selectExpr("id", "3 AS day"), "e2e.spooled_days", "overwrite", where="day = 3")
    write(spark.range(300, 305).selectExpr("id", "4 AS day"), "e2e.spooled_days", "overwrite", by="day")
    kept = [one for one in range(100) if one % 10 not in (3, 4)]
    assert ids(spark, "e2e.spooled_days") == [*kept, *range(200, 205), *range(300, 305)]
    with refused("OUTSIDE_REPLACED"):
        write(days, "e2e.spooled_days", "overwrite", where="day = 5")
    merge(spark.range(99, 102).selectExpr("id", "0 AS day"), "e2e.spooled_days", on=["id"])
    assert ids(spark, "e2e.spooled_days") == [*kept, 100, 101, *range(200, 205), *range(300, 305)]
    days.createOrReplaceTempView("spooled_days")
    sql(spark, "INSERT OVERWRITE e2e.spooled_days SELECT id, day FROM spooled_days")
    assert ids(spark, "e2e.spooled_days") == list(range(100))
    assert len(spools) == 5, "the merge is done in this process"
    assert None not in spools
    assert left(spark) == []


def test_columns_come_with_the_rows(spark: SparkSession, cluster: Cluster, spools: Spools) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_more (id BIGINT)")
    write(spark.range(3).selectExpr("id AS ID", "'a' AS tag"), "e2e.spooled_more", merge_schema=True)
    assert [tuple(one) for one in table(spark, "e2e.spooled_more").orderBy("id").collect()] == [
        (one, "a") for one in range(3)
    ]
    assert len(spools) == 1


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["id", "1 AS `odd. name`"], "the table has no column odd. name"),
        (["id", "id AS ID"], "ID occurs twice"),
        (["'a' AS id"], "id is string where the table has BIGINT"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_row_is_made(
    spark: SparkSession, cluster: Cluster, spools: Spools, columns: list[str], told: str
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.spooled_odd (id BIGINT)")
    with pytest.raises(Refused, match=told):
        write(spark.range(3).selectExpr(*columns), "e2e.spooled_odd")
    assert spools == []


def test_options_that_do_not_go_together_alter_no_table(spark: SparkSession, cluster: Cluster, spools: Spools) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_unaltered (id BIGINT)")
    with refused("BAD_SETTINGS"):
        write(spark.range(3).selectExpr("id", "1 AS n"), "e2e.spooled_unaltered", where="id = 1", merge_schema=True)
    assert [one.name for one in cluster.facts("e2e.spooled_unaltered").fields] == ["id"]
    assert spools == []


def test_a_number_that_does_not_fit_fails_the_write(spark: SparkSession, cluster: Cluster, spools: Spools) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_small (id INT NOT NULL)")
    with refused("ROWS_DO_NOT_FIT"):
        write(spark.range(2**31 - 1, 2**31 + 1), "e2e.spooled_small")
    with refused("ROWS_DO_NOT_FIT"):
        write(spark.range(3).selectExpr("nullif(id, 1) AS id"), "e2e.spooled_small")
    assert len(spools) == 2
    assert ids(spark, "e2e.spooled_small") == []
    assert left(spark) == []


def test_a_frame_that_fails_leaves_nothing(spark: SparkSession, cluster: Cluster, spools: Spools) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_failing (id BIGINT)")

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise OSError("the frame itself fails")

    with pytest.raises(Exception, match="the frame itself fails"):
        write(spark.range(10).mapInArrow(fail, "id bigint"), "e2e.spooled_failing")
    assert spools == []
    assert left(spark) == []
    assert ids(spark, "e2e.spooled_failing") == []


def test_rows_that_others_add_while_the_frame_is_made_are_a_conflict(
    spark: SparkSession, cluster: Cluster, spools: Spools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replaced is pinned before the rows are made, since they may come of it."""
    cluster.sql("CREATE TABLE e2e.spooled_race (id BIGINT)")
    cluster.table("e2e.spooled_race").append(pa.table({"id": [1]}))

    @contextmanager
    def late(frame: DataFrame) -> Generator[Spool | None]:
        with spooled(frame) as spool:
            cluster.table("e2e.spooled_race").append(pa.table({"id": [2]}))
            yield spool

    monkeypatch.setattr(driver_rows, "spooled", late)
    with refused("CONFLICT"):
        write(spark.range(5, 7), "e2e.spooled_race", "overwrite")
    assert ids(spark, "e2e.spooled_race") == [1, 2]


def test_rows_that_are_changed_this_way_are_read_again_after_a_conflict(
    spark: SparkSession, cluster: Cluster, spools: Spools, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_again (id BIGINT, n INT)")
    write(spark.range(3).selectExpr("id", "1 AS n"), "e2e.spooled_again")

    @contextmanager
    def late(frame: DataFrame) -> Generator[Spool | None]:
        with spooled(frame) as spool:
            spools.append(spool)
            if len(spools) == 2:
                cluster.table("e2e.spooled_again").append(pa.table({"id": [7], "n": pa.array([1], pa.int32())}))
            yield spool

    monkeypatch.setattr(driver_rows, "spooled", late)
    sql(spark, "UPDATE e2e.spooled_again SET n = n + 1")
    assert [tuple(one) for one in table(spark, "e2e.spooled_again").orderBy("id").collect()] == [
        (one, 2) for one in (0, 1, 2, 7)
    ]
    assert len(spools) == 3


def test_a_full_disk_of_the_driver_only_costs_time(
    spark: SparkSession, cluster: Cluster, spools: Spools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.sql("CREATE TABLE e2e.spooled_full (id BIGINT)")
    with SmallDisk(tmp_path / "disk") as disk:
        if not disk.is_mounted:
            pytest.skip("only root can mount a small disk")
        disk.fill(leave=65_536)
        folder: Callable[[SparkSession], Path] = lambda _: disk.directory / "spool"  # noqa: E731
        monkeypatch.setattr(spooling, "_folder", folder)
        write(spark.range(100_000), "e2e.spooled_full")
    assert spools == [None]
    assert table(spark, "e2e.spooled_full").count() == 100_000


@pytest.mark.parametrize(
    ("statements", "column"),
    [
        (("ALTER TABLE {} ADD COLUMN c BIGINT",), "b"),
        (
            (
                "ALTER TABLE {} RENAME COLUMN a TO c",
                "ALTER TABLE {} RENAME COLUMN b TO a",
                "ALTER TABLE {} RENAME COLUMN c TO b",
            ),
            "a",
        ),
        (("ALTER TABLE {} DROP COLUMN b", "ALTER TABLE {} ADD COLUMN b BIGINT"), "SCHEMA_CHANGED"),
        (("DROP TABLE {}", "CREATE TABLE {} (a BIGINT, b BIGINT)"), "TABLE_DROPPED"),
    ],
    ids=["added", "exchanged", "dropped", "made again"],
)
def test_a_table_altered_while_files_are_made_gets_no_row_in_another_column(
    spark: SparkSession,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    statements: tuple[str, ...],
    column: str,
) -> None:
    """Its values are in the column that was `b` when the write began, by whatever name, or the write is refused."""
    name = f"e2e.spooled_for_{column.lower()}"
    cluster.sql(f"CREATE TABLE {name} (a BIGINT, b BIGINT)")

    @contextmanager
    def altered(frame: DataFrame) -> Generator[Spool | None]:
        with spooled(frame) as spool:
            for one in statements:
                cluster.sql(one.format(name))
            yield spool

    monkeypatch.setattr(driver_rows, "FEW_BYTES_MAX", -1)
    monkeypatch.setattr(driver_rows, "spooled", altered)
    frame = spark.range(5).selectExpr("id AS a", "id + 10 AS b")
    if column.islower():
        write(frame, name)
        assert sorted(cluster.table(name).scan().read_all()[column].to_pylist()) == list(range(10, 15))
        return
    with refused(column):
        write(frame, name)
    assert cluster.table(name).scan().read_all().num_rows == 0
