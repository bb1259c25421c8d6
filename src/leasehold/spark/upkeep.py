"""Upkeep of tables from Spark."""

from pathlib import Path

from pyspark.sql import SparkSession

from leasehold.client.compaction import Compaction
from leasehold.spark.settings import connected


def compact(
    spark: SparkSession,
    name: str,
    *,
    cluster: str | Path | None = None,
    user: str | None = None,
    password: str | None = None,
) -> Compaction:
    """Joins the small files of the table `database.table`, and takes deleted and expired rows out of its files.

    The nodes do it, at the same time: no Spark job runs, and no row travels. The rest is as in `table`. Raises as
    `Cluster.compact` does.
    """
    with connected(spark, cluster, user, password) as connection:
        return connection.compact(name)
