"""The first schema change, append and scan after a fault of one node: killed, paused, or cut off from everybody.

Four nodes, and one client on another host with open connections. In a round node-1 meets a fault, and the client asks
at once. The schema change is a DROP TABLE, so it needs every node. The append and the scan go to tables with two copies
of each bucket, of which node-1 holds some. Then the fault ends, and the next round begins once the node has a lease and
all copies, with a new client: this one remembers which nodes were away.
Cutting a node off takes network namespaces, and so root; without them those rows say why.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from tests.netns.remote import Remote, wait_until
from tests.soak.grounds import Ground, ground, wait_until_ended, why_no_network

from bench.faults import NODE
from bench.figures import Figure, Table, quantile
from bench.outages import CUTS
from leasehold.core.words.messages import ClusterStatus, Receipt
from leasehold.core.words.records import SettledHow
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock

DRIVER = "tests.netns.driver"
NOTHING = "no fault"
ALONE, TOGETHER = "SIGKILL of the process alone", "SIGKILL of the process and its supervisor"
PAUSED, CUT = "SIGSTOP of the process and its supervisor", "a network cut from everybody"
CHANGE, APPEND, SCAN = QUESTIONS = ("DROP TABLE", "append", "scan")
SCANNED, APPENDED = "bench.scanned", "bench.appended"
ALONE_AIM_MS: Final = 50.0
WRITES_ALONE_AIM_MS: Final = 100.0
OUT_AIM_MS: Final = (LEASE_DURATION_NS + SECOND_NS) / MILLISECOND_NS
"""Where nobody can tell that the node has ended: its lease has to end."""
ROWS: Final = {"k": list(range(1_000))}
WARM: Final = 3
"""How often a client appends and scans before its round."""
COPIED_S: Final = 60.0


class Size(NamedTuple):
    """How often each question follows each fault, and which ones follow a fault at all. An append always does."""

    nothing: int = 20
    alone: int = 20
    out: int = 5
    questions: tuple[str, ...] = QUESTIONS


SMALLEST = Size(nothing=1, alone=1, out=1, questions=(APPEND,))


class Asked(NamedTuple):
    """One question right after a fault."""

    took_ms: float
    since_fault_ms: float
    """Until its answer."""
    is_fenced: bool
    """Whether a schema change waited for a lease to end."""


class Bench:
    """A cluster that is whole before each round."""

    def __init__(self, one: Ground) -> None:
        self._ground = one
        self._client = Remote(one.client(), DRIVER)
        self._is_used = False
        """Whether the client has met a fault."""
        self._round = 0

    def prepare(self) -> None:
        self._sql("CREATE DATABASE bench")
        for name in (SCANNED, APPENDED):
            columns = f"{name} (k BIGINT) CLUSTERED BY (k) INTO 6 BUCKETS"
            self._sql(f"CREATE TABLE {columns} TBLPROPERTIES ('replication' = '2')")
        self._ask("append", table=SCANNED, rows=ROWS)

    def close(self) -> None:
        self._client.close()

    def one(self, fault: str, question: str) -> Asked:
        """Asks the question once the fault is there, and ends the fault."""
        self._round += 1
        self._take_a_client()
        self._ground.wait_until_active()
        self._sql(f"CREATE TABLE bench.gone_{self._round} (k INT)")
        wait_until(self._is_whole, said=lambda: "segments lack copies", seconds=COPIED_S)
        for _ in range(WARM):
            self._question(APPEND)
            self._question(SCAN)
        self._break(fault)
        broken_ns = BoottimeClock().now_ns()
        timed = self._question(question)
        self._mend(fault)
        self._is_used = fault != NOTHING
        return Asked(
            took_ms=(timed["ended_ns"] - timed["began_ns"]) / MILLISECOND_NS,
            since_fault_ms=(timed["ended_ns"] - broken_ns) / MILLISECOND_NS,
            is_fenced=question == CHANGE and _is_fenced(timed["answer"]["answer"]),
        )

    def _take_a_client(self) -> None:
        if self._is_used:
            self._client.close()
            self._client = Remote(self._ground.client(), DRIVER)

    def _ask(self, what: str, **words: Any) -> dict[str, Any]:
        return self._client.call("timed", what=what, target=self._ground.address(), **words)

    def _sql(self, text: str) -> dict[str, Any]:
        return self._ask("sql", text=text, statement=secrets.token_hex(16))

    def _is_whole(self) -> bool:
        return not msgspec.convert(self._ask("status")["answer"], ClusterStatus).segments_short

    def _question(self, question: str) -> dict[str, Any]:
        if question == CHANGE:
            return self._sql(f"DROP TABLE bench.gone_{self._round}")
        if question == APPEND:
            timed = self._ask("append", table=APPENDED, rows=ROWS)
            assert timed["answer"] == len(ROWS["k"])
        else:
            timed = self._ask("rows", table=SCANNED)
            assert sorted(timed["answer"]["k"]) == ROWS["k"]
        return timed

    def _break(self, fault: str) -> None:
        if fault == ALONE:
            self._ground.kill_below_supervisor(NODE, waits=False)
        elif fault == TOGETHER:
            self._ground.kill(NODE, waits=False)
        elif fault == PAUSED:
            self._ground.pause(NODE)
        elif fault == CUT:
            assert self._ground.hosts is not None
            # The way to the coordinator comes last: from then on the lease runs out.
            for sender, receiver in reversed(CUTS["cut off from everybody"]):
                self._ground.hosts.cut(sender, receiver)

    def _mend(self, fault: str) -> None:
        if fault in {ALONE, TOGETHER}:
            wait_until_ended(self._ground, NODE)
            self._ground.kill(NODE)  # what is left of it
            self._ground.start(NODE)
        elif fault == PAUSED:
            self._ground.resume(NODE)
        elif fault == CUT:
            assert self._ground.hosts is not None
            self._ground.hosts.heal()


def _is_fenced(answer: Any) -> bool:
    return any(one.how is SettledHow.FENCED for one in msgspec.convert(answer, Receipt).settled)


def figures(ask: Callable[[str, str], Asked], size: Size, why_no_cut: str = "") -> Iterator[Figure]:
    """One for each fault and question, then the time without accepted writes after each fault. `ask` is `Bench.one`;
    `why_no_cut` says why the network can't be cut, if that is so."""
    rounds = {NOTHING: size.nothing, ALONE: size.alone, TOGETHER: size.out, PAUSED: size.out, CUT: size.out}
    kinds = [(fault, one) for fault in rounds for one in (QUESTIONS if fault == NOTHING else size.questions)]
    asked: dict[tuple[str, str], list[Asked]] = {kind: [] for kind in kinds}
    # In turn, so that a machine whose speed drifts does not matter.
    for number in range(max(rounds.values())):
        for fault, question in kinds:
            if number < rounds[fault] and not (fault == CUT and why_no_cut):
                asked[fault, question].append(ask(fault, question))
    for fault, question in kinds:
        what = f"first {question} after {fault}"
        found = asked[fault, question]
        yield _first(what, fault, found, is_change=question == CHANGE) if found else Figure(what=what, value=why_no_cut)
    for fault in list(rounds)[1:]:
        what = f"time without accepted writes after {fault}"
        found = asked[fault, APPEND]
        yield _without_writes(what, fault, found) if found else Figure(what=what, value=why_no_cut)


def _first(what: str, fault: str, asked: list[Asked], *, is_change: bool) -> Figure:
    took = [one.took_ms for one in asked]
    p99, worst = quantile(took, 0.99), max(took)
    figure = Figure(
        what=what,
        value=f"p50 {quantile(took, 0.5):.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms of {len(asked)}",
        peer=f"{sum(one.is_fenced for one in asked)} waited for the lease" if is_change else "",
    )
    if fault == ALONE:
        _judge(figure, "p99", p99, ALONE_AIM_MS)
    elif fault != NOTHING:
        _judge(figure, "worst", worst, OUT_AIM_MS)
    return figure


def _without_writes(what: str, fault: str, asked: list[Asked]) -> Figure:
    worst = max(one.since_fault_ms for one in asked)
    figure = Figure(what=what, value=f"worst {worst:.0f} ms of {len(asked)}")
    _judge(figure, "worst", worst, WRITES_ALONE_AIM_MS if fault == ALONE else OUT_AIM_MS)
    return figure


def _judge(figure: Figure, which: str, found_ms: float, aim_ms: float) -> None:
    figure.ratio = f"{found_ms / aim_ms:.2f}"
    figure.aim = f"{which} at most {aim_ms:.0f} ms"
    figure.holds = found_ms <= aim_ms


def run(smallest: bool) -> list[Table]:
    """The same questions without a fault and after each fault."""
    size = SMALLEST if smallest else Size()
    with (
        tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch,
        ground(Path(scratch) / "cluster") as one,
        closing(Bench(one)) as bench,
    ):
        bench.prepare()
        found = list(figures(bench.one, size, why_no_network()))
        return [Table(title="After a fault of one node of four", figures=found)]
