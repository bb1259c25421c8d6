"""MERGE by key: what is changed, taken and added, what stays, and what happens if others write meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leasehold.client import overwrite
from leasehold.client.cluster import Cluster
from leasehold.client.merge import Merged
from leasehold.errors import LeaseholdError, Refused
from leasehold.limits.clients import REPLACE_ATTEMPTS
from leasehold.spark import merge, merges, table, write
from tests.e2e.spark.sorted_rows import expected, rows_of

pytestmark = pytest.mark.spark

Row = tuple[int | None, str | None, int | None]
OLD: list[Row] = [(1, "a", 10), (2, "b", 20), (3, "c", 30), (9, None, 90), (None, "x", 0)]
Filled = Callable[[str], str]


def frame_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(list(rows), "k BIGINT, s STRING, n INT")


@pytest.fixture(params=["in this process", "the rows of the table don't move", "all rows move"])
def filled(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Filled]:
    """Makes a table with the old rows; each test merges in all ways. With expressions, Spark merges."""
    ways: set[str] = set()
    is_cheap_twice, merge_rows = merges._is_cheap_twice, merges.merge_rows

    def noted(target: DataFrame, source: DataFrame) -> bool:
        is_cheap = is_cheap_twice(target, source)
        ways.add("the rows of the table don't move" if is_cheap else "all rows move")
        return is_cheap

    def noted_alone(*given: Any) -> Merged:
        ways.add("in this process")
        return merge_rows(*given)

    if request.param != "in this process":
        monkeypatch.setattr(merges, "MERGE_ALONE_BYTES_MAX", -1)
    if request.param == "all rows move":
        monkeypatch.setattr(merges, "MERGE_BROADCAST_BYTES_MAX", -1)
    monkeypatch.setattr(merges, "_is_cheap_twice", noted)
    monkeypatch.setattr(merges, "merge_rows", noted_alone)

    def fill(name: str) -> str:
        cluster.sql(f"DROP TABLE IF EXISTS e2e.{name}")
        cluster.sql(
            f"CREATE TABLE e2e.{name} (k BIGINT, s STRING DEFAULT 'new', n INT) CLUSTERED BY (k) INTO 2 BUCKETS"
        )
        write(frame_of(spark, *OLD), f"e2e.{name}")
        return f"e2e.{name}"

    yield fill
    computed = "expressions" in request.node.name and request.param == "in this process"
    assert ways == {"the rows of the table don't move" if computed else request.param}


def test_rows_are_changed_and_added_and_others_stay(spark: SparkSession, cluster: Cluster, filled: Filled) -> None:
    name = filled("merged")
    for _ in range(2):  # run again, it gives the same
        merge(frame_of(spark, (2, "B", 21), (3, None, 31), (5, "e", 50)), name, ["k"])
        assert rows_of(spark, name) == expected(
            (1, "a", 10), (2, "B", 21), (3, None, 31), (5, "e", 50), (9, None, 90), (None, "x", 0)
        )
    before = cluster.facts(name).revision
    merge(frame_of(spark), name, ["k"])
    assert cluster.facts(name).revision - before < 5
    assert len(rows_of(spark, name)) == 6


def test_columns_that_the_frame_lacks_stay_or_get_their_default(spark: SparkSession, filled: Filled) -> None:
    name = filled("fewer")
    merge(frame_of(spark, (2, "?", 21), (5, "?", 50)).drop("s"), name, "K")
    assert rows_of(spark, name) == expected(*OLD[:1], (2, "b", 21), (5, "new", 50), *OLD[2:])


def test_rows_go_or_stay_as_they_are(spark: SparkSession, filled: Filled) -> None:
    name = filled("taken")
    merge(frame_of(spark, (2, "B", 21), (5, "e", 50)), name, ["k"], when_matched="delete", when_not_matched="ignore")
    assert rows_of(spark, name) == expected(*OLD[:1], *OLD[2:])
    merge(frame_of(spark, (3, "C", 31), (5, "e", 50)), name, ["k"], when_matched="ignore")
    assert rows_of(spark, name) == expected(*OLD[:1], *OLD[2:], (5, "e", 50))


def test_columns_get_the_values_of_expressions(spark: SparkSession, filled: Filled) -> None:
    name = filled("computed")
    changes = {"N": "target.n + source.n", "s": F.upper(F.col("target.s"))}
    merge(frame_of(spark, (2, "?", 1), (5, "e", 50)), name, ["k"], when_matched=changes)
    assert rows_of(spark, name) == expected(*OLD[:1], (2, "B", 21), *OLD[2:], (5, "e", 50))


def test_keys_of_several_columns_and_other_types(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.readings (sensor STRING, at TIMESTAMP, day DATE, p DECIMAL(9,2), v DOUBLE)")
    made = spark.range(100).selectExpr(
        "concat('s', id % 3, '''\\\\') AS sensor",
        "timestamp_micros(1400000000000000 + id * 7) AS at",
        "date_add(DATE '2013-06-01', CAST(id % 5 AS INT)) AS day",
        "CAST(id / 4 AS DECIMAL(9,2)) AS p",
        "CAST(id AS DOUBLE) AS v",
    )
    write(made, "e2e.readings")
    keys = ["sensor", "at", "day", "p"]
    merge(made.where("v >= 50").withColumn("v", -F.col("v")), "e2e.readings", keys, when_not_matched="ignore")
    found = sorted(row["v"] for row in table(spark, "e2e.readings").collect())
    assert found == sorted(float(one if one < 50 else -one) for one in range(100))


def test_keys_that_are_bytes(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.raw_keys (k BINARY, v INT)")
    write(spark.sql("SELECT X'00FF' AS k, 1 AS v UNION ALL SELECT X'FE', 2"), "e2e.raw_keys")
    merge(spark.sql("SELECT X'FE' AS k, 3 AS v UNION ALL SELECT X'', 4"), "e2e.raw_keys", "k")
    found = sorted((bytes(row["k"]), row["v"]) for row in table(spark, "e2e.raw_keys").collect())
    assert found == [(b"", 4), (b"\x00\xff", 1), (b"\xfe", 3)]


@pytest.mark.parametrize(
    ("rows", "how", "code", "said"),
    [
        ([(1, "x", 1), (1, "y", 2)], {}, "AMBIGUOUS", "k = 1"),
        ([(None, "x", 1)], {}, "BAD_VALUE", "no value of the key k"),
        ([(1, "x", 1)], {"on": []}, "BAD_SETTINGS", "without keys"),
        ([(1, "x", 1)], {"on": ["kk"]}, "NO_SUCH_COLUMN", "no column kk"),
        ([(1, "x", 1)], {"when_matched": "replace"}, "BAD_SETTINGS", "'replace'"),
        ([(1, "x", 1)], {"when_matched": {"k": "source.n"}}, "BAD_SETTINGS", "its key k"),
        ([(1, "x", 1)], {"when_matched": {"m": "source.n"}}, "NO_SUCH_COLUMN", "no column m"),
        ([(1, "x", 1)], {"when_not_matched": "update"}, "BAD_SETTINGS", "'update'"),
    ],
)
def test_what_can_not_be_merged_is_refused_and_changes_nothing(
    spark: SparkSession, cluster: Cluster, rows: list[Row], how: dict[str, object], code: str, said: str
) -> None:
    cluster.sql("CREATE TABLE IF NOT EXISTS e2e.unmerged (k BIGINT, s STRING, n INT)")
    with pytest.raises(LeaseholdError, match=said) as caught:
        merge(frame_of(spark, *rows), "e2e.unmerged", **{"on": ["k"], **how})  # pyright: ignore[reportArgumentType]
    assert caught.value.code == code
    assert caught.value.hint
    assert cluster.plan("e2e.unmerged").segments == ()


@pytest.mark.parametrize("times", [1, REPLACE_ATTEMPTS])
def test_a_merge_is_planned_again_if_others_change_its_rows(
    spark: SparkSession, cluster: Cluster, filled: Filled, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    name, begin, begun = filled(f"raced_{times}"), overwrite.begin_overwrite, []

    def begin_and_be_late(*given: Any) -> Any:
        """Others write before the table is read."""
        found = begin(*given)
        if len(begun) < times:
            begun.append(len(begun))
            cluster.table(name).append(pa.table({"k": [2], "s": ["late"], "n": pa.array([len(begun)], pa.int32())}))
        return found

    monkeypatch.setattr(overwrite, "begin_overwrite", begin_and_be_late)
    source = frame_of(spark, (2, "B", 0))
    if times < REPLACE_ATTEMPTS:
        merge(source, name, ["k"])
        assert rows_of(spark, name) == expected(*OLD[:1], (2, "B", 0), (2, "B", 0), *OLD[2:])
    else:
        with pytest.raises((PySparkException, Refused), match=r"CONFLICT|since this write began"):
            merge(source, name, ["k"])
        assert rows_of(spark, name) == expected(*OLD, *((2, "late", one) for one in range(1, times + 1)))
