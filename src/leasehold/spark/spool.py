"""Rows that Spark writes into Parquet files of its own, before tasks read them from there and send them to the nodes.

Spark makes Parquet of rows in less time than the Arrow batches of a Python task, and Arrow reads Parquet in next to
none. So a large frame takes this way, if all of Spark is one process; the write is the same in all else.

The files lie in a folder of the driver that Spark removes when it ends, and that is removed as soon as the rows are
written. Instants and days are written as numbers, so that no setting of the session changes them on their way.
"""

import logging
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType, TimestampType

from leasehold.limits.clients import SPOOL_BATCH_ROWS, SPOOL_BYTES_MIN, SPOOL_ROW_GROUP_BYTES
from leasehold.spark.session_kinds import cores, is_one_process, known_bytes
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


class Spool(msgspec.Struct, frozen=True, kw_only=True):
    """Files with the rows of one frame."""

    folder: str
    shares: int
    """In how many shares tasks read them."""
    schema: str
    """Of the frame, as JSON of Spark."""

    def spark_schema(self) -> StructType:
        """The schema of the frame."""
        return StructType.fromJson(msgspec.json.decode(self.schema))

    def rows(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some shares, by their `numbers`, as Spark hands over those of the frame itself."""
        files = sorted(Path(self.folder).glob("*.parquet"))
        sizes = [one.stat().st_size for one in files]
        schema = _arrow_schema(self.spark_schema())
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in share(files, sizes, number, self.shares):
                    yield from _read(file, schema)


def share(files: Sequence[Path], sizes: Sequence[int], number: int, shares: int) -> list[Path]:
    """The files of one of so many shares: they stay in their order, and shares are about as large as each other."""
    total, before = sum(sizes), 0
    chosen: list[Path] = []
    for file, size in zip(files, sizes, strict=True):
        if (before + size // 2) * shares // max(1, total) == number:
            chosen.append(file)
        before += size
    return chosen


def is_worth_it(frame: DataFrame) -> bool:
    """Whether the rows of a frame are written sooner by way of files, as far as Spark can tell before it has them."""
    if not is_one_process(frame.sparkSession):
        return False
    if any(spelling(one.dataType) is None for one in frame.schema.fields):
        return False
    size = known_bytes(frame)
    return size is not None and size >= SPOOL_BYTES_MIN


@contextmanager
def spooled(frame: DataFrame) -> Generator[Spool | None]:
    """Writes the rows of a frame into files, which are removed in the end; None if the disk has no room for them.
    Raises what the frame raises."""
    folder = _folder(frame.sparkSession)
    try:
        files = folder / "rows"
        is_written = _write(frame, files)
        shares = cores(frame.sparkSession)
        yield Spool(folder=str(files), shares=shares, schema=frame.schema.json()) if is_written else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def share_numbers(spark: SparkSession, spool: Spool) -> DataFrame:
    """A frame whose tasks each read a share of the files."""
    return spark.range(0, spool.shares, 1, spool.shares)


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


def _as_numbers(frame: DataFrame) -> DataFrame:
    """Its columns by their places: names of any characters, also twice."""
    names = [f"c{place}" for place in range(len(frame.columns))]
    columns = [
        _as_number(F.col(name), one.dataType).alias(name) for name, one in zip(names, frame.schema.fields, strict=True)
    ]
    return frame.toDF(*names).select(*columns)


def _as_number(column: Column, kind: object) -> Column:
    match kind:
        case TimestampType():
            return F.unix_micros(column)
        case DateType():
            return F.unix_date(column)
        case _:
            return column


def _read(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - every worker imports this module

    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=SPOOL_BATCH_ROWS, use_threads=False):
            columns = [
                column.view(kind) if pa.types.is_temporal(kind) else column
                for column, kind in zip(batch.columns, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow_schema(frame: StructType) -> pa.Schema:
    return pa.schema([pa.field(one.name, arrow_type(spelling(one.dataType) or "")) for one in frame.fields])
