"""Writing a DataFrame into a table: more rows, or other rows in the place of some or all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from pyspark.sql import DataFrame

from leasehold.core.data.replacement import Isolation
from leasehold.errors import BadSettings
from leasehold.spark.options import (
    BY_OPTION,
    CLUSTER_OPTION,
    ISOLATION_OPTION,
    OVERWRITE_MODE_OPTION,
    REPLACE_WHERE_OPTION,
)
from leasehold.spark.settings import connected, credentials
from leasehold.spark.source import FORMAT

Mode: TypeAlias = Literal["append", "overwrite"]
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)


def write(
    frame: DataFrame,
    name: str,
    mode: Mode = "append",
    *,
    where: str | None = None,
    by: str | None = None,
    isolation: Isolation | None = None,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> None:
    """Writes the rows of a frame into the table `database.table`, all or none; columns are matched by name.

    With mode "overwrite" they take the place of all rows of the table; with conditions `where` of those that fulfil
    them; with a column `by` of those whose value of it occurs in the frame. `isolation` is as in
    `core.data.replacement.Overwrite`; the rest is as in `table`. Raises `BadSettings`, `Unauthenticated`,
    `Unreachable`, and Spark's errors, whose text has the code: CONFLICT, OUTSIDE_REPLACED, ROWS_DO_NOT_FIT ..
    """
    spark = frame.sparkSession
    if mode not in _MODES:
        raise BadSettings(f"mode is {mode!r}", hint=f"write {' or '.join(_MODES)}")
    given = {
        REPLACE_WHERE_OPTION: where,
        OVERWRITE_MODE_OPTION: None if by is None else "dynamic",
        BY_OPTION: by,
        ISOLATION_OPTION: isolation,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        write_frame(frame, name, mode, {**chosen, **login, CLUSTER_OPTION: connection.target})


def write_frame(frame: DataFrame, name: str, mode: Mode, options: Mapping[str, str]) -> None:
    """As `write`; the `options` name the cluster, log in, and say what is replaced."""
    frame.write.format(FORMAT).options(**options).mode(mode).save(name)
