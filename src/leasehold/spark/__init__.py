"""The Spark connector: `format("leasehold")`, source and sink.

import leasehold.spark

spark = leasehold.spark.session(cluster="leasehold-data")
leasehold.spark.table(spark, "nyc.weather", columns=["origin", "temp"]).show()
leasehold.spark.view(spark, "nyc.windy").show()
leasehold.spark.sql(spark, "SELECT origin, max(temp) FROM nyc.weather GROUP BY origin").show()
leasehold.spark.write(frame, "nyc.weather")
leasehold.spark.changes(spark, "nyc.weather", since=revision).show()

It needs the packages of `leasehold[spark]`; without PySpark the import raises `NotInstalled`, which is an ImportError.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from leasehold.errors import spark_not_installed

if TYPE_CHECKING:
    from leasehold.spark.creation import create
    from leasehold.spark.local_tables import last_plan
    from leasehold.spark.merges import merge
    from leasehold.spark.sessions import session
    from leasehold.spark.statements import sql
    from leasehold.spark.tables import attach, changes, table, view
    from leasehold.spark.upkeep import compact
    from leasehold.spark.writes import write

_MODULES = {
    "attach": "tables",
    "compact": "upkeep",
    "changes": "tables",
    "create": "creation",
    "last_plan": "local_tables",
    "merge": "merges",
    "session": "sessions",
    "sql": "statements",
    "table": "tables",
    "view": "tables",
    "write": "writes",
}
__all__ = ["attach", "changes", "compact", "create", "last_plan", "merge", "session", "sql", "table", "view", "write"]

for package in ("pyspark", "pandas"):
    if find_spec(package) is None:
        raise spark_not_installed(package)


def __getattr__(name: str) -> Any:
    """Loads what drivers need when it is first used: Spark's Python workers import this package too."""
    if name in __all__:
        return getattr(import_module(f"leasehold.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'leasehold.spark' has no attribute {name!r}")
