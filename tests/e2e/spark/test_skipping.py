"""Conditions, columns and revisions of a read, as options and as arguments."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import BadSettings, BadStatement, LeaseholdError, NotFound, Refused
from leasehold.spark import table
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
EXACT = (
    "tiny = 127",
    "small <= 0",
    "number > 0",
    "single >= 1.5",
    "single > 2",
    "real = 0",
    "real < 0.2",
    "tag = ''",
    "tag LIKE 'ä%'",
    "tag = 'nothing'",
    "raw = X'00FF'",
    "yes = TRUE",
    "day < DATE '1970-01-01'",
    "day IN (DATE '1970-01-01', DATE '9999-12-31')",
    "at > TIMESTAMP '2026-07-01 12:30:00.123455Z'",
    "at BETWEEN TIMESTAMP '1969-01-01 00:00:00Z' AND TIMESTAMP '1970-01-01 00:00:00Z'",
    "price = 0.01",
    "wide < 0",
    "id IN (1, 2, 3)",
    "tag IS NULL",
    "tag IS NOT NULL AND id > 1",
)
"""What can be written as `where` too."""
PARTLY = ("yes", "NOT yes", "id % 2 = 0 AND id < 10", "id = 1 OR id = 2", "tag LIKE '%x' AND id >= 2", "single = 0.1")


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, "false")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def loaded(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("leasehold").options(**options).load("e2e.kinds")


def test_all_ways_to_choose_rows_give_the_same(
    spark: SparkSession, kinds: list[Row], cluster: Cluster, pushing: None
) -> None:
    spark.conf.set(PUSHDOWN, "false")
    whole = table(spark, "e2e.kinds").cache()
    expected = {one: ids(whole.where(one)) for one in (*EXACT, *PARTLY)}
    assert sum(map(bool, expected.values())) > len(expected) // 2
    for one in EXACT:
        assert ids(table(spark, "e2e.kinds", where=one)) == expected[one], one
        scanned = cluster.table("e2e.kinds").scan(["id"], where=one).read_all()
        assert sorted(scanned["id"].to_pylist()) == expected[one], one
    spark.conf.set(PUSHDOWN, "true")
    for one in (*EXACT, *PARTLY):
        assert ids(loaded(spark).where(one)) == expected[one], one
    whole.unpersist()


def test_options_of_a_read(spark: SparkSession, kinds: list[Row]) -> None:
    frame = loaded(spark, columns="tag, id", where="id < 2")
    assert frame.columns == ["tag", "id"]
    assert ids(frame) == [0, 1]
    found = spark.read.format("leasehold").option("WHERE", "id = 1").option("table", "e2e.kinds").load()
    assert ids(found) == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"asOfRevison": "1"}, "asOfRevision"),
        ({"wher": "id = 1"}, "where"),
        ({"something": "else"}, "the options are table, cluster"),
        ({"asOfRevision": "yesterday"}, "no whole number"),
        ({"asOfRevision": "999999999"}, "FUTURE_REVISION"),
        ({"asOfTimestamp": "yesterday"}, "2026-06-15T12:30:00Z"),
        ({"asOfTimestamp": "2026-06-15T12:30:00"}, "no time zone"),
        ({"asOfTimestamp": "9999-01-01T00:00:00Z"}, "FUTURE_REVISION"),
        ({"asOfTimestamp": "1999-01-01T00:00:00Z"}, "TOO_OLD"),
        ({"asOfTimestamp": "2026-06-15T12:30:00Z", "asOfRevision": "7"}, "leave out one"),
        ({"columns": "id,tagg"}, "no column tagg"),
        ({"columns": ""}, "no column"),
        ({"where": "id + 1 = 2"}, "LIKE 'start%'"),
        ({"where": "id = 'one'"}, "BAD_VALUE"),
        ({"where": "nothing = 1"}, "no column nothing"),
        ({"table": "e2e.other"}, "two tables"),
    ],
)
def test_bad_options_are_refused_with_what_to_write(
    spark: SparkSession, kinds: list[Row], options: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        loaded(spark, **options)
    assert words in str(caught.value).strip().splitlines()[-1] or words in str(caught.value)


def test_an_unknown_option_of_a_write_is_refused(spark: SparkSession, kinds: list[Row]) -> None:
    frame = table(spark, "e2e.kinds", where="id = 0")
    with pytest.raises(Exception, match="no option 'where'"):
        frame.write.format("leasehold").option("where", "id = 1").mode("append").save("e2e.kinds")


def test_bad_arguments(spark: SparkSession, kinds: list[Row]) -> None:
    wrong = [
        ({"columns": []}, Refused),
        ({"columns": "id"}, Refused),
        ({"columns": ["idd"]}, NotFound),
        ({"where": "id ="}, BadStatement),
        ({"where": "id = TRUE"}, Refused),
        ({"as_of": 10**9}, Refused),
        ({"as_of": datetime.max.replace(tzinfo=UTC)}, Refused),
        ({"as_of": datetime.now(UTC).replace(tzinfo=None)}, BadSettings),
        ({"as_of": "yesterday"}, BadSettings),
    ]
    for arguments, kind in wrong:
        with pytest.raises(kind):
            table(spark, "e2e.kinds", **arguments)


def test_a_read_of_the_past(spark: SparkSession, running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.past (id BIGINT, v STRING)")
    rows = cluster.table("e2e.past")
    first = rows.append(pa.table({"id": [1, 2], "v": ["a", "b"]})).revision
    noted = datetime.now(UTC)
    cluster.sql("ALTER TABLE e2e.past RENAME COLUMN v TO w")
    cluster.sql("ALTER TABLE e2e.past ADD COLUMN x INT DEFAULT 7")
    second = cluster.table("e2e.past").append(pa.table({"id": [3], "w": ["c"]})).revision
    assert table(spark, "e2e.past", as_of=first).columns == ["id", "v"]
    assert ids(table(spark, "e2e.past", as_of=first)) == [1, 2]
    assert ids(spark.read.format("leasehold").option("asOfRevision", str(first)).load("e2e.past")) == [1, 2]
    assert table(spark, "e2e.past", as_of=noted).columns == ["id", "v"]
    assert ids(table(spark, "e2e.past", as_of=noted)) == [1, 2]
    assert ids(spark.read.format("leasehold").option("asOfTimestamp", noted.isoformat()).load("e2e.past")) == [1, 2]
    assert ids(table(spark, "e2e.past", as_of=datetime.now(UTC))) == [1, 2, 3]
    assert ids(table(spark, "e2e.past", as_of=second, where="id = 1")) == [1]
    assert cluster.table("e2e.past").scan(as_of=first, where="v = 'b'").read_all().to_pylist() == [{"id": 2, "v": "b"}]
    cluster.sql("DELETE FROM e2e.past WHERE id = 2")
    assert ids(table(spark, "e2e.past", as_of=first)) == [1], "what was deleted is gone for every reader"
    cluster.compact("e2e.past")
    assert ids(table(spark, "e2e.past", as_of=first)) == [1], "replaced files stay for a while"
    cluster.sql("ALTER TABLE e2e.past DROP COLUMN w")
    with pytest.raises(LeaseholdError) as caught:
        table(spark, "e2e.past", as_of=first)
    assert caught.value.code == "COLUMN_DROPPED"
    assert ids(table(spark, "e2e.past", ["id"], as_of=first)) == [1]


def test_a_filter_of_one_query_takes_no_rows_from_others(spark: SparkSession, kinds: list[Row], pushing: None) -> None:
    """Spark keeps one planned read for all queries over a DataFrame, whatever filter it was planned for."""
    frame = loaded(spark)
    every = ids(frame)
    assert ids(frame.where("id = 1")) == [1]
    assert ids(frame) == every
    assert ids(frame.where("id = 1").union(frame.where("id = 2"))) == [1, 2]
    one, two = frame.where("id = 1"), frame.where("id = 2")
    assert (ids(two), ids(one)) == ([2], [1])
