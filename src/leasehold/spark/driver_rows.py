"""Rows of a frame in the driver, which sends them to the nodes: no Python task of Spark is started for them.

A few rows come as Arrow, wherever Spark runs. Others come by way of files (`spark/spool.py`).
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame

from leasehold.limits.clients import FEW_BYTES_MAX, FEW_ROWS_MAX
from leasehold.spark.session_kinds import is_one_process, known_bytes
from leasehold.spark.spool import by_place, spooled
from leasehold.spark.types import spelling


def bytes_here(frame: DataFrame) -> int | None:
    """How much memory the rows take, as far as Spark can tell before it has them; None if this process can't have
    them."""
    if any(spelling(one.dataType) is None for one in frame.schema.fields):
        return None
    size_bytes = known_bytes(frame)
    if size_bytes is None or size_bytes <= FEW_BYTES_MAX or is_one_process(frame.sparkSession):
        return size_bytes
    return None


@contextmanager
def rows_here(frame: DataFrame, size_bytes: int) -> Generator[Callable[[], Iterable[pa.RecordBatch]] | None]:
    """Reads the rows of a frame of `bytes_here`, as often as it is called; None if there are too many, or if the disk
    has no room for them. Raises what the frame raises."""
    few = _few_rows(frame) if size_bytes <= FEW_BYTES_MAX else None
    if few is not None:
        yield few.to_batches
    elif not is_one_process(frame.sparkSession):
        yield None
    else:
        with spooled(frame) as spool:
            yield None if spool is None else spool.rows


def _few_rows(frame: DataFrame) -> pa.Table | None:
    """All rows, in the columns of the frame, if they are few indeed: the size that Spark tells is a guess."""
    found = by_place(frame).limit(FEW_ROWS_MAX + 1).toArrow()
    return found.rename_columns(frame.columns) if found.num_rows <= FEW_ROWS_MAX else None
