"""Views as Spark reads them."""

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import LeaseholdError, Refused
from leasehold.spark import view

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def views(running) -> None:
    with running.connect() as cluster:
        cluster.sql("CREATE TABLE e2e.Stops (Line INT, name STRING, At TIMESTAMP)")
        at = pa.array([0, 86_400_000_000, 1], pa.timestamp("us", "UTC"))
        cluster.table("e2e.stops").append(
            pa.table({"Line": pa.array([1, 1, 2], pa.int32()), "name": ["a", "b", "c"], "At": at})
        )
        cluster.sql("CREATE VIEW e2e.days AS SELECT *, CAST(at AS DATE) AS Day FROM e2e.stops")
        cluster.sql(
            "CREATE VIEW e2e.per_line (Line, Stops, Last) AS"
            " SELECT line, count(*), max(day) FROM e2e.days GROUP BY line ORDER BY line"
        )


def test_spark_and_the_python_client_read_the_same(spark: SparkSession, cluster: Cluster) -> None:
    before = {table.name for table in spark.catalog.listTables()}
    for name in ("e2e.days", "e2e.per_line"):
        here = cluster.query(name).read_all().to_pylist()
        frame = view(spark, name)
        assert frame.columns == list(here[0])
        there = frame.toArrow().to_pylist()
        assert sorted(map(str, there)) == sorted(map(str, here))
    assert {table.name for table in spark.catalog.listTables()} == before


def test_a_view_is_joined_and_filtered_like_any_frame(spark: SparkSession) -> None:
    days = view(spark, "E2E.Days").where("Line = 1")
    joined = days.join(view(spark, "e2e.per_line"), "Line").select("name", "Stops").orderBy("name")
    assert [tuple(row) for row in joined.collect()] == [("a", 2), ("b", 2)]


def test_the_source_says_what_to_do_with_a_view(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("leasehold").option("table", "e2e.days").load()
    assert "IS_VIEW" in str(caught.value)
    assert 'leasehold.spark.view(spark, "e2e.days")' in str(caught.value)


@pytest.mark.parametrize("local", [True, False])
def test_a_view_of_an_earlier_revision(spark: SparkSession, cluster: Cluster, local: bool) -> None:
    """Its SELECT names the columns of today, which must not be others then."""
    name = f"e2e.swapped_{local}"
    cluster.sql(f"CREATE TABLE {name} (a INT, b INT)")
    rows = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    before = cluster.table(name).append(rows).revision
    for change in ("a TO c", "b TO a", "c TO b"):
        cluster.sql(f"ALTER TABLE {name} RENAME COLUMN {change}")
    cluster.sql(f"CREATE VIEW {name}_a AS SELECT a FROM {name}")
    after = cluster.table(name).append(rows).revision
    cluster.table(name).append(rows)
    assert sorted(row.a for row in view(spark, f"{name}_a", as_of=after, local=local).collect()) == [1, 2]
    with pytest.raises(Refused, match=r"column a of .* had another name then"):
        view(spark, f"{name}_a", as_of=before, local=local)


def test_a_frame_of_a_view_that_is_gone_says_so(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE VIEW e2e.brief AS SELECT name FROM e2e.stops")
    frame = view(spark, "e2e.brief")
    cluster.sql("DROP VIEW e2e.brief")
    with pytest.raises(Exception, match="VIEW_DROPPED"):
        frame.collect()
    with pytest.raises(LeaseholdError, match="no view"):
        view(spark, "e2e.brief")
