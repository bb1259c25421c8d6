"""Writing a DataFrame into a table: more rows, or other rows in the place of some or all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, DecimalType, DoubleType, IntegralType, NumericType

from leasehold.client.append import append_rows
from leasehold.client.cluster import Cluster
from leasehold.client.overwrite import replace_rows
from leasehold.core.data.replacement import Isolation
from leasehold.core.words.records import Field
from leasehold.errors import BadSettings
from leasehold.limits.clients import APPEND_ATTEMPTS
from leasehold.spark.begun_writes import BegunWrite, begin_write
from leasehold.spark.driver_rows import bytes_here, rows_here
from leasehold.spark.options import (
    BY_OPTION,
    CLUSTER_OPTION,
    ISOLATION_OPTION,
    MERGE_SCHEMA_OPTION,
    OVERWRITE_MODE_OPTION,
    REPLACE_WHERE_OPTION,
)
from leasehold.spark.settings import connected, credentials
from leasehold.spark.sink import say_short
from leasehold.spark.source import FORMAT
from leasehold.spark.types import spark_type

Mode: TypeAlias = Literal["append", "overwrite"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)


def write(
    frame: DataFrame,
    name: str,
    mode: Mode = "append",
    *,
    where: str | None = None,
    by: str | None = None,
    merge_schema: bool = False,
    isolation: Isolation | None = None,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> None:
    """Writes the rows of a frame into the table `database.table`, all or none; columns are matched by name.

    With mode "overwrite" they take the place of all rows of the table; with conditions `where` of those that fulfil
    them; with a column `by` of those whose value of it occurs in the frame. With `merge_schema` columns that the table
    lacks are added to it, and those are widened whose type does not hold the frame's, before any row is written.
    `isolation` is as in `core.data.replacement.Overwrite`; the rest is as in `table`. Raises `BadSettings`,
    `Unauthenticated`, `Unreachable`, and `Refused` (CONFLICT, ROWS_DO_NOT_FIT ..), or where tasks write Spark's errors,
    whose text has the code.
    """
    spark = frame.sparkSession
    if mode not in _MODES:
        raise BadSettings(f"mode is {mode!r}", hint=f"write {' or '.join(_MODES)}")
    given = {
        REPLACE_WHERE_OPTION: where,
        OVERWRITE_MODE_OPTION: None if by is None else "dynamic",
        BY_OPTION: by,
        MERGE_SCHEMA_OPTION: "true" if merge_schema else None,
        ISOLATION_OPTION: isolation,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        write_frame(connection, frame, name, mode, {**chosen, **login})


def write_frame(connection: Cluster, frame: DataFrame, name: str, mode: Mode, options: Mapping[str, str]) -> None:
    """As `write`; the `options` log in, and say what is replaced."""
    options = {**options, CLUSTER_OPTION: connection.target}
    size_bytes = bytes_here(frame)
    if size_bytes is not None:
        begun = begin_write(connection, name, frame.schema, options, overwrites=mode == "overwrite")
        with rows_here(frame, size_bytes) as rows:
            if rows is not None:
                _send(connection, begun, rows)
                return
    frame.write.format(FORMAT).options(**options).mode(mode).save(name)


def _send(connection: Cluster, begun: BegunWrite, rows: Callable[[], Iterable[pa.RecordBatch]]) -> None:
    if begun.replaced is None:
        short = append_rows(connection, begun.facts, rows, APPEND_ATTEMPTS).segments_short
    else:
        short = replace_rows(connection, begun.facts, rows(), begun.replaced).segments_short
    say_short(begun.facts.name, short)


def with_types(frame: DataFrame, fields: Sequence[Field]) -> DataFrame:
    """A frame with a column for each of the `fields`, in which numbers have the types of the table, as SQL casts what
    is inserted. A number that does not fit then fails the write."""
    keeps = frame.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"  # else a cast may change a number silently
    casts = _casts(frame, fields) if keeps else {}
    return frame.withColumns(casts) if casts else frame  # Spark Connect refuses an empty dictionary


def _casts(frame: DataFrame, fields: Sequence[Field]) -> dict[str, Column]:
    """The columns of numbers to which the table gives another type, in that type."""
    pairs = zip(frame.schema.fields, (spark_type(one.type) for one in fields), strict=True)
    return {
        column.name: frame[f"`{column.name}`"].cast(kind)
        for column, kind in pairs
        if column.dataType != kind and _is_kept(column.dataType, kind)
    }


def _is_kept(kind: DataType, stored: DataType) -> bool:
    """Whether a cast, as SQL makes it for what is inserted, keeps each number or fails."""
    match stored:
        case DoubleType():
            return isinstance(kind, NumericType)
        case IntegralType():
            return isinstance(kind, IntegralType)
        case DecimalType():
            return isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale <= stored.scale)
        case _:
            return False
