"""The Spark connector: `format("leasehold")`, source and sink.

import leasehold.spark

spark = leasehold.spark.session(cluster="leasehold-data")
leasehold.spark.table(spark, "nyc.weather", columns=["origin", "temp"]).show()
leasehold.spark.view(spark, "nyc.windy").show()
frame.write.format("leasehold").option("table", "nyc.weather").mode("append").save()

It needs the packages of `leasehold[spark]`; without PySpark the import raises `NotInstalled`, which is an ImportError.
"""

from leasehold.errors import spark_not_installed

try:
    from leasehold.spark.session import attach, session, table, view
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in {"pyspark", "pandas"}:
        raise
    raise spark_not_installed(error.name.partition(".")[0]) from error

__all__ = ["attach", "session", "table", "view"]
