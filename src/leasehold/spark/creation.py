"""New tables with the columns and the rows of a DataFrame."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from leasehold.client.cluster import Cluster
from leasehold.core.words.literals import render
from leasehold.errors import BadSettings, LeaseholdError
from leasehold.spark.evolution import column_list
from leasehold.spark.settings import connected, credentials
from leasehold.spark.writes import write_frame

BUCKETS_DEFAULT: Final = 4
"""Of a table for which only the column is named that chooses the bucket."""


def create(
    frame: DataFrame,
    name: str,
    *,
    cluster_by: str | None = None,
    buckets: int | None = None,
    ttl: str | None = None,
    time_column: str | None = None,
    properties: Mapping[str, str] | None = None,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> None:
    """Makes the table `database.table` with the columns of a frame, and writes its rows; all columns may be NULL.

    The rows come apart into `buckets` by the column `cluster_by`. Rows end at the age `ttl`, such as "30d", by their
    `time_column`; `properties` are further TBLPROPERTIES, such as `{"replication": "2"}`. If the write fails there is
    no table. The rest is as in `table`. Raises `AlreadyExists`, and as CREATE TABLE and `write` do; `Refused` with code
    BAD_SCHEMA for types that no table has.
    """
    if buckets is not None and cluster_by is None:
        raise BadSettings("buckets without cluster_by", hint="name the column by which rows come apart: cluster_by=")
    given = {**(properties or {}), **{key: one for key, one in (("ttl", ttl), ("time_column", time_column)) if one}}
    clustered = (
        "" if cluster_by is None else f"CLUSTERED BY (`{cluster_by}`) INTO {buckets or BUCKETS_DEFAULT} BUCKETS "
    )
    listed = ", ".join(f"{render(key, 'STRING')} = {render(one, 'STRING')}" for key, one in given.items())
    spark = frame.sparkSession
    with connected(spark, cluster, user, password) as connection:
        login = credentials(spark, connection.target, user, password)
        make_table(connection, frame, name, f"{clustered}{f'TBLPROPERTIES ({listed})' if listed else ''}", login)


def make_table(connection: Cluster, frame: DataFrame, name: str, how: str, login: Mapping[str, str]) -> None:
    """As `create`; `how` is what stands behind the columns in CREATE TABLE."""
    connection.sql(f"CREATE TABLE {name} {column_list(frame.schema.fields)} {how}")
    made = connection.facts(name)
    try:
        write_frame(connection, frame, made.name, "append", login)
    except BaseException:
        with suppress(LeaseholdError):
            if connection.facts(made.name).table == made.table:
                connection.sql(f"DROP TABLE {made.name}")
        raise
