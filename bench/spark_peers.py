"""Writes with Spark beside Delta Lake and Iceberg, each against Spark's own Parquet in the same session.

The peers run on the newest Spark that they support, in environments of their own below `artifacts/peers`, which this
makes with pip; Spark gets their jars from Maven Central. A ratio is the time of the native write divided by that of the
table, so the ratios of several kinds can be compared: 1.0 is as fast as Parquet. Leasehold has two copies of each row
and syncs them. A peer has one copy, which it does not sync, and no server.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import leasehold.spark
from bench.ddl import NODES, SMALLEST_NODES, cluster_of
from bench.figures import Figure, Table, median, ratios, spread
from bench.peer_job import APPEND, COMMITS, COMPACT, FILES, MERGE, REPLACE, SETTINGS, Rounds, Size, Took
from bench.readings import COLUMNS
from bench.spark import used_ms
from leasehold.client.cluster import Cluster
from leasehold.local.processes import LocalCluster

FULL = Size(rows=10_000_000, table_rows=2_000_000, commits=20, rounds=5)
SMALLEST = Size(rows=3_650, table_rows=3_650, commits=1, rounds=1)
ROOT = Path(__file__).parents[1]
PARQUET = "Parquet of Spark"

Taken = dict[str, list[tuple[Took, Took]]]
"""What a kind of table took and what Parquet took, by what was done."""


class Peer(NamedTuple):
    """A kind of table that is not ours."""

    kind: str
    shown: str
    pyspark: str


PEERS = (
    Peer("delta", "Delta Lake 4.4.0 on Spark 4.2", "pyspark==4.2.0"),
    Peer("iceberg", "Iceberg 1.12.0 on Spark 4.1", "pyspark==4.1.4"),
)


class LeaseholdTables:
    """Implements `bench.peer_job.Tables`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, name: str) -> None:
        self._cluster.sql(f"DROP TABLE IF EXISTS bench.{name}")
        self._cluster.sql(f"CREATE TABLE bench.{name} ({COLUMNS}) CLUSTERED BY (reading) INTO 4 BUCKETS")

    def append(self, name: str, rows: Any) -> None:
        leasehold.spark.write(rows, f"bench.{name}")

    def replace(self, name: str, rows: Any, where: str) -> None:
        leasehold.spark.write(rows, f"bench.{name}", "overwrite", where=where)

    def merge(self, name: str, rows: Any) -> None:
        leasehold.spark.merge(rows, f"bench.{name}", on=["reading"])

    def compact(self, name: str) -> None:
        self._cluster.compact(f"bench.{name}")


def ours(nodes: int, size: Size) -> Taken:
    with cluster_of(nodes) as (local, cluster):
        cluster.sql("CREATE DATABASE bench")
        spark = leasehold.spark.session("bench", cluster=local.directory, master="local[2]", **SETTINGS)
        try:
            rounds = Rounds(spark, LeaseholdTables(cluster), folder_beside(local), size, lambda: all_ms(local))
            rounds.run()
        finally:
            spark.stop()
    return rounds.taken


def folder_beside(local: LocalCluster) -> Path:
    found = local.directory.parent / "native"
    found.mkdir()
    return found


def all_ms(local: LocalCluster) -> float:
    return sum(used_ms(local).values())


def of_peer(peer: Peer, size: Size) -> Taken:
    environment = ROOT / "artifacts" / "peers" / peer.kind
    python = environment / "bin" / "python"
    if not (environment / "whole").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        wanted = [peer.pyspark, "psutil", "setuptools"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        (environment / "whole").touch()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as folder:
        words = [python, "-m", "bench.peer_job", peer.kind, folder, json.dumps(size)]
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {what: [(Took(*table), Took(*native)) for table, native in taken] for what, taken in found.items()}


def run(smallest: bool) -> list[Table]:
    """At its smallest size it leaves out the peers, which it would have to download."""
    nodes, size = (SMALLEST_NODES, SMALLEST) if smallest else (NODES, FULL)
    peers = {} if smallest else {peer.shown: of_peer(peer, size) for peer in PEERS}
    mine = ours(nodes, size)
    shown = {
        APPEND: f"append of {size.rows:,} rows",
        REPLACE: f"replace a day of {size.table_rows:,} rows",
        MERGE: f"merge 1 % of {size.table_rows:,} rows",
        COMPACT: f"compact {FILES} appends of {size.table_rows:,} rows",
        COMMITS: f"{size.commits} appends of 100 rows",
    }
    figures: list[Figure] = []
    for what, words in shown.items():
        best = max((ratio(taken[what]) for taken in peers.values()), default=None)
        figures.append(figure(f"{words}: Leasehold", mine[what], best))
        figures += [figure(f"{words}: {name}", taken[what], None) for name, taken in peers.items()]
    title = f"Writing with Spark, {size.rounds} rounds. Ratio: the time of {PARQUET} / that of the table"
    return [Table(title=title, figures=figures)]


def ratio(taken: list[tuple[Took, Took]]) -> float:
    return median(ratios([native.wall for _, native in taken], [table.wall for table, _ in taken]))


def figure(what: str, taken: list[tuple[Took, Took]], aim: float | None) -> Figure:
    cpu = median([table.cpu for table, _ in taken])
    return Figure(
        what=what,
        value=f"{spread([table.wall for table, _ in taken], 'ms', 0)}; CPU time {cpu:.0f} ms",
        peer=f"{spread([native.wall for _, native in taken], 'ms', 0)}, {PARQUET}",
        ratio=f"{ratio(taken):.2f}",
        aim="report" if aim is None else f"at least {aim:.2f}, the better peer",
        holds=None if aim is None else ratio(taken) >= aim,
    )
