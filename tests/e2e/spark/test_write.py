"""Writes: each row once or none, whatever fails, and a schema that does not fit never starts a task."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StructField, StructType

from leasehold.client.cluster import Cluster
from leasehold.core.words.records import TransactionState
from leasehold.errors import LeaseholdError
from leasehold.ids import TransactionId
from leasehold.spark import table
from leasehold.spark.sink import LeaseholdSink, StagedByTask
from leasehold.spark.source import LeaseholdSource
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.spark

IDS = list(range(100))
ONE_ID = StructType([StructField("id", LongType())])


def append(frame: DataFrame, name: str, kind: str = "leasehold") -> None:
    frame.write.format(kind).option("table", name).mode("append").save()


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row["id"] for row in table(spark, name).collect())


def source(running: RunningCluster, name: str) -> LeaseholdSource:
    return LeaseholdSource({"table": name, "cluster": str(running.directory)})


def test_a_task_that_fails_half_way_is_tried_again_and_its_rows_are_there_once(
    spark: SparkSession, cluster: Cluster, marker: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.retried (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")

    def fail_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 99 in batch.column(0).to_pylist() and not marker.exists():
                marker.touch()
                raise OSError("the first attempt ends here")

    append(spark.range(100, numPartitions=2).mapInArrow(fail_once, "id bigint"), "e2e.retried")

    assert marker.exists()
    assert ids(spark, "e2e.retried") == IDS


def test_what_a_lost_attempt_had_staged_is_not_committed(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, marker: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.lost (id BIGINT)")

    class LosesItsAnswer(LeaseholdSink):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
            staged = super().write(iterator)
            if staged.segments and not marker.exists():
                marker.touch()
                raise OSError("staged, and then the worker died")
            return staged

    append(spark.range(100, numPartitions=1), "e2e.lost", register(spark, running, LosesItsAnswer))

    assert marker.exists()
    assert ids(spark, "e2e.lost") == IDS


def test_a_commit_whose_answer_is_lost_leaves_the_rows_there_once(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, marker: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.answer (id BIGINT)")

    class AnswerLost(LeaseholdSink):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            super().commit(messages)
            raise OSError("the connection broke after the commit")

        def abort(self, messages: list[WriterCommitMessage | None]) -> None:
            super().abort(messages)
            marker.write_text(self.transaction)

    with pytest.raises(PySparkException, match="the connection broke after the commit"):
        append(spark.range(100), "e2e.answer", register(spark, running, AnswerLost))

    transaction = TransactionId(marker.read_text())
    assert cluster.abort(cluster.facts("e2e.answer").cluster_id, transaction).state is TransactionState.COMMITTED
    assert ids(spark, "e2e.answer") == IDS


def test_a_write_that_fails_for_good_is_aborted_and_leaves_nothing(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, marker: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.failing (id BIGINT)")

    class TellsItsId(LeaseholdSink):
        def abort(self, messages: list[WriterCommitMessage | None]) -> None:
            super().abort(messages)
            marker.write_text(self.transaction)

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 99 in batch.column(0).to_pylist():
                raise OSError("every attempt ends here")

    frame = spark.range(100, numPartitions=2).mapInArrow(fail, "id bigint")
    with pytest.raises(PySparkException, match="every attempt ends here"):
        append(frame, "e2e.failing", register(spark, running, TellsItsId))

    transaction = TransactionId(marker.read_text())
    assert cluster.abort(cluster.facts("e2e.failing").cluster_id, transaction).state is TransactionState.ABORTED
    assert ids(spark, "e2e.failing") == []


def test_a_sink_can_be_asked_again(running: RunningCluster, spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.again (id BIGINT)")
    sink = source(running, "e2e.again").writer(ONE_ID, overwrite=False)
    messages: list[WriterCommitMessage | None] = [
        sink.write(iter([pa.record_batch({"id": pa.array(IDS[:60])})])),
        sink.write(iter([pa.record_batch({"id": pa.array(IDS[60:])})])),
        sink.write(iter([])),
    ]

    sink.commit(messages)
    sink.commit(messages)
    sink.abort(messages)

    assert ids(spark, "e2e.again") == IDS


def test_an_aborted_write_can_not_be_committed(running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.aborted (id BIGINT)")
    sink = source(running, "e2e.aborted").writer(ONE_ID, overwrite=False)
    staged = sink.write(iter([pa.record_batch({"id": pa.array(IDS)})]))

    sink.abort([staged])

    with pytest.raises(LeaseholdError, match=r"e2e\.aborted: .*\[ABORTED\]; write the rows again"):
        sink.commit([staged])
    assert cluster.plan("e2e.aborted").segments == ()


def test_a_task_without_an_answer_is_never_committed(running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.partial (id BIGINT)")
    sink = source(running, "e2e.partial").writer(ONE_ID, overwrite=False)
    staged = sink.write(iter([pa.record_batch({"id": pa.array(IDS)})]))

    with pytest.raises(LeaseholdError, match="INCOMPLETE"):
        sink.commit([staged, None])
    assert cluster.plan("e2e.partial").segments == ()


def test_rows_for_a_table_made_again_under_the_name_are_refused(running: RunningCluster, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.remade (id BIGINT)")
    sink = source(running, "e2e.remade").writer(ONE_ID, overwrite=False)
    cluster.sql("DROP TABLE e2e.remade")
    cluster.sql("CREATE TABLE e2e.remade (id BIGINT)")

    with pytest.raises(LeaseholdError, match="TABLE_DROPPED"):
        sink.write(iter([pa.record_batch({"id": pa.array(IDS)})]))


def test_a_schema_that_does_not_fit_is_refused_before_any_task_runs(
    spark: SparkSession, cluster: Cluster, marker: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.strict (id BIGINT NOT NULL, must INT NOT NULL, at TIMESTAMP, tag STRING)")

    def mark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        marker.touch()
        yield from batches

    frame = spark.range(3).mapInArrow(mark, "id bigint")
    frame = frame.selectExpr("id", "id AS tag", "TIMESTAMP_NTZ '2026-01-01 00:00:00' AS at", "id AS colour")
    with pytest.raises(AnalysisException) as caught:
        append(frame, "e2e.strict")

    line = next(line for line in str(caught.value).splitlines() if line.startswith("leasehold.errors."))
    for reason in (
        "the rows do not fit e2e.strict",
        "tag is bigint where the table has STRING",
        "at is timestamp_ntz where the table has TIMESTAMP",
        "the table has no column colour",
        "must is NOT NULL and missing",
        "[ROWS_DO_NOT_FIT]",
    ):
        assert reason in line
    assert not marker.exists()


def test_a_value_that_does_not_fit_is_told_in_one_line_and_nothing_is_written(
    spark: SparkSession, cluster: Cluster
) -> None:
    cluster.sql("CREATE TABLE e2e.narrow (id INT NOT NULL)")

    with pytest.raises(PySparkException, match=r"leasehold\.errors\.Definite: e2e\.narrow: .*does not fit INT"):
        append(spark.range(2**31, 2**31 + 1), "e2e.narrow")
    with pytest.raises(PySparkException, match=r"leasehold\.errors\.Definite: e2e\.narrow: .*NOT NULL"):
        append(spark.sql("SELECT CAST(NULL AS INT) AS id"), "e2e.narrow")

    assert table(spark, "e2e.narrow").count() == 0


def test_columns_go_by_name_and_a_missing_nullable_one_becomes_null(spark: SparkSession, cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE e2e.named (id BIGINT, tag STRING, note STRING)")

    append(spark.sql("SELECT 'a' AS TAG, 1 AS id"), "e2e.named")

    assert [tuple(row) for row in table(spark, "e2e.named").collect()] == [(1, "a", None)]


def register(spark: SparkSession, running: RunningCluster, sink: type[LeaseholdSink]) -> str:
    """A source whose sink is of another class; answers its format."""
    kind = sink.__name__
    directory = str(running.directory)

    class Broken(LeaseholdSource):
        default_cluster = directory

        @classmethod
        def name(cls) -> str:
            return kind

        def writer(self, schema: StructType, overwrite: bool) -> LeaseholdSink:
            made = super().writer(schema, overwrite)
            made.__class__ = sink
            return made

    spark.dataSource.register(Broken)
    return kind
