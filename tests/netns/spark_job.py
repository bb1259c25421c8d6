"""A Spark job whose rows say on which host a task wrote them. Its argument is JSON; see `main`.

Writes what it has seen to stdout, as one line of JSON.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from leasehold.spark import session, table
from tests.netns.spark_cluster import HOST_VARIABLE

ROWS = 400


def here(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with the host that it runs on."""
    for batch in batches:
        host = pa.array([os.environ[HOST_VARIABLE]] * batch.num_rows)
        yield pa.RecordBatch.from_arrays([batch.column("id"), host], ["id", "host"])


def main(given: dict[str, Any]) -> None:
    name, word = given["table"], given["word"]
    spark = session("strangers", master=given["master"], **given["settings"])
    rows = spark.range(0, ROWS, 1, 8).mapInArrow(here, "id BIGINT, host STRING")
    written = rows.selectExpr("id", "host", f"concat('{word}', id) AS word")
    written.write.format("leasehold").option("table", name).mode("append").save()

    loaded = spark.read.format("leasehold").option("table", name).load()
    wrote = {row.host: row["count"] for row in loaded.groupBy("host").count().collect()}
    scanned = loaded.select("id").mapInArrow(here, "id BIGINT, host STRING").collect()
    assert sorted(row.id for row in scanned) == list(range(ROWS))

    by_password = table(spark, name, user=given["user"], password=given["password"])
    words = {row.word for row in by_password.select("word").collect()}
    assert words == {f"{word}{number}" for number in range(ROWS)}
    spark.stop()
    print(json.dumps({"wrote": wrote, "read": sorted({row.host for row in scanned})}))  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
