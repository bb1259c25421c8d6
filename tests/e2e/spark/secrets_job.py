"""A Spark job that shows and logs all that it can; `test_secrets.py` looks for secrets in it.

Arguments: the cluster, a folder for the event log, and a user with a password. Without these a file of credentials says
who asks, and what Python sends to Java is logged too.
"""

import contextlib
import logging
import sys
import urllib.request

import psutil
from pyspark.errors import PySparkException

from leasehold.spark import attach, session, table, view


def main(cluster: str, folder: str, user: str | None = None, password: str | None = None) -> None:
    if user is None:
        logging.basicConfig(stream=sys.stderr)
        logging.getLogger("py4j").setLevel(logging.DEBUG)
    spark = session(
        cluster=cluster,
        **{
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder,
            "spark.eventLog.compress": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
        },
    )
    spark.sparkContext.setLogLevel("DEBUG")
    attach(spark, user=user, password=password)
    login = {} if user is None or password is None else {"user": user, "password": password}
    frames = [
        spark.table("d_t"),
        table(spark, "d.t", user=user, password=password),
        view(spark, "d.v", user=user, password=password),
        spark.read.format("leasehold").options(table="d.t", **login).load(),
    ]
    spark.sql("INSERT INTO d_t VALUES (1)")
    for frame in frames:
        frame.explain("extended")
        print(frame.count())  # noqa: T201 - what a person would see is what is looked through
    spark.sql("DESCRIBE EXTENDED d_t").show(truncate=False)
    try:
        spark.sql("INSERT INTO d_t VALUES ('no number')")
    except PySparkException as error:
        print(error)  # noqa: T201
    context = spark.sparkContext
    for page in ("sql?details=true", "environment", "jobs", "stages"):
        with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}") as answer:
            print(page, answer.read().decode())  # noqa: T201
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            print("process", process.cmdline(), process.environ())  # noqa: T201 - what `ps e` shows of it
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
