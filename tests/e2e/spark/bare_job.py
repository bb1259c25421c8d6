"""A driver whose workers run a Python that lacks the package; `test_standalone.py` runs it.

Arguments: the master, the cluster, a file of credentials, and a table.
"""

import sys
from collections.abc import Callable

from pyspark.errors import PySparkException

from leasehold.spark import session, table, write
from tests.e2e.spark.session_job import SETTINGS

LACKING = "No module named 'leasehold'"


def main(master: str, cluster: str, credentials: str, name: str) -> None:
    spark = session("bare", cluster=cluster, credentials=credentials, master=master, **SETTINGS)
    tried: tuple[Callable[[], object], ...] = (
        lambda: table(spark, name).collect(),
        lambda: write(spark.createDataFrame([(1,)], "a BIGINT"), name),
    )
    for act in tried:
        try:
            act()
        except PySparkException as error:
            assert LACKING in str(error), error
        else:
            raise AssertionError("a worker had the package")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
