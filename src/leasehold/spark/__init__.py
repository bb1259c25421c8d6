"""The Spark connector: `format("leasehold")`, source and sink.

import leasehold.spark

spark = leasehold.spark.session(cluster="leasehold-data")
leasehold.spark.table(spark, "nyc.weather", columns=["origin", "temp"]).show()
leasehold.spark.view(spark, "nyc.windy").show()
frame.write.format("leasehold").option("table", "nyc.weather").mode("append").save()
"""

from leasehold.spark.session import attach, session, table, view

__all__ = ["attach", "session", "table", "view"]
