"""Statements: how many a second one coordinator and three nodes take from 1 and from 32 clients, and each kind's time.

Each client is a thread with a connection of its own, and goes through the life of a database, a table, a view and a
role of its own names, again and again: nobody waits for another's objects, all share the coordinator and its disk.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import psutil

from bench.ddl import NODES, SMALLEST_NODES, cluster_of, statement
from bench.figures import Figure, Table, quantile, timed_ms
from bench.threads import Threads
from leasehold.client.cluster import Cluster
from leasehold.local.processes import LocalCluster

LASTS_S, WARM_S = 20.0, 3.0
MANY, AIM = 32, 400
SMALLEST_S, SMALLEST_MANY = 0.5, 2
READY_S = 60.0

LIFE = (
    (
        "create table",
        "CREATE TABLE {d}.t{n} (id INT NOT NULL, at TIMESTAMP, name STRING) TBLPROPERTIES ('time_column' = 'at')",
    ),
    ("add column", "ALTER TABLE {d}.t{n} ADD COLUMN price FLOAT"),
    ("rename column", "ALTER TABLE {d}.t{n} RENAME COLUMN price TO cost"),
    ("widen column", "ALTER TABLE {d}.t{n} ALTER COLUMN cost TYPE DOUBLE"),
    ("move column", "ALTER TABLE {d}.t{n} ALTER COLUMN cost FIRST"),
    ("set default", "ALTER TABLE {d}.t{n} ALTER COLUMN cost SET DEFAULT 1.5"),
    ("comment", "COMMENT ON TABLE {d}.t{n} IS 'for the bench'"),
    ("set property", "ALTER TABLE {d}.t{n} SET TBLPROPERTIES ('team' = 'bench')"),
    ("create view", "CREATE VIEW {d}.v{n} AS SELECT id, name FROM {d}.t{n} WHERE id > 0"),
    ("replace view", "CREATE OR REPLACE VIEW {d}.v{n} AS SELECT id, name FROM {d}.t{n} WHERE id > 1"),
    ("grant", "GRANT SELECT, INSERT ON TABLE {d}.t{n} TO {d}"),
    ("revoke *", "REVOKE INSERT ON TABLE {d}.t{n} FROM {d}"),
    ("first TTL *", "ALTER TABLE {d}.t{n} SET TBLPROPERTIES ('ttl' = '7d')"),
    ("longer TTL", "ALTER TABLE {d}.t{n} SET TBLPROPERTIES ('ttl' = '8d')"),
    ("shorter TTL *", "ALTER TABLE {d}.t{n} SET TBLPROPERTIES ('ttl' = '1d')"),
    ("delete rows *", "DELETE FROM {d}.t{n} WHERE id = 1"),
    ("drop view *", "DROP VIEW {d}.v{n}"),
    ("drop column *", "ALTER TABLE {d}.t{n} DROP COLUMN cost"),
    ("rename table", "ALTER TABLE {d}.t{n} RENAME TO {d}.u{n}"),
    ("drop table *", "DROP TABLE {d}.u{n}"),
)
"""What is destructive is marked: it takes two durable transactions, the others one."""
PAIR = (("create table", "CREATE TABLE {d}.p{n} (id INT)"), ("drop table *", "DROP TABLE {d}.p{n}"))

Times: TypeAlias = dict[str, list[float]]


def clients(
    target: Path, count: int, life: tuple[tuple[str, str], ...], lasts_s: float, warm_s: float = WARM_S
) -> tuple[Times, float]:
    """All of them at once, for so long; the times of each kind after a warm-up, and statements per second."""
    times: Times = defaultdict(list)
    rates: list[float] = []
    lock = threading.Lock()
    ready = threading.Barrier(count, timeout=READY_S)
    window: list[float] = []

    def client(number: int) -> None:
        mine: Times = defaultdict(list)
        with Cluster(target) as cluster:
            if ready.wait() == 0:
                window.append(time.perf_counter() + warm_s)
            ready.wait()
            for kind, text in _again_and_again(f"c{count}_{number}", life, window[0] + lasts_s):
                took = timed_ms(lambda text=text: statement(cluster, text))
                if window[0] <= time.perf_counter():
                    mine[kind].append(took)
        lasted_s = time.perf_counter() - window[0]  # the last life that begins is finished
        with lock:
            rates.append(sum(map(len, mine.values())) / lasted_s)
            for kind, took in mine.items():
                times[kind] += took

    with Threads() as threads:
        for number in range(count):
            threads.start(partial(client, number))
        threads.join_all()
    return times, sum(rates)


def _again_and_again(database: str, life: tuple[tuple[str, str], ...], until: float) -> Iterator[tuple[str, str]]:
    number = 0
    while time.perf_counter() < until:
        for kind, text in life:
            yield kind, text.format(d=database, n=number)
        number += 1


def prepare(target: Path, count: int) -> None:
    """A database and a role for each client."""
    with Cluster(target) as cluster:
        for number in range(count):
            statement(cluster, f"CREATE DATABASE c{count}_{number}")
            statement(cluster, f"CREATE ROLE c{count}_{number}")


class Cores:
    """What the processes use from here on, in cores."""

    def __init__(self, local: LocalCluster) -> None:
        running = {"coordinator": local.coordinator.worker(), "a node": local.nodes()[0].worker()}
        self._processes = {"the clients": psutil.Process()} | {
            name: process for name, process in running.items() if process is not None
        }
        self._before = self._used()
        self._began = time.perf_counter()

    def so_far(self) -> str:
        lasted = time.perf_counter() - self._began
        return ", ".join(f"{name} {(used - self._before[name]) / lasted:.2f}" for name, used in self._used().items())

    def _used(self) -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}


def rates(
    one: tuple[Times, float], many: tuple[Times, float], pairs: tuple[Times, float], count: int, cores: str
) -> list[Figure]:
    figures = [
        Figure(what="all kinds in turn, 1 client", value=f"{one[1]:.0f} statements/s", aim="report"),
        Figure(
            what=f"all kinds in turn, {count} clients",
            value=f"{many[1]:.0f} statements/s",
            peer=f"1 client: {one[1]:.0f}/s",
            ratio=f"{many[1] / one[1]:.1f}",
            aim=f"at least {AIM}/s",
            holds=many[1] >= AIM,
        ),
        Figure(
            what=f"CREATE TABLE and DROP TABLE alone, {count} clients",
            value=f"{pairs[1]:.0f} statements/s",
            aim=f"at least {AIM}/s",
            holds=pairs[1] >= AIM,
        ),
    ]
    figures.append(Figure(what=f"cores while {count} clients go through all kinds", value=cores, aim="report"))
    for kind, _ in LIFE:
        alone, among = one[0][kind], many[0][kind]
        figures.append(
            Figure(
                what=kind,
                value=f"{count} clients: p50 {quantile(among, 0.5):.1f} ms, p99 {quantile(among, 0.99):.1f} ms",
                peer=f"1 client: p50 {quantile(alone, 0.5):.1f} ms, p99 {quantile(alone, 0.99):.1f} ms",
                ratio=f"{quantile(among, 0.5) / quantile(alone, 0.5):.1f}",
                aim="report",
            )
        )
    return figures


def run(smallest: bool) -> list[Table]:
    lasts_s, warm_s, many = (SMALLEST_S, 0.0, SMALLEST_MANY) if smallest else (LASTS_S, WARM_S, MANY)
    with cluster_of(SMALLEST_NODES if smallest else NODES) as (local, _):
        for count in (1, many):
            prepare(local.directory, count)
        one = clients(local.directory, 1, LIFE, lasts_s, warm_s)
        cores = Cores(local)
        several = clients(local.directory, many, LIFE, lasts_s, warm_s)
        used = cores.so_far()
        pairs = clients(local.directory, many, PAIR, lasts_s / 2, warm_s)
    title = "Statements: one coordinator and three nodes on one machine (* destructive: two transactions)"
    return [Table(title=title, figures=rates(one, several, pairs, many, used))]
