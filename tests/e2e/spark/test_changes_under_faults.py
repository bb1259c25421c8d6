"""Several writers change the same rows while processes are killed and stopped: what was acknowledged is there once."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from leasehold.client.cluster import Cluster
from leasehold.errors import Definite, LeaseholdError
from leasehold.spark import merge, sql, table
from leasehold.wire.clock import sleep_ns
from tests.e2e.cluster import RunningCluster

pytestmark = [pytest.mark.spark, pytest.mark.processes]

KEYS = 40
NODES = ("node-1", "node-2")


class Writers:
    """What they did to the count of each key, by what they were told."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self.done: list[str] = []
        self.refused: list[str] = []
        self.unknown: list[str] = []

    def update(self, low: int) -> None:
        sql(self._spark, f"UPDATE {self._name} SET n = n + 1 WHERE k >= {low}")

    def merge(self, low: int) -> None:
        source = self._spark.range(low, KEYS).selectExpr("id AS k", "1 AS more")
        merge(source, self._name, "k", when_matched={"n": "target.n + source.more"}, when_not_matched="ignore")

    def run(self, changes: list[tuple[Callable[[int], None], int]]) -> None:
        for change, low in changes:
            try:
                change(low)
            except (PySparkException, LeaseholdError) as error:
                told = isinstance(error, Definite) or any(f"[{code}]" in str(error) for code in ("CONFLICT", "BUSY"))
                (self.refused if told else self.unknown).append(f"{low}: {error}"[:300])
            else:
                self.done.append(str(low))


@contextmanager
def faults(running: RunningCluster, drawn: random.Random) -> Iterator[None]:
    """One process after the other is killed and started again, or stopped for a while."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(1):
            name = drawn.choice((*NODES, "coordinator"))
            if name != "coordinator" and drawn.random() < 0.5:
                running.kill(name)
                sleep_ns(500_000_000)
                running.restart(name)
            else:
                running.pause(name)
                sleep_ns(drawn.choice((200_000_000, 4_000_000_000)))
                running.resume(name)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        running.wait_until_active()


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 3), *(pytest.param(seed, 10, marks=pytest.mark.long) for seed in range(2, 22))]
)
def test_each_change_that_was_acknowledged_is_there_once(
    spark: SparkSession, running: RunningCluster, cluster: Cluster, seed: int, rounds: int
) -> None:
    name, drawn = f"e2e.counted_{seed}", random.Random(seed)
    cluster.sql(f"CREATE TABLE {name} (k BIGINT, n BIGINT) CLUSTERED BY (k) INTO 2 BUCKETS")
    for low in (0, KEYS // 2):
        sql(spark, f"INSERT INTO {name} SELECT id, 0 FROM range({low}, {low + KEYS // 2})")
    writers = Writers(spark, name)
    threads = [
        threading.Thread(
            target=writers.run,
            args=([(drawn.choice((writers.update, writers.merge)), drawn.randrange(KEYS)) for _ in range(rounds)],),
        )
        for _ in range(2)
    ]
    with faults(running, drawn):
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    found = {row["k"]: row["n"] for row in table(spark, name).collect()}
    assert len(found) == table(spark, name).count() == KEYS, "no row is lost or there twice"
    assert writers.done, writers.unknown
    least = Counter({key: sum(int(low) <= key for low in writers.done) for key in range(KEYS)})
    open_ = [int(one.split(":")[0]) for one in writers.unknown]
    for key in range(KEYS):
        most = least[key] + sum(low <= key for low in open_)
        assert least[key] <= found[key] <= most, (key, writers.done, writers.refused, writers.unknown)
