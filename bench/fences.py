"""False fences: how often a node that nothing happened to loses its lease while Spark takes every core.

Default settings, a coordinator and three nodes beside Spark on one machine. Appends and scans run all the time.
"""

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import psutil
from pyarrow import flight
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, cluster_of
from bench.figures import Figure, Table, quantile
from bench.spark import leasehold_write, spark_session
from bench.threads import Threads
from leasehold.cli.verify import verify
from leasehold.client.cluster import Cluster
from leasehold.limits.lease import LEASE_DURATION_NS, RENEWAL_INTERVAL_NS
from leasehold.local.files import read_address
from leasehold.local.processes import LocalCluster
from leasehold.storage.servelog import read_serve_log
from leasehold.wire.flight import HEALTH

MINUTES = 10.0
ROWS = 500_000
SMALLEST_ROWS, SMALLEST_MINUTES = 1_000, 0.02
APPENDS_PER_TABLE = 10
LOOK_SECONDS = 0.1
BEGINS = "serving from revision"
"""What a node logs with a grant that it gets while it has no lease: once when it starts, and after each lapse."""
COLUMNS = "reading BIGINT, tag STRING, measure DOUBLE"


class Load:
    """Spark jobs, one after the other in each of two threads, until these are over."""

    def __init__(self, local: LocalCluster, spark: SparkSession, rows: int) -> None:
        self._target = str(local.directory)
        self._spark = spark
        self._rows = rows
        self._name = "bench.t0"
        self.appends = self.scans = 0

    def begin(self, threads: Threads) -> None:
        with Cluster(self._target) as cluster:
            cluster.sql("CREATE DATABASE bench")
            self._make(cluster, self._name)
        leasehold_write(self._frame(), self._name)
        for work in (self._append, self._scan):
            threads.start(partial(self._live, work, threads.over))

    def _live(self, work: Callable[[], None], over: threading.Event) -> None:
        leasehold.spark.session(cluster=self._target)
        while True:
            work()
            if over.is_set():
                return

    def _frame(self) -> Any:
        number = F.col("id")
        tag = F.concat(F.lit("sensor-"), (number % 1000).cast("string"))
        columns = (number.alias("reading"), tag.alias("tag"), F.sin(number).alias("measure"))
        return self._spark.range(self._rows).select(*columns)

    def _make(self, cluster: Cluster, name: str) -> None:
        cluster.sql(f"CREATE TABLE {name} ({COLUMNS}) CLUSTERED BY (reading) INTO 4 BUCKETS")

    def _append(self) -> None:
        """To a table that grows, until a new one takes its place: the disk stays as it is."""
        table = f"bench.t{self.appends // APPENDS_PER_TABLE}"
        with Cluster(self._target) as cluster:
            if table != self._name:
                self._make(cluster, table)
        leasehold_write(self._frame(), table)
        before, self._name = self._name, table
        if before != table and before != "bench.t0":
            with Cluster(self._target) as cluster:
                cluster.sql(f"DROP TABLE {before}")
        self.appends += 1

    def _scan(self) -> None:
        """Of the first table, which stays."""
        frame = leasehold.spark.table(self._spark, "bench.t0")
        frame.agg(F.sum("reading"), F.count("tag"), F.sum("measure")).collect()
        self.scans += 1


class Watch:
    """Asks every node how much of its lease is left, all the time."""

    def __init__(self, local: LocalCluster) -> None:
        self._clients = [flight.connect(f"grpc://{read_address(one.directory)}") for one in local.nodes()]
        self.left_ns: list[int] = []
        self.fenced = 0
        self.cpu: list[float] = []

    def run(self, over: threading.Event) -> None:
        psutil.cpu_percent()
        while not over.wait(LOOK_SECONDS):
            self.cpu.append(psutil.cpu_percent())
            for client in self._clients:
                (answer,) = client.do_action(flight.Action(HEALTH, b""))
                health = json.loads(answer.body.to_pybytes())
                self.left_ns.append(health["lease_remaining_ns"])
                self.fenced += health["state"] != "ACTIVE"


class Served(msgspec.Struct, kw_only=True):
    batches: int = 0
    left_ns: int = LEASE_DURATION_NS
    """The least that was left of a lease when a batch was released under it."""


def begins(local: LocalCluster) -> int:
    """How often nodes have begun to serve."""
    return sum(one.log.read_text().count(BEGINS) for one in local.nodes())


def served(local: LocalCluster) -> Served:
    found = Served()
    for node in local.nodes():
        for one in read_serve_log(node.directory / "servelog"):
            found.batches += 1
            found.left_ns = min(found.left_ns, one.deadline_ns - one.released_ns)
    return found


def run(smallest: bool, minutes: float = MINUTES) -> list[Table]:
    rows, nodes = (SMALLEST_ROWS, SMALLEST_NODES) if smallest else (ROWS, NODES)
    minutes = SMALLEST_MINUTES if smallest else minutes
    with cluster_of(nodes) as (local, _), spark_session(local.directory, "local[*]") as spark:
        load, watch = Load(local, spark, rows), Watch(local)
        with Threads() as threads:
            load.begin(threads)
            before = begins(local)
            assert before == len(local.nodes()), "each node begins once, or its log can't tell of a lapse"
            began = time.monotonic()
            threads.start(partial(watch.run, threads.over))
            time.sleep(minutes * 60)
            lasted = (time.monotonic() - began) / 60
        local.wait_until_active()
        fences = begins(local) - before
        stale = verify(local.directory).stale_serves
        released = served(local)
    title = f"False fences: {lasted:.1f} minutes of Spark on all cores"
    return [Table(title=title, figures=figures(load, watch, fences, stale, released))]


def figures(load: Load, watch: Watch, fences: int, stale: int, released: Served) -> list[Figure]:
    least, duration = min(watch.left_ns), LEASE_DURATION_NS / 1e6
    best, idle = LEASE_DURATION_NS - RENEWAL_INTERVAL_NS, quantile(watch.cpu, 0.1)
    return [
        Figure(
            what="leases that lapsed, of three nodes",
            value=f"{fences}, seen fenced {watch.fenced} of {len(watch.left_ns)} times",
            peer=f"{load.appends} appends, {load.scans} scans",
            aim="0",
            holds=fences == 0 and watch.fenced == 0,
        ),
        Figure(
            what=f"least left of a lease, asked every {LOOK_SECONDS * 1000:.0f} ms",
            value=f"{least / 1e6:.0f} ms, 1 % of looks under {quantile(watch.left_ns, 0.01) / 1e6:.0f} ms",
            peer=f"lease {duration:.0f} ms, {best / 1e6:.0f} ms before a renewal",
            ratio=f"{least / LEASE_DURATION_NS:.2f}",
            aim="report",
        ),
        Figure(
            what="least left when a batch was released",
            value=f"{released.left_ns / 1e6:.0f} ms, of {released.batches} batches, {stale} stale",
            peer=f"lease {duration:.0f} ms",
            ratio=f"{released.left_ns / LEASE_DURATION_NS:.2f}",
            aim="0 stale",
            holds=stale == 0,
        ),
        Figure(
            what="load of the machine",
            value=f"median {quantile(watch.cpu, 0.5):.0f} % of all cores, a tenth of the time under {idle:.0f} %",
            aim="report",
        ),
    ]
