"""Files of Parquet by which the rows of a frame come into this process, if all of Spark is one process.

Spark makes Parquet of rows in less time than the Arrow batches of a Python task, and Arrow reads Parquet in next to
none.

The files lie in a folder of the driver that Spark removes when it ends, and that is removed as soon as the rows are
written. Instants and days are written as numbers, so that no setting of the session changes them on their way.
"""

import logging
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType, TimestampType

from leasehold.limits.clients import SPOOL_BATCH_ROWS, SPOOL_ROW_GROUP_BYTES
from leasehold.spark.types import spelling
from leasehold.storage.schema import arrow_type
from leasehold.wire.entropy import SystemEntropy

log = logging.getLogger(__name__)

_OPTIONS: Final = {
    "compression": "lz4_raw",
    "parquet.enable.dictionary": "false",
    "parquet.block.size": str(SPOOL_ROW_GROUP_BYTES),
}
_FULL: Final = "No space left on device"


class Spool:
    """Files with the rows of one frame, which can be read several times."""

    def __init__(self, folder: Path, frame: StructType) -> None:
        self.folder = folder
        self._frame = frame

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows, in the columns of the frame."""
        schema = _arrow_schema(self._frame)
        for file in sorted(self.folder.glob("*.parquet")):
            yield from _read(file, schema)


@contextmanager
def spooled(frame: DataFrame) -> Generator[Spool | None]:
    """Writes the rows of a frame into files, which are removed in the end; None if the disk has no room for them.
    Raises what the frame raises."""
    folder = _folder(frame.sparkSession)
    try:
        files = folder / "rows"
        yield Spool(files, frame.schema) if _write(frame, files) else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder(spark: SparkSession) -> Path:
    """One that is not there, in the directory of the session, which Spark removes."""
    context: Any = spark.sparkContext
    return Path(context._temp_dir) / f"leasehold-{SystemEntropy().hex_128()}"


def _write(frame: DataFrame, folder: Path) -> bool:
    """False if the disk is full."""
    try:
        folder.parent.mkdir(mode=0o700)  # Spark lets others look into the folders that it makes
        _as_numbers(frame).write.options(**_OPTIONS).parquet(f"file:{folder}")
    except (OSError, PySparkException, Py4JJavaError) as error:
        if _FULL not in str(error):
            raise
        log.warning("%s has no room for the rows that are written: they take the slower way", folder)
        return False
    return True


def by_place(frame: DataFrame) -> DataFrame:
    """Its columns by their places: names of any characters, also twice."""
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))


def _as_numbers(frame: DataFrame) -> DataFrame:
    placed = by_place(frame)
    return placed.select(*(_as_number(F.col(one.name), one.dataType).alias(one.name) for one in placed.schema.fields))


def _as_number(column: Column, kind: object) -> Column:
    match kind:
        case TimestampType():
            return F.unix_micros(column)
        case DateType():
            return F.unix_date(column)
        case _:
            return column


def _read(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=SPOOL_BATCH_ROWS, use_threads=True):
            columns = [
                column.view(kind) if pa.types.is_temporal(kind) else column
                for column, kind in zip(batch.columns, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow_schema(frame: StructType) -> pa.Schema:
    return pa.schema([pa.field(one.name, arrow_type(spelling(one.dataType) or "")) for one in frame.fields])
