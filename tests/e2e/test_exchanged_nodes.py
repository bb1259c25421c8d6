"""Statements while a node is killed, removed, and comes back as another one, again and again, as real processes.

Each receipt keeps its bound. What a statement waits for before that, its receipt tells; the worst ones are logged.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.words.messages import Receipt, Rows, WaitingFor
from leasehold.core.words.records import SettledHow, Waited
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock
from tests.e2e.cluster import RunningCluster
from tests.e2e.nodes import Node
from tests.e2e.waiting import wait_until

log = logging.getLogger(__name__)

pytestmark = pytest.mark.processes

ROUNDS = 1
PAUSE_S = 0.05
"""Between two turns of a client: that they come without a pause proves no more, and keeps the machine busy."""
WORST = 5
OWN = ("d.own", "d.other")
SHARED = "d.shared"
ROWS = pa.table({"a": pa.array(range(100), pa.int64())})


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A statement as its client saw it."""

    took_ns: int
    receipt: Receipt
    held_up: tuple[str, ...]
    """The nodes that its client was told of while it waited."""

    def __str__(self) -> str:
        waited = self.receipt.waited or Waited()
        parts = {
            "took": self.took_ns,
            "queued": waited.queued_ns,
            "settling": waited.settling_ns,
            "elapsed": self.receipt.elapsed_ns,
            "of": self.receipt.bound_ns,
        }
        times = ", ".join(f"{name} {nanoseconds // MILLISECOND_NS} ms" for name, nanoseconds in parts.items())
        settled = {one.node: (one.how.value, one.after_ns // MILLISECOND_NS) for one in self.receipt.settled}
        return f"{self.receipt.text}: {times}; held up by {self.held_up}; settled {settled}"


def run(cluster: Cluster, text: str, on_wait: Callable[[WaitingFor], None] = lambda _: None) -> Heard:
    clock, held_up = BoottimeClock(), set[str]()

    def waits(waiting: WaitingFor) -> None:
        held_up.update(waiting.nodes)
        on_wait(waiting)

    began_ns = clock.now_ns()
    receipt = cluster.sql(text, on_wait=waits)
    assert isinstance(receipt, Receipt)
    return Heard(took_ns=clock.now_ns() - began_ns, receipt=receipt, held_up=tuple(sorted(held_up)))


class Load:
    """Clients that change the catalog, each on a table of its own and all on one, and perhaps one that appends."""

    def __init__(self, running: RunningCluster, *, appends: bool) -> None:
        self.heard: list[Heard] = []
        self.errors: list[Exception] = []
        self._running = running
        self._stop = threading.Event()
        clients = [threading.Thread(target=self._change, args=(name,)) for name in OWN]
        self._threads = [*clients, *([threading.Thread(target=self._append)] if appends else [])]

    @contextmanager
    def going_on(self) -> Generator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _change(self, own: str) -> None:
        texts = (
            f"CREATE TABLE {own} (a BIGINT) TBLPROPERTIES ('replication' = '3')",
            f"ALTER TABLE {own} ADD COLUMN b INT",
            f"CREATE TABLE IF NOT EXISTS {SHARED} (a BIGINT)",
            f"DROP TABLE {own}",
            f"DROP TABLE IF EXISTS {SHARED}",
        )
        try:
            with self._running.connect() as cluster:
                while not self._stop.wait(PAUSE_S):
                    self.heard.extend(run(cluster, text) for text in texts)
        except Exception as error:  # noqa: BLE001 a thread's failure is the test's
            self.errors.append(error)

    def _append(self) -> None:
        try:
            with self._running.connect() as cluster:
                while not self._stop.wait(PAUSE_S):
                    assert cluster.table("d.rows").append(ROWS) == ROWS.num_rows
        except Exception as error:  # noqa: BLE001 as above
            self.errors.append(error)


@pytest.mark.parametrize(
    "min_in_sync",
    [
        pytest.param(None, id="without writes", marks=pytest.mark.long),
        pytest.param(2, id="while two nodes have to hold each write"),
    ],
)
def test_statements_keep_their_bound_while_a_node_is_exchanged_again_and_again(
    tmp_path: Path, min_in_sync: int | None
) -> None:
    with RunningCluster.start(tmp_path / "cluster", nodes=3) as running, ExitStack() as started:

        def exchanged(number: int) -> Node:
            """A process in an empty directory, under the one name."""
            node = started.enter_context(Node(tmp_path / f"exchanged-{number}", running, name="exchanged"))
            return node.start().serves()

        with running.connect() as cluster:
            cluster.sql("CREATE DATABASE d")
            cluster.sql("CREATE TABLE d.rows (a BIGINT) TBLPROPERTIES ('replication' = '3')")
            if min_in_sync is not None:
                cluster.sql(f"ALTER CLUSTER SET min_in_sync = {min_in_sync}")
        load = Load(running, appends=min_in_sync is not None)
        node = exchanged(0)
        with load.going_on():
            for number in range(1, ROUNDS + 1):
                node.kill()
                with running.connect() as cluster:
                    cluster.remove_node("exchanged", force=True)
                node = exchanged(number)
                node.kill()  # with a lease that it has just got
                node.start().serves()
    assert not load.errors
    for one in sorted(load.heard, key=lambda one: -one.took_ns)[:WORST]:
        log.info("%s", one)
    over = [str(one) for one in load.heard if one.receipt.elapsed_ns > one.receipt.bound_ns]
    assert not over
    assert any("exchanged" in one.held_up for one in load.heard), "else nothing was tested"


def test_a_drop_behind_another_statement_waits_for_two_nodes_that_die_one_after_the_other(
    fresh: RunningCluster,
) -> None:
    """The second one dies before the lease of the first ends. The bound is of the last wait; the receipt tells both."""
    heard: dict[str, Heard] = {}
    late = threading.Event()

    def ask(text: str) -> None:
        def waits(waiting: WaitingFor) -> None:
            if waiting.at_most_ns < SECOND_NS:
                late.set()

        with fresh.connect() as cluster:
            heard[text] = run(cluster, text, waits)

    with fresh.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        cluster.sql("CREATE TABLE d.t (a BIGINT)")
        adding, dropping = "ALTER TABLE d.t ADD COLUMN b INT", "DROP TABLE d.t"
        fresh.kill("node-2")
        threads = [threading.Thread(target=ask, args=(text,)) for text in (adding, dropping)]
        threads[0].start()
        wait_until(lambda: adding in states(cluster))
        threads[1].start()
        assert late.wait(20)
        assert states(cluster).get(dropping) == "queued"
        fresh.kill("node-3")
        for thread in threads:
            thread.join()
    for one in heard.values():
        log.info("%s", one)
        assert one.receipt.elapsed_ns <= one.receipt.bound_ns
    waited, last = heard[dropping].receipt.waited, heard[dropping].receipt.settled[-1]
    assert waited is not None
    assert waited.queued_ns > 0
    assert last.how is SettledHow.FENCED
    assert waited.queued_ns + waited.settling_ns + last.after_ns <= heard[dropping].took_ns


def states(cluster: Cluster) -> dict[str, str]:
    """Of the statements that have not ended."""
    shown = cluster.sql("SHOW PROCEDURES")
    assert isinstance(shown, Rows)
    return {str(row[3]): str(row[4]) for row in shown.rows}
