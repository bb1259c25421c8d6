"""A driver of its own that writes a stream, until it is killed; `test_streams_under_faults.py` runs it.

Arguments: the cluster, the folder of the files, the checkpoint, the table. A file is a batch.
"""

import sys

from leasehold.spark import session
from tests.e2e.spark.patience import to_its_end

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def main(cluster: str, folder: str, checkpoint: str, name: str) -> None:
    spark = session("stream", cluster=cluster, master="local[2]", **SETTINGS)
    files = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(folder)
    writer = files.writeStream.format("leasehold").option("checkpointLocation", checkpoint)
    to_its_end(writer, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
