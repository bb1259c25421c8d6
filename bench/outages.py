"""How long nothing is read and nothing is appended once a node is out: killed, paused, or cut off.

One client scans a table and another one appends to a table, each without a pause, while the fault comes and goes. The
time without reads is that from the last scan that ended before the one that took longest to the end of that one.
Beside each worst time stands what the machine did in the same round: how long it stood still for this process, which
does nothing but sleep, and how much of its processors other virtual machines took.
Cutting a node off takes network namespaces, and so root; without it those rows say so.
"""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from tests.netns.remote import Remote
from tests.soak.grounds import Ground, ground

from bench.faults import NODE
from bench.figures import Figure, Table, quantile
from leasehold.client.locate import COORDINATOR
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns

CLIENT = "client"
OTHERS = ("node-2", "node-3")


def _cuts() -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Who sends what nobody receives."""
    for whom, them in (("coordinator", (COORDINATOR,)), ("client", (CLIENT,)), ("other nodes", OTHERS)):
        to_it = tuple((one, NODE) for one in them)
        from_it = tuple((NODE, one) for one in them)
        yield f"cut off from the {whom}", (*to_it, *from_it)
        yield f"not heard by the {whom}", from_it
        yield f"does not hear the {whom}", to_it
    everybody = (COORDINATOR, CLIENT, *OTHERS)
    yield "cut off from everybody", tuple(pair for one in everybody for pair in ((one, NODE), (NODE, one)))


CUTS = dict(_cuts())
FAULTS = ("none", "killed", "paused", *CUTS)
AIM_MS = 500.0
STEP_NS = 5 * MILLISECOND_NS
STEAL_AND_BEFORE = 8
"""Columns of the processors' times: those after it are part of others."""
SCANNED, APPENDED = "bench.scanned", "bench.appended"


class Size(NamedTuple):
    """How often each fault comes, how long it lasts, and how long all is well before and after it."""

    rounds: int = 6
    out_s: float = 5.0
    well_s: float = 2.0


SMALLEST = Size(rounds=1, out_s=0.1, well_s=0.05)


class Gap(NamedTuple):
    """The longest time between two successes in one round, and the machine meanwhile."""

    gap_ms: float
    late_ms: float
    """How much later than asked for this process woke up, at worst."""
    stolen: float
    """Of the time of all processors, from 0 to 1."""


class Bench:
    """A cluster, its client, and the longest times between two successes, by fault."""

    def __init__(self, one: Ground, client: Remote) -> None:
        self._ground = one
        self._client = client
        self.reads: dict[str, list[Gap]] = {}
        self.appends: dict[str, list[Gap]] = {}

    def prepare(self) -> None:
        for number, text in enumerate(
            (
                "CREATE DATABASE bench",
                f"CREATE TABLE {SCANNED} (k BIGINT, v STRING) CLUSTERED BY (k) INTO 6 BUCKETS",
                f"CREATE TABLE {APPENDED} (k BIGINT, v STRING) CLUSTERED BY (k) INTO 3 BUCKETS",
            )
        ):
            self._client.call("sql", target=self._ground.address(), text=text, statement=f"{number:032x}")
        rows = {"k": list(range(10_000)), "v": [f"v{number}" for number in range(10_000)]}
        self._client.call("append", target=self._ground.address(), table=SCANNED, rows=rows)

    def round(self, size: Size) -> None:
        for fault in FAULTS:
            if fault not in CUTS or self._ground.hosts is not None:
                self._one(fault, size)

    def _one(self, fault: str, size: Size) -> None:
        self._ground.wait_until_active()
        target = self._ground.address()
        self._client.call("traffic", target=target, scanned=SCANNED, appended=APPENDED)
        sleep_ns(round(size.well_s * SECOND_NS))
        since_ns, before = BoottimeClock().now_ns(), psutil.cpu_times()
        self._break(fault)
        late_ms = _latest_ns(round(size.out_s * SECOND_NS)) / MILLISECOND_NS
        stolen = _stolen(before, psutil.cpu_times())
        until_ns = BoottimeClock().now_ns()
        self._mend(fault)
        sleep_ns(round(size.well_s * SECOND_NS))
        ended = self._client.call("traffic_ended", target=target)
        assert not ended["errors"], ended["errors"]
        for found, instants in ((self.reads, ended["reads"]), (self.appends, ended["appends"])):
            # The fault may come and go in the middle of one.
            gaps = [after - before for before, after in pairwise(instants) if after >= since_ns and before <= until_ns]
            gap_ms = max(gaps, default=until_ns - since_ns) / MILLISECOND_NS
            found.setdefault(fault, []).append(Gap(gap_ms, late_ms, stolen))

    def _break(self, fault: str) -> None:
        match fault:
            case "none":
                pass
            case "killed":
                self._ground.kill(NODE)
            case "paused":
                self._ground.pause(NODE)
            case _:
                assert self._ground.hosts is not None
                for sender, receiver in CUTS[fault]:
                    self._ground.hosts.cut(sender, receiver)

    def _mend(self, fault: str) -> None:
        match fault:
            case "none":
                pass
            case "killed":
                self._ground.start(NODE)
            case "paused":
                self._ground.resume(NODE)
            case _:
                assert self._ground.hosts is not None
                self._ground.hosts.heal()

    def figures(self) -> Iterator[Figure]:
        for what, found in (("time without reads", self.reads), ("time without writes", self.appends)):
            for fault in FAULTS:
                name = f"{what}, one node {fault}" if fault != "none" else f"{what}, all nodes up"
                yield _figure(name, found[fault]) if fault in found else Figure(what=name, value="needs root")


def _latest_ns(for_ns: int) -> int:
    """Sleeps for so long, in short steps; by how much the latest of them ended too late."""
    now_ns = BoottimeClock().now_ns
    until_ns, latest_ns = now_ns() + for_ns, 0
    while (began_ns := now_ns()) < until_ns:
        sleep_ns(STEP_NS)
        latest_ns = max(latest_ns, now_ns() - began_ns - STEP_NS)
    return latest_ns


def _stolen(before: Any, after: Any) -> float:
    """The share of the processors' time that the machine below gave to others; 0 where that is not told."""
    whole = sum(after[:STEAL_AND_BEFORE]) - sum(before[:STEAL_AND_BEFORE])
    return (getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)) / whole if whole else 0.0


def _figure(what: str, gaps: list[Gap]) -> Figure:
    worst = max(gaps)
    return Figure(
        what=what,
        value=f"p50 {quantile([one.gap_ms for one in gaps], 0.5):.0f} ms, worst {worst.gap_ms:.0f} ms",
        peer=f"stood still for {worst.late_ms:.0f} ms, {100 * worst.stolen:.0f} % stolen",
        ratio=f"{worst.gap_ms / AIM_MS:.2f}",
        aim=f"worst under {AIM_MS:.0f} ms",
        holds=worst.gap_ms < AIM_MS,
    )


def run(smallest: bool) -> list[Table]:
    """All faults in turn, round after round."""
    size = SMALLEST if smallest else Size()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch, ground(Path(scratch) / "cluster") as one:
        client = Remote(one.client(), "tests.netns.driver")
        try:
            bench = Bench(one, client)
            bench.prepare()
            for _ in range(size.rounds):
                bench.round(size)
            return [Table(title=f"Without one node: {size.rounds} times each", figures=list(bench.figures()))]
        finally:
            client.close()
