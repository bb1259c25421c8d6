"""The real part: clusters of processes, one after the other, broken at random while clients use them."""

import contextlib
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from leasehold.cli.output import note
from leasehold.errors import LeaseholdError
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.netns.remote import Failed, Remote
from tests.soak.faults import EndedByItself, Faults, now_ns
from tests.soak.grounds import Ground, ground

CLUSTER_SECONDS = 150
"""So long one cluster is broken: then a new one is made, so that a soak of hours needs no more disk or memory."""
BROKEN_SECONDS_MIN = 10
CHECK_SECONDS = 25
"""About what it takes to mend a cluster and to check it."""
STOP_TRIES = 3
STALL_SECONDS = 0.02
STALLED_NS = 150 * MILLISECOND_NS
"""A statement's bound has 400 ms for all scheduling: a machine that lets nobody run for so long explains one missed."""
STALLS_MAX = 1_000


class Real(msgspec.Struct, kw_only=True):
    """What has been done so far."""

    seeds: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    late_on_a_stalled_machine: int = 0
    violations: list[str] = []

    @property
    def steps(self) -> int:
        """What clients and faults did."""
        return sum(self.faults.values()) + sum(self.counts[one] for one in ("statements", "appends", "scans"))

    def line(self) -> str:
        """For people, while it runs."""
        return (
            f"real: {self.seeds} clusters, {self.steps} steps, {sum(self.faults.values())} faults, "
            f"{self.counts['statements']} statements, {self.counts['batches']} batches checked, "
            f"{len(self.violations)} violations"
        )


class Stalls(threading.Thread):
    """Notes when this machine did not let a thread run that had just to wake up."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._seen: list[tuple[int, int]] = []

    def run(self) -> None:
        while True:
            before_ns = now_ns()
            time.sleep(STALL_SECONDS)
            after_ns = now_ns()
            if after_ns - before_ns > STALLED_NS:
                self._seen = [*self._seen[-STALLS_MAX:], (before_ns, after_ns)]

    def between(self, from_ns: int, to_ns: int) -> bool:
        return any(before_ns < to_ns and after_ns > from_ns for before_ns, after_ns in self._seen)


class Violated(Exception):
    """What does not hold, each in a line."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)
        self.lines = lines


def soak(real: Real, seed: int, until_ns: int, scratch: Path, over: Callable[[], bool]) -> None:
    """Cluster after cluster until `until_ns`, or until `over`, or until one violates something: then its directory is
    left where it is, and `real.violations` says what and where."""
    stalls = Stalls()
    stalls.start()
    while not over() and (real.seeds == 0 or until_ns - now_ns() > (BROKEN_SECONDS_MIN + CHECK_SECONDS) * SECOND_NS):
        directory = scratch / f"cluster-{seed}"
        one = ground(directory, meta=(None, "etcd", None, "zookeeper")[seed % 4])
        end_ns = min(now_ns() + CLUSTER_SECONDS * SECOND_NS, until_ns - CHECK_SECONDS * SECOND_NS)
        real.seeds += 1
        try:
            _one_cluster(one, real, seed, end_ns, over, stalls)
        except (KeyboardInterrupt, SystemExit):
            shutil.rmtree(directory, ignore_errors=True)
            raise
        except Violated as violated:
            real.violations += [
                *violated.lines,
                f"seed {seed}: {one.logs}; {directory}/journal, {directory}/account.json",
            ]
            return
        shutil.rmtree(directory)
        seed += 1


def _one_cluster(one: Ground, real: Real, seed: int, end_ns: int, over: Callable[[], bool], stalls: Stalls) -> None:
    random = Random(seed)
    with contextlib.ExitStack() as stack:
        faults: Faults | None = None
        clients: Remote | None = None
        try:
            stack.enter_context(one)
            words = ("tests.soak.clients", one.address(), str(one.directory), str(random.getrandbits(64)))
            clients = Remote(one.client(), *words)
            stack.callback(clients.close)
            clients.call("begin")
            faults = Faults(one, random, one.directory / "journal", clients)
            _break(faults, clients, real, max(end_ns, now_ns() + BROKEN_SECONDS_MIN * SECOND_NS), over)
            faults.heal()
            one.wait_until_active()
            _stop(clients)
            faults.answers_again()
            clients.call("wait_until_whole")
            _judge(clients.call("check"), faults, real, stalls)
        except Violated:
            _write_down(one, clients)
            raise
        except (AssertionError, EndedByItself, Failed, LeaseholdError, OSError) as error:
            _write_down(one, clients)
            raise Violated(f"{type(error).__name__}: {error}") from error
        finally:
            if faults is not None:
                real.faults.update(faults.counts)
                real.counts.update(faults.lost)
            if clients is not None:
                with contextlib.suppress(Failed, AssertionError, OSError):
                    real.counts.update(clients.call("tally")["counts"])


def _break(faults: Faults, clients: Remote, real: Real, end_ns: int, over: Callable[[], bool]) -> None:
    """Fault after fault; ends early with the first violation that a client sees."""
    said_ns = now_ns()
    while now_ns() < end_ns and not over():
        faults.next()
        if faults.disturbing and clients.call("answers"):
            faults.answers_again()
        if now_ns() - said_ns > 10 * SECOND_NS:
            said_ns = now_ns()
            tally = clients.call("tally")
            if tally["violations"]:
                raise Violated(*tally["violations"])
            note(f"{real.line()}; the last one so far: {sum(faults.counts.values())} faults, {_said(tally)}")


def _said(tally: dict[str, Any]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(tally["counts"].items()) if what != "numbers")


def _stop(clients: Remote) -> None:
    """Whatever the clients still wait for has an answer once all is mended."""
    for _ in range(STOP_TRIES):
        if clients.call("stop") == 0:
            return
    raise Violated("liveness: clients still wait, though everything serves again")


def _judge(checked: dict[str, Any], faults: Faults, real: Real, stalls: Stalls) -> None:
    violations = list(checked["violations"])
    for late in checked["late"]:
        from_ns, to_ns = late["asked_ns"], late["answered_ns"]
        if any(began_ns < to_ns and ended_ns > from_ns for began_ns, ended_ns in faults.disturbed):
            continue  # by design a change of leader takes longer
        if stalls.between(from_ns, to_ns):
            real.late_on_a_stalled_machine += 1
            continue
        took = f"{late['elapsed_ns'] // MILLISECOND_NS} ms, its bound is {late['bound_ns'] // MILLISECOND_NS} ms"
        violations.append(f"INV-DDL-1: {late['text']} ({late['id']}) took {took}")
    if violations:
        raise Violated(*violations)


def _write_down(one: Ground, clients: Remote | None) -> None:
    """What the clients had asked and heard, beside the logs."""
    if clients is None:
        return
    with contextlib.suppress(Failed, AssertionError, OSError):
        (one.directory / "account.json").write_text(json.dumps(clients.call("account"), indent=1))
