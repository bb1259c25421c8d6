"""The two kinds of Spark sessions, and what each needs.

A classic session has its driver in this process, with Java beside it. One of Spark Connect has its driver in a server:
here it has no SparkContext and no Java. PySpark gives it a class of its own, with the same methods. Annotations say
`SparkSession` for both.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

PROBED_ROWS: Final = 65_536


def is_classic(spark: object) -> bool:
    return isinstance(spark, SparkSession)


def session_id(spark: SparkSession) -> str:
    """Of a session of Spark Connect."""
    connected: Any = spark
    return str(connected.session_id)


def cores(spark: SparkSession) -> int:
    """How many tasks Spark runs at a time, as it says itself."""
    if is_classic(spark):
        return spark.sparkContext.defaultParallelism
    # A range has a partition for each.
    return spark.range(PROBED_ROWS).select(F.spark_partition_id()).distinct().count()


def select_over(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The SELECT `text`, with a frame for each word that stands for a table there."""
    if not frames:
        return spark.sql(text)
    escaped = text.replace("{", "{{").replace("}", "}}")
    marked = re.sub(rf"\b({'|'.join(frames)})\b", r"{\1}", escaped)
    named: dict[str, Any] = dict(frames)
    return spark.sql(marked, **named)


@cache
def write_from_any_thread() -> None:
    """Lets threads write to our sink that have not made a session.

    Spark 4.3 looks up Python sinks in the active session of the calling thread, and a new thread has none.
    """
    writer: Any = DataFrameWriter
    chosen = writer.format

    def choose(self: Any, source: str) -> Any:
        java = self._spark
        java._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java._jsparkSession)
        return chosen(self, source)

    writer.format = choose  # PySpark has no other way in
