"""What a driver does with a session of any kind; `test_standalone.py` runs it.

Arguments: the master, the cluster, a file of credentials, and a table of its own, which is empty, with a view over it.
"""

import sys
import threading
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from leasehold.errors import LeaseholdError
from leasehold.spark import attach, last_plan, session, sql, table, view, write
from leasehold.wire.clock import sleep_ns
from tests.e2e.spark.patience import again

SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": SMALL,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
BATCHES = 3


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in again(frame.collect))


def fails(code: str, call: Callable[[], object]) -> None:
    try:
        call()
    except LeaseholdError as error:
        assert error.code == code, error
    except PySparkException as error:
        assert code in str(error), error
    else:
        raise AssertionError(f"no {code}")


def in_a_thread(call: Callable[[], object]) -> None:
    done: list[bool] = []
    thread = threading.Thread(target=lambda: (again(call), done.append(True)))
    thread.start()
    thread.join()
    assert done, "the thread failed"


def by_tasks(spark: SparkSession, begin: int, end: int) -> DataFrame:
    """Numbers whose size Spark can't tell, so that its tasks write them."""
    return spark.createDataFrame([(one,) for one in range(begin, end)], "a BIGINT")


def batches(spark: SparkSession, name: str) -> int:
    """Writes batches of a stream; how many rows they had."""
    written: list[int] = []

    def each(frame: DataFrame, number: int) -> None:
        write(frame.selectExpr("1000 + value AS a"), name)

    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    query = again(rows.writeStream.foreachBatch(each).start)
    while not written or written[-1] < BATCHES:
        assert query.isActive, query.exception()
        sleep_ns(50_000_000)
        written.append((query.lastProgress or {"batchId": 0})["batchId"])
    query.stop()
    return numbers(table(spark, name).selectExpr("count_if(a >= 1000)"))[0]


def main(master: str, cluster: str, credentials: str, name: str) -> None:
    spark = session("any", cluster=cluster, credentials=credentials, master=master, **SETTINGS)
    pinned = table(spark, name)
    assert numbers(pinned) == []
    in_a_thread(lambda: write(by_tasks(spark, 0, 100), name))
    again(lambda: write(spark.range(100, 200).selectExpr("id AS a"), name))
    assert numbers(pinned) == []
    whole = table(spark, name)
    assert numbers(whole) == list(range(200))
    assert last_plan(whole) is None, "tasks may run on other machines"
    if master.startswith("sc:"):
        fails("NOT_LOCAL", lambda: table(spark, name, local=True))
    else:
        for _ in range(2):
            in_files = table(spark, name, local=True)
            assert numbers(in_files) == list(range(200))
        plan = last_plan(in_files)
        assert plan is not None
        assert plan.local == plan.segments
    assert numbers(table(spark, name, ["a"], where="a < 7")) == list(range(7))
    shown = view(spark, f"{name}_view")
    assert numbers(shown) == list(range(100, 200))
    assert shown.first()["word"] == "{a}"

    both = f"SELECT count(*) FROM {name} a JOIN {name}_view USING (a) WHERE a < 150 AND word LIKE '{{%'"
    assert numbers(sql(spark, both)) == [50]
    receipt = sql(spark, f"DELETE FROM {name} WHERE a >= 300").first()
    assert receipt["outcome"] == "COMMITTED", receipt
    in_a_thread(lambda: sql(spark, f"INSERT INTO {name} SELECT a + 300 FROM {name} WHERE a = 0"))
    assert numbers(sql(spark, f"SELECT a FROM {name} WHERE a >= 300")) == [300]
    again(lambda: write(by_tasks(spark, 301, 303), name, "overwrite", where="a >= 300 AND a < 310"))
    assert numbers(sql(spark, f"SELECT a FROM {name} WHERE a >= 300")) == [301, 302]
    in_a_thread(lambda: write(spark.range(300, 301).selectExpr("id AS a"), name, "overwrite", where="a >= 300"))
    assert numbers(sql(spark, f"SELECT a FROM {name} WHERE a >= 300")) == [300]
    assert numbers(sql(spark, f"SELECT count(*) FROM {name} VERSION AS OF {receipt['revision']}")) == [200]

    attach(spark)
    attached = name.replace(".", "_")
    query = f"SELECT count(*) FROM {attached} a JOIN {attached} b ON a.a = b.a"
    assert numbers(spark.sql(query)) == [201]
    in_a_thread(lambda: spark.sql(f"INSERT INTO {attached} VALUES (200)"))
    assert numbers(spark.sql(query)) == [202]
    before = sql(spark, f"DELETE FROM {name} WHERE a >= 100").first()["revision"]
    assert numbers(spark.sql(query)) == [100]
    assert batches(spark, name) > 0
    attach(spark, as_of=before)
    assert numbers(spark.sql(query)) == [100]
    assert numbers(table(spark, name, as_of=before)) == list(range(100))

    fails("NOT_FOUND", lambda: table(spark, f"{name}_nobody_has"))
    fails("asOfRevision", lambda: spark.read.format("leasehold").options(table=name, asOfRevison="1").load().count())
    fails("ROWS_DO_NOT_FIT", lambda: write(spark.range(1).selectExpr("'x' AS a"), name))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
