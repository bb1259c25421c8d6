"""The Spark connector: `format("leasehold")`, source and sink.

import leasehold.spark

spark = leasehold.spark.session(cluster="leasehold-data")
leasehold.spark.table(spark, "nyc.weather", columns=["origin", "temp"]).show()
leasehold.spark.view(spark, "nyc.windy").show()
frame.write.format("leasehold").option("table", "nyc.weather").mode("append").save()

It needs the packages of `leasehold[spark]`; without PySpark the import raises `NotInstalled`, which is an ImportError.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from leasehold.errors import spark_not_installed

if TYPE_CHECKING:
    from leasehold.spark.sessions import attach, session, table, view

__all__ = ["attach", "session", "table", "view"]

for package in ("pyspark", "pandas"):
    if find_spec(package) is None:
        raise spark_not_installed(package)


def __getattr__(name: str) -> Any:
    """Loads what starts sessions when it is first used: Spark's Python workers import this package too."""
    if name in __all__:
        from leasehold.spark import sessions  # noqa: PLC0415 - lazily, as said above

        return getattr(sessions, name)
    raise AttributeError(f"module 'leasehold.spark' has no attribute {name!r}")
