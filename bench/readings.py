"""The rows that the parts about Spark read and write; it imports nothing of Leasehold, so any Spark can make them."""

import datetime as dt
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

COLUMNS = "reading BIGINT, tag STRING, measure DOUBLE, level INT, station STRING, at TIMESTAMP"
YEAR_BEGIN = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
YEAR_US = 365 * 86_400_000_000


def readings(spark: SparkSession, begin: int, end: int, of: int) -> Any:
    """Some of the rows of a year, in order of time."""
    at_us = F.lit(int(YEAR_BEGIN.timestamp()) * 1_000_000) + (F.col("id") * (YEAR_US // of))
    return spark.range(begin, end).select(
        F.col("id").alias("reading"),
        F.concat(F.lit("sensor-"), (F.col("id") % 1000).cast("string")).alias("tag"),
        F.sin(F.col("id")).alias("measure"),
        (F.hash("id") % 100).alias("level"),
        F.concat(F.lit("station-"), F.pmod(F.hash("id"), F.lit(50)).cast("string")).alias("station"),
        F.timestamp_micros(at_us).alias("at"),
    )
