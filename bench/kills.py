"""The first schema change, append and scan after a SIGKILL: of a node's process alone, and with its supervisor.

Three nodes on this machine, and one client with open connections. A round kills node-2, and the client asks at once.
The schema change is a DROP TABLE, so it needs every node. The append and the scan go to tables with two copies of each
bucket, of which node-2 holds some. Then node-2 starts again and gets its lease.
"""

import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from bench.figures import Figure, Table, quantile, timed_ms
from leasehold.client.cluster import Cluster, connect
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import SettledHow
from leasehold.limits.units import SECOND_NS
from leasehold.local.processes import LocalCluster
from leasehold.wire.clock import BoottimeClock, sleep_ns

NODE: Final = "node-2"
NOBODY, ALONE, TOGETHER = "nobody", "the process alone", "the process and its supervisor"
SCANNED, APPENDED = "bench.scanned", "bench.appended"
AIM_MS: Final = 50.0
ROWS: Final = pa.table({"k": pa.array(range(1_000), pa.int64())})
COPIED_S: Final = 60


class Size(NamedTuple):
    """How often each question follows a kill of each kind."""

    nobody: int = 20
    alone: int = 20
    together: int = 5


SMALLEST = Size(nobody=1, alone=1, together=1)


class Bench:
    """A cluster and its client."""

    def __init__(self, local: LocalCluster, cluster: Cluster) -> None:
        self._local = local
        self._cluster = cluster
        self._round = 0
        self._settled_by_a_lease = False
        self.waited: dict[str, int] = {NOBODY: 0, ALONE: 0, TOGETHER: 0}
        """How many schema changes were settled by a lease that ended."""

    def prepare(self) -> None:
        self._cluster.sql("CREATE DATABASE bench")
        two = "TBLPROPERTIES ('replication' = '2')"
        for name in (SCANNED, APPENDED):
            self._cluster.sql(f"CREATE TABLE {name} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS {two}")
            self._cluster.table(name).append(ROWS)

    def questions(self) -> dict[str, Callable[[], object]]:
        return {"DROP TABLE": self._drop, "append": self._append, "scan": self._scan}

    def one(self, which: str, ask: Callable[[], object]) -> float:
        """How long the question took right after the kill, in ms."""
        self._round += 1
        self._cluster.sql(f"CREATE TABLE bench.gone_{self._round} (k INT)")
        self._wait_until_whole()
        process = self._local.node(NODE)
        if which == ALONE:
            process.kill_below_supervisor()
        elif which == TOGETHER:
            process.signal(signal.SIGKILL)
        took_ms = timed_ms(ask)
        if ask == self._drop:
            self.waited[which] += self._settled_by_a_lease
        if which != NOBODY:
            process.wait_until_gone()
            self._local.start(NODE)
            self._local.wait_until_active()
        return took_ms

    def _wait_until_whole(self) -> None:
        clock = BoottimeClock()
        deadline_ns = clock.now_ns() + COPIED_S * SECOND_NS
        while self._cluster.status().segments_short:
            assert clock.now_ns() < deadline_ns, "segments lack copies"
            sleep_ns(SECOND_NS // 20)

    def _drop(self) -> None:
        answer = self._cluster.sql(f"DROP TABLE bench.gone_{self._round}")
        assert isinstance(answer, Receipt)
        self._settled_by_a_lease = any(one.how is SettledHow.FENCED for one in answer.settled)

    def _append(self) -> None:
        assert self._cluster.table(APPENDED).append(ROWS) == ROWS.num_rows

    def _scan(self) -> None:
        assert self._cluster.table(SCANNED).scan().read_all().num_rows == ROWS.num_rows


def _figures(bench: Bench, size: Size) -> Iterator[Figure]:
    for which, rounds in ((NOBODY, size.nobody), (ALONE, size.alone), (TOGETHER, size.together)):
        for what, ask in bench.questions().items():
            took = [bench.one(which, ask) for _ in range(rounds)]
            waited = f"{bench.waited[which]} waited for the lease" if what == "DROP TABLE" else ""
            p99 = quantile(took, 0.99)
            yield Figure(
                what=f"first {what} after SIGKILL of {which}",
                value=f"p50 {quantile(took, 0.5):.0f} ms, p99 {p99:.0f} ms, worst {max(took):.0f} ms of {rounds}",
                peer=waited,
                aim=f"p99 at most {AIM_MS:.0f} ms" if which == ALONE else "",
                holds=p99 <= AIM_MS if which == ALONE else None,
            )


def run(smallest: bool) -> list[Table]:
    """The same questions first without a kill, then after kills of the process alone, then of both."""
    size = SMALLEST if smallest else Size()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local = LocalCluster(Path(scratch) / "cluster")
        try:
            local.up(3)
            local.wait_until_active()
            with connect(local.directory) as cluster:
                bench = Bench(local, cluster)
                bench.prepare()
                return [Table(title="After a SIGKILL of one node", figures=list(_figures(bench, size)))]
        finally:
            local.down()
