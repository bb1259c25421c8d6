"""Where the time of an append of 100 rows goes, by a client alone and through Spark.

Each step is measured from outside, by the calls that `append` makes one after the other. What a step is held against
does the same work without a cluster: a file of that size synced on the same disk, one durable SQLite transaction, a
commit of Delta Lake without Spark (no sync, no second copy), a write of Spark's own Parquet.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import write_deltalake

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, RawTransaction, cluster_of
from bench.figures import Figure, Table, median, ratios, spread, timed_ms
from bench.spark import spark_session
from leasehold.client.cluster import Cluster, connect

ROWS = 100
COLUMNS = "k BIGINT, v DOUBLE"
BUCKETS = (1, 4)
PASSWORD = "bench"


class Size(NamedTuple):
    """How often."""

    nodes: int
    commits: int
    writes: int
    """Through Spark."""


FULL = Size(nodes=NODES, commits=200, writes=40)
SMALLEST = Size(nodes=SMALLEST_NODES, commits=2, writes=1)

Samples = dict[str, list[float]]
"""Milliseconds, by what was measured."""


class Synced:
    """Writes files of the size of a segment, and syncs each."""

    def __init__(self, folder: Path, content: bytes) -> None:
        self._folder = folder
        self._content = content
        self._number = 0

    def __call__(self) -> None:
        self._number += 1
        descriptor = os.open(self._folder / str(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, self._content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def take(samples: Samples, what: str, work: Callable[..., Any], *given: Any) -> Any:
    """Measures a call; what it returns."""
    found: list[Any] = []
    samples.setdefault(what, []).append(timed_ms(lambda: found.append(work(*given))))
    return found[0]


def by_client(cluster: Cluster, folder: Path, commits: int, buckets: int) -> Samples:
    """The whole appends, their steps, and the peers, in turn."""
    name, samples = f"bench.t{buckets}", Samples()
    cluster.sql(f"CREATE TABLE {name} ({COLUMNS}) CLUSTERED BY (k) INTO {buckets} BUCKETS")
    table, rows = cluster.table(name), pa.table({"k": range(ROWS), "v": [float(one) for one in range(ROWS)]})
    raw, delta = RawTransaction(folder), str(folder / "delta")
    table.append(rows)
    synced = Synced(folder, bytes(cluster.plan(name).segments[0].size_bytes))
    for _ in range(commits):
        take(samples, "append", table.append, rows)
        facts = take(samples, "look up", cluster.facts, name)
        chosen = cluster.new_transaction()
        opened = take(samples, "open", cluster.open_transaction, facts, chosen)
        sent = facts, opened.transaction, rows.to_batches(), opened.revision
        staged = take(samples, "stage", cluster.stage, *sent)
        take(samples, "commit", cluster.commit, facts.cluster_id, chosen, staged)
        take(samples, "sync", synced)
        take(samples, "transaction", raw)
        take(samples, "delta", lambda: write_deltalake(delta, rows, mode="append"))
    return samples


def logins(cluster: Cluster, directory: Path, times: int) -> Samples:
    """A client that connects and logs in, until it knows a table."""
    cluster.sql(f"CREATE USER root PASSWORD '{PASSWORD}'")
    samples = Samples()

    def log_in() -> None:
        with connect(directory, user="root", password=PASSWORD) as own:
            own.facts("bench.t1")

    for _ in range(times):
        take(samples, "log in", log_in)
    return samples


def through_spark(spark: Any, folder: Path, writes: int) -> Samples:
    """Writes of one partition, and what Spark takes for a job without any table."""
    samples = Samples()
    rows = spark.range(0, ROWS, 1, 1).selectExpr("id AS k", "double(id) AS v")
    passed = rows.mapInArrow(lambda batches: batches, "k long, v double")
    for number in range(writes + 2):
        take(samples, "write", lambda: leasehold.spark.write(rows, "bench.t1"))
        take(samples, "parquet", lambda: rows.write.mode("append").parquet(str(folder / "parquet")))
        take(samples, "no table", lambda: rows.write.format("noop").mode("overwrite").save())
        take(samples, "no table, Python", lambda: passed.write.format("noop").mode("overwrite").save())
        if number == 1:
            samples.clear()  # the first two warm up
    return samples


def figure(what: str, ours: list[float], peer: str = "", theirs: list[float] | None = None) -> Figure:
    if theirs is None:
        return Figure(what=what, value=spread(ours, "ms", 1), aim="report")
    ratio = median(ratios(theirs, ours))
    return Figure(
        what=what,
        value=spread(ours, "ms", 1),
        peer=f"{spread(theirs, 'ms', 1)}, {peer}",
        ratio=f"{ratio:.2f}",
        aim="report",
    )


def of_client(samples: Samples, buckets: int) -> list[Figure]:
    table = f"a table of {buckets} bucket{'s' * (buckets > 1)}"
    steps = (
        ("look up the table", "look up", "", None),
        ("open a transaction", "open", "a transaction of SQLite", "transaction"),
        ("send the rows, until two disks have them", "stage", "a file of this size, synced", "sync"),
        ("commit", "commit", "a transaction of SQLite", "transaction"),
    )
    return [
        figure(f"append to {table}", samples["append"], "Delta Lake without Spark", samples["delta"]),
        *(
            figure(f"of that: {what}", samples[step], peer, None if theirs is None else samples[theirs])
            for what, step, peer, theirs in steps
        ),
    ]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else FULL
    with cluster_of(size.nodes) as (local, cluster):
        cluster.sql("CREATE DATABASE bench")
        shown: list[Figure] = []
        for buckets in BUCKETS:
            folder = local.directory.parent / f"peers{buckets}"
            folder.mkdir()
            shown += of_client(by_client(cluster, folder, size.commits, buckets), buckets)
        with spark_session(local.directory) as spark:
            took = through_spark(spark, local.directory.parent, size.writes)
        shown += [
            figure("write of Spark, one bucket, one task", took["write"], "Parquet of Spark", took["parquet"]),
            figure("a job of Spark without a table", took["no table"]),
            figure("the same with a Python worker", took["no table, Python"]),
        ]
        logged_in = logins(cluster, local.directory, size.writes)
        shown.append(figure("connect, log in with a password, and look up a table", logged_in["log in"]))
    title = f"Commits of {ROWS} rows. Ratio: the other's time / ours, so 1.0 is as fast"
    return [Table(title=title, figures=shown)]
