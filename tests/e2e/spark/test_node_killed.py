"""A node dies while Spark writes, and while Spark reads."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.spark import table
from tests.e2e.cluster import RunningCluster
from tests.e2e.spark.holding import once, until_there
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.processes]


def test_a_node_killed_during_a_write_costs_no_row_and_doubles_none(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.survived (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    writing, killed = tmp_path / "writing", tmp_path / "killed"

    held = until_there(killed)

    def hesitate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Runs in a worker, which can import the product but not the tests.

        for batch in batches:
            yield batch
            writing.touch()
            held()

    frame = spark.range(50_000, numPartitions=2).mapInArrow(hesitate, "id bigint")

    thread = once(writing.exists, lambda: running.kill("node-1"), killed)
    frame.write.format("leasehold").option("table", "e2e.survived").mode("append").save()
    thread.join()
    assert killed.exists()
    rows = table(spark, "e2e.survived").collect()
    running.restart("node-1")
    assert sorted(row["id"] for row in rows) == list(range(50_000))
    wait_until(lambda: all(len(one.holders) == 2 for one in cluster.plan("e2e.survived").segments))
    running.kill("node-2")
    try:
        assert table(spark, "e2e.survived").count() == 50_000, "what it had missed, node-1 has fetched"
    finally:
        running.restart("node-2")
