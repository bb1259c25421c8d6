"""Renewals: how many a second one coordinator sustains, and what a thousand nodes at default settings cost it.

The coordinator is the production process; `bench.renewers` stands for the nodes, each with a TCP connection of its own.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import psutil

from bench.ddl import statement
from bench.figures import Figure, Table, median, quantile, spread
from bench.renewers import Joined, Phase, Seen, node_name
from bench.renewers import main as renewers
from bench.threads import JOIN_SECONDS
from leasehold.client.cluster import Cluster
from leasehold.client.locate import COORDINATOR
from leasehold.client.trust import TLS_FOLDER
from leasehold.limits.lease import RENEWAL_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.certificates import LocalCertificates
from leasehold.local.processes import LocalCluster

CPU_AIM, P99_AIM_MS, RAMP_P99_MS = 0.6, 20.0, 200.0
TLS_AIM = 0.15
"""Of one core."""


class Size(NamedTuple):
    """How much is done: nodes, seconds of a steady load and of each step of the ramp, its renewals per second."""

    nodes: int = 1_000
    steady_s: int = 20
    ramp_s: int = 5
    ramp: tuple[int, ...] = (4_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000)
    rounds: int = 3
    """Steady loads with TLS and without, in turn."""


SMALLEST = Size(nodes=3, steady_s=2, ramp_s=1, ramp=(10,), rounds=1)


class Window(msgspec.Struct, kw_only=True):
    """One phase: what the nodes saw, and what it cost in cores."""

    seen: Seen
    lasted_s: float
    coordinator: float
    renewers: float

    @property
    def rate(self) -> float:
        """Renewals answered per second."""
        return len(self.seen.trips_ns) / self.lasted_s

    def trips_ms(self) -> list[float]:
        return [one / 1e6 for one in self.seen.trips_ns]


class Bench:
    """A coordinator process, the process that stands for its nodes, and a client."""

    def __init__(
        self, coordinator: psutil.Process, nodes: psutil.Process, pipe: Pipe, cluster: Cluster, count: int
    ) -> None:
        self._processes = (coordinator, nodes)
        self._pipe = pipe
        self.cluster = cluster
        self.count = count
        used_s = _cpu_s(coordinator)
        self.joins_per_s = count * SECOND_NS / msgspec.msgpack.decode(pipe.recv_bytes(), type=Joined).lasted_ns
        self.join_cpu_ms = (_cpu_s(coordinator) - used_s) * 1_000 / count
        """Of the coordinator, for a node that registers and opens its session."""
        self.resident_mib = coordinator.memory_info().rss / 2**20

    @property
    def default_rate(self) -> float:
        """Renewals per second of all nodes at default settings."""
        return self.count * SECOND_NS / RENEWAL_INTERVAL_NS

    def phase(self, rate: float, lasts_s: int, meanwhile: Callable[[int], None] | None = None) -> Window:
        """All nodes renew, `rate` times a second together; `meanwhile` is called once a second."""
        phase = Phase(every_ns=int(self.count / rate * SECOND_NS), lasts_ns=lasts_s * SECOND_NS)
        used = [_cpu_s(one) for one in self._processes]
        began = time.perf_counter()
        self._pipe.send_bytes(msgspec.msgpack.encode(phase))
        if meanwhile is not None:
            for second in range(lasts_s - 1):
                time.sleep(max(0.0, began + second + 0.5 - time.perf_counter()))
                meanwhile(second)
        while not self._pipe.poll(1):
            assert self._processes[1].is_running(), "the renewers ended"
        lasted = time.perf_counter() - began
        cores = [(_cpu_s(one) - before) / lasted for one, before in zip(self._processes, used, strict=True)]
        seen = msgspec.msgpack.decode(self._pipe.recv_bytes(), type=Seen)
        return Window(seen=seen, lasted_s=lasted, coordinator=cores[0], renewers=cores[1])


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def many_nodes(count: int, *, tls: bool = False) -> Generator[Bench]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count * 2 + 1_000
    assert hard == resource.RLIM_INFINITY or hard >= wanted, f"{wanted} open files needed, `ulimit -Hn` says {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))  # children inherit it
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        local, certificates = LocalCluster(Path(scratch)), LocalCertificates(Path(scratch))
        certificates.settle(tls, is_new=True)
        if tls:
            certificates.issue([node_name(number) for number in range(1, count + 1)], [COORDINATOR])
        address = local.start_coordinator(None)
        coordinator = local.coordinator.worker()
        assert coordinator is not None
        try:
            with Cluster(address, tls=certificates.client) as cluster:
                cluster.initialise()
                bundles = Path(scratch) / TLS_FOLDER if tls else None
                context = multiprocessing.get_context("spawn")
                # Type checkers that think of every platform answer one of two kinds.
                here, there = cast("tuple[Pipe, Pipe]", connection.Pipe())
                process = context.Process(target=renewers, args=(there, address, count, bundles), daemon=True)
                process.start()
                there.close()  # so that reading ends when that process does
                try:
                    yield Bench(coordinator, psutil.Process(process.pid), here, cluster, count)
                finally:
                    here.close()
                    process.join(JOIN_SECONDS)
                    process.kill()
        finally:
            local.coordinator.stop()


def steady(bench: Bench, lasts_s: int) -> list[Figure]:
    """Default settings, nothing else going on."""
    window = bench.phase(bench.default_rate, lasts_s)
    return _figures(f"{bench.count:,} nodes at default settings", window, aimed=True)


def with_statements(bench: Bench, lasts_s: int) -> list[Figure]:
    """The same with a schema change each second, after which all nodes renew at once."""
    statement(bench.cluster, "CREATE DATABASE bench")
    statement(bench.cluster, "CREATE TABLE bench.t (a INT)")
    times: list[float] = []

    def alter(second: int) -> None:
        receipt = statement(bench.cluster, f"ALTER TABLE bench.t ADD COLUMN c{second} INT")
        times.append(receipt.elapsed_ns / 1e6)

    window = bench.phase(bench.default_rate, lasts_s, alter)
    assert window.seen.urgent >= bench.count, "no revision reached the nodes"
    figures = _figures("with one schema change a second", window, aimed=False)
    figures.append(Figure(what=f"a schema change, {bench.count:,} nodes up", value=spread(times, "ms", 0)))
    return figures


def _figures(what: str, window: Window, *, aimed: bool) -> list[Figure]:
    assert window.seen.broken is None, window.seen.broken
    slow = quantile(window.trips_ms(), 0.99)
    return [
        Figure(
            what=f"{what}: coordinator",
            value=f"{window.coordinator:.2f} cores at {window.rate:,.0f} renewals/s",
            peer=f"renewers {window.renewers:.2f} cores",
            aim=f"under {CPU_AIM:.2f}" if aimed else "report",
            holds=window.coordinator < CPU_AIM if aimed else None,
        ),
        Figure(
            what=f"{what}: round trip",
            value=f"{spread(window.trips_ms(), 'ms')}, p99 {slow:.2f} ms",
            peer=f"lag of renewers, p99 {quantile(window.seen.lags_ns, 0.99) / 1e6:.2f} ms",
            aim=f"p99 under {P99_AIM_MS:.0f} ms" if aimed else "report",
            holds=slow < P99_AIM_MS if aimed else None,
        ),
    ]


def most(bench: Bench, size: Size) -> Figure:
    """The highest rate of a ramp that is answered, nearly all of it and in time."""
    best: Window | None = None
    for rate in size.ramp:
        window = bench.phase(rate, size.ramp_s)
        if window.seen.broken or window.rate < 0.95 * rate or quantile(window.trips_ms(), 0.99) > RAMP_P99_MS:
            break
        best = window
    if best is None:
        return Figure(what="the most of a ramp", value=f"less than {size.ramp[0]:,} renewals/s", holds=False)
    return Figure(
        what=f"the most of a ramp with p99 under {RAMP_P99_MS:.0f} ms",
        value=f"{best.rate:,.0f} renewals/s",
        peer=f"coordinator {best.coordinator:.2f} cores, renewers {best.renewers:.2f}",
        aim="report",
    )


def beside(size: Size) -> list[Figure]:
    """Joins and renewals of nodes with TLS, beside those of as many nodes without, in turn."""
    with many_nodes(size.nodes) as plain, many_nodes(size.nodes, tls=True) as secure:
        cores: dict[Bench, list[float]] = {secure: [], plain: []}
        for number in range(size.rounds):
            for one in (secure, plain) if number % 2 else (plain, secure):
                window = one.phase(one.default_rate, size.steady_s)
                assert window.seen.broken is None, window.seen.broken
                cores[one].append(window.coordinator)
    more = median(cores[secure]) - median(cores[plain])
    texts = [
        ("joins", [f"{one.joins_per_s:,.0f} per second" for one in cores]),
        ("a join and a session, CPU of the coordinator", [f"{one.join_cpu_ms:.2f} ms" for one in cores]),
        ("memory of the coordinator", [f"{one.resident_mib:,.0f} MiB" for one in cores]),
    ]
    return [
        *(Figure(what=what, value=ours, peer=theirs, aim="report") for what, (ours, theirs) in texts),
        Figure(
            what=f"{size.nodes:,} nodes at default settings: coordinator",
            value=spread(cores[secure], "cores"),
            peer=spread(cores[plain], "cores"),
            ratio=f"{more:+.2f} cores",
            aim=f"at most {TLS_AIM:.2f} cores more",
            holds=more <= TLS_AIM,
        ),
    ]


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    with many_nodes(size.nodes) as bench:
        bench.phase(bench.default_rate, 1 if smallest else 3)
        figures = [*steady(bench, size.steady_s), *with_statements(bench, size.steady_s), most(bench, size)]
    return [
        Table(title="Renewals: one coordinator, one TCP connection per node", figures=figures),
        Table(title="Joins and renewals with TLS beside those without, in turn", figures=beside(size)),
    ]
