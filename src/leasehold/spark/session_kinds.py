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
SIZE_UNKNOWN: Final = 2**63 - 1
"""What Spark takes for the size of rows of which it knows nothing."""
_ONE_PROCESS: Final = re.compile(r"local(\[[^\]]*\])?")


def is_classic(spark: object) -> bool:
    return isinstance(spark, SparkSession)


def is_one_process(spark: SparkSession) -> bool:
    """Whether driver and tasks run in one process of this machine."""
    return is_classic(spark) and _ONE_PROCESS.fullmatch(spark.sparkContext.master or "") is not None


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


def known_bytes(frame: DataFrame) -> int | None:
    """How much memory the rows of a frame take, as far as Spark can tell before it has them."""
    if not is_classic(frame.sparkSession):
        return None
    asked: Any = frame
    size = asked._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()  # PySpark has no other way in
    return size if size < SIZE_UNKNOWN else None


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
