"""Segment files in Spark's own Parquet reader, which hands the names in a filter down to the files.

`#<id>` in the files gives the right rows, whatever Spark's setting says. The names of columns don't: they may have gone
to other columns since the file was written.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructField, StructType

from leasehold.client.cluster import Cluster
from leasehold.core.words.records import Field, SegmentFormat, UseState
from leasehold.ids import FieldId
from leasehold.spark.types import spark_type
from leasehold.storage.schema import arrow_schema, physical_name
from leasehold.storage.segment_encoder import SegmentEncoder
from tests.e2e.cluster import RunningCluster
from tests.e2e.waiting import files_below, wait_until_whole

pytestmark = pytest.mark.spark

BY_ID = "spark.sql.parquet.fieldId.read.enabled"
CHECKSUMS = "parquet.page.verify-checksum.enabled"
ROWS = 1_000
FAR = 1_000_000
"""Between the values of one column and of the other."""


@pytest.fixture
def by_id(spark: SparkSession) -> Iterator[Callable[[bool], None]]:
    """Turns Spark's matching of columns by field id on or off."""
    yield lambda on: spark.conf.set(BY_ID, str(on).lower())
    spark.conf.unset(BY_ID)


def field(number: int, name: str) -> Field:
    return Field(id=FieldId(number), name=name, type="BIGINT", nullable=True, state=UseState.IN_USE)


def read(spark: SparkSession, folder: Path, fields: Iterable[Field], in_format: SegmentFormat) -> DataFrame:
    """The rows of the files under the names of today, by Spark alone."""
    wanted = tuple(fields)
    schema = StructType(
        [
            StructField(physical_name(one, in_format), spark_type(one.type), True, {"parquet.field.id": one.id})
            for one in wanted
        ]
    )
    frame = spark.read.schema(schema).option(CHECKSUMS, "true").parquet(str(folder))
    return frame.select(*(col(f"`{physical_name(one, in_format)}`").alias(one.name) for one in wanted))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def append(cluster: Cluster, first: int, **columns: int) -> None:
    """ROWS rows with ids from `first` on; the values of a column rise with them from the given one."""
    values = {name: range(start, start + ROWS) for name, start in {"id": first, **columns}.items()}
    cluster.table("e2e.swapped").append(pa.table({name: list(each) for name, each in values.items()}))


def test_filters_find_the_rows_of_a_table_whose_names_were_swapped(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, by_id: Callable[[bool], None], tmp_path: Path
) -> None:
    cluster.sql("CREATE TABLE e2e.swapped (id BIGINT, a BIGINT, b BIGINT, c BIGINT)")
    append(cluster, 0, a=0, b=FAR, c=0)
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        cluster.sql(f"ALTER TABLE e2e.swapped RENAME COLUMN {old} TO {new}")
    append(cluster, ROWS, a=FAR, b=0, c=FAR)
    cluster.sql("ALTER TABLE e2e.swapped DROP COLUMN c")
    cluster.sql("ALTER TABLE e2e.swapped ADD COLUMN c BIGINT")
    append(cluster, 2 * ROWS, a=FAR, b=0, c=7)
    wait_until_whole(cluster)
    plan = cluster.plan("e2e.swapped")
    named = {f"{one.id}.parquet" for one in plan.segments}
    for file in files_below(running.directory / "node-1" / "segments", ".parquet"):
        if file.name in named:
            os.link(file, tmp_path / file.name)
    assert {one.name for one in tmp_path.iterdir()} == named
    assert {one.format for one in plan.segments} == {SegmentFormat.FIELD_IDS}
    for on in (True, False):
        by_id(on)
        frame = read(spark, tmp_path, plan.fields, SegmentFormat.FIELD_IDS)
        for where in (f"a = {FAR + 5}", "b = 5", "b < 3", f"a >= {FAR + 998}", "a = 5", "c = 9", f"c = {FAR}"):
            wanted = cluster.table("e2e.swapped").scan(["id"], where=where).read_all()["id"].to_pylist()
            assert ids(frame.where(where)) == sorted(wanted), where
        assert ids(frame.where("c IS NULL")) == list(range(2 * ROWS))
        assert ids(frame.where(f"a = {FAR + 5}")) == [5, ROWS + 5, 2 * ROWS + 5]


def test_filters_lose_rows_of_files_with_the_names_of_columns(
    spark: SparkSession, by_id: Callable[[bool], None], tmp_path: Path
) -> None:
    """Why files are not written so any more (docs/decisions/0057-columns-in-files-are-named-by-id.md)."""
    by_id(True)
    before = [field(1, "id"), field(2, "a"), field(3, "b")]
    swapped = [field(1, "id"), field(3, "a"), field(2, "b")]
    added_again = [field(1, "id"), field(4, "a")]
    for in_format, found in ((SegmentFormat.COLUMN_NAMES, False), (SegmentFormat.FIELD_IDS, True)):
        folder = tmp_path / in_format.name
        folder.mkdir()
        with (folder / "segment.parquet").open("wb") as file:
            encoder = SegmentEncoder(before, file.write, in_format=in_format)
            columns = [pa.array(range(start, start + ROWS), pa.int64()) for start in (0, 0, FAR)]
            encoder.write(pa.RecordBatch.from_arrays(columns, schema=arrow_schema(before)))
            encoder.finish()
        frame = read(spark, folder, swapped, in_format)
        assert frame.where("id = 5").collect()[0].asDict() == {"id": 5, "a": FAR + 5, "b": 5}
        assert ids(frame.where(f"a = {FAR + 5}")) == [5] * found
        frame = read(spark, folder, added_again, in_format)
        assert frame.where("id = 5").collect()[0].asDict() == {"id": 5, "a": None}
        assert ids(frame.where("a IS NULL")) == list(range(ROWS)) * found


def test_spark_notices_a_damaged_page(spark: SparkSession, tmp_path: Path) -> None:
    fields = [field(1, "id")]
    chunks: list[bytes] = []
    encoder = SegmentEncoder(fields, chunks.append)
    encoder.write(pa.RecordBatch.from_arrays([pa.array(range(ROWS), pa.int64())], schema=arrow_schema(fields)))
    encoder.finish()
    whole = bytearray(b"".join(chunks))
    (tmp_path / "segment.parquet").write_bytes(whole)
    assert ids(read(spark, tmp_path, fields, SegmentFormat.FIELD_IDS)) == list(range(ROWS))
    whole[200] ^= 1
    (tmp_path / "segment.parquet").write_bytes(whole)
    with pytest.raises(Exception, match="CRC"):
        read(spark, tmp_path, fields, SegmentFormat.FIELD_IDS).collect()
