"""Schema changes with one node out: killed, paused, cut off or stuck, each against the published bound, side by side.

Cutting a node off and starving its watch take network namespaces, and so root; without it those rows say so.
"""

import secrets
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.netns.cluster import BEHIND_PROXY
from tests.netns.remote import Remote
from tests.soak.grounds import Ground, ground

from bench.figures import Figure, median, quantile
from leasehold.client.locate import COORDINATOR
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import SettledHow

TRICKLE_BYTES_PER_SECOND = 40
NODE = "node-1"
OUT = {
    "killed": NODE,
    "paused": NODE,
    "cut off both ways": NODE,
    "stuck": BEHIND_PROXY,
}
"""How a node is out, and which one it is."""
ALL_UP = "all nodes up"


class Size(NamedTuple):
    """How much is done: rounds, in each statements after the first one while the node is still out, and the faults."""

    rounds: int = 6
    following: int = 20
    out: tuple[str, ...] = tuple(OUT)


SMALLEST = Size(rounds=1, following=2, out=("killed", "stuck"))


class Timed(msgspec.Struct, kw_only=True):
    """Statements of one kind of round: by the receipt and as their client saw it, in ms, and the bound of each."""

    elapsed: list[float] = []
    seen: list[float] = []
    bound: list[float] = []

    def add(self, answer: Any) -> Receipt:
        receipt = msgspec.convert(answer["answer"], Receipt)
        self.elapsed.append(receipt.elapsed_ns / 1e6)
        self.seen.append((answer["answered_ns"] - answer["sent_ns"]) / 1e6)
        self.bound.append(receipt.bound_ns / 1e6)
        return receipt

    def shares(self, share: float) -> tuple[float, float]:
        """Of the bound, of the statement at `share` of the way through: by the receipt and as seen."""
        bound = min(self.bound)
        return quantile(self.elapsed, share) / bound, quantile(self.seen, share) / bound


class Bench:
    """A cluster, a client of it, and what was measured."""

    def __init__(self, one: Ground, client: Remote, size: Size) -> None:
        self._ground = one
        self._client = client
        self._size = size
        self.first = {fault: Timed(elapsed=[], seen=[], bound=[]) for fault in size.out}
        self.following = {fault: Timed(elapsed=[], seen=[], bound=[]) for fault in (ALL_UP, *size.out)}

    def possible(self, fault: str) -> bool:
        return fault in {ALL_UP, "killed", "paused"} or self._ground.hosts is not None

    def ask(self, text: str) -> Any:
        words = {"target": self._ground.address(), "text": text, "statement": secrets.token_hex(16)}
        return self._client.call("sql", **words)

    def statement(self, turn: int) -> str:
        """Additive and destructive in turn: a column comes and goes."""
        return f"ALTER TABLE bench.t {'DROP' if turn % 2 else 'ADD'} COLUMN c" + (" INT" if turn % 2 == 0 else "")

    def round(self, number: int) -> None:
        self._ground.wait_until_active()
        turn = number % 2
        if turn:
            self.ask(self.statement(0))
        for _ in range(self._size.following):
            self.following[ALL_UP].add(self.ask(self.statement(turn)))
            turn += 1
        for fault in self._size.out:
            if self.possible(fault):
                self._one_out(fault, OUT[fault], turn)
                turn += self._size.following + 1
        if turn % 2:
            self.ask(self.statement(turn))

    def _one_out(self, fault: str, node: str, turn: int) -> None:
        self._break(fault, node)
        answer = self.ask(self.statement(turn))
        receipt = self.first[fault].add(answer)
        fenced = [one.node for one in receipt.settled if one.how is SettledHow.FENCED]
        assert len(fenced) == 1, f"{fault}: {receipt.settled}"
        for later in range(1, self._size.following + 1):
            self.following[fault].add(self.ask(self.statement(turn + later)))
        self._mend(fault, node)
        self._ground.wait_until_active()

    def _break(self, fault: str, node: str) -> None:
        match fault:
            case "killed":
                self._ground.kill(node)
            case "paused":
                self._ground.pause(node)
            case "cut off both ways":
                assert self._ground.hosts is not None
                self._ground.hosts.cut_both_ways(COORDINATOR, node)
            case _:
                self._ground.slow("down", bytes_per_second=TRICKLE_BYTES_PER_SECOND)

    def _mend(self, fault: str, node: str) -> None:
        match fault:
            case "killed":
                self._ground.start(node)
            case "paused":
                self._ground.resume(node)
            case "cut off both ways":
                assert self._ground.hosts is not None
                self._ground.hosts.heal()
            case _:
                self._ground.slow("down")

    # ------------------------------------------------------------ what it came to

    def figures(self) -> Iterator[Figure]:
        yield _following(ALL_UP, self.following[ALL_UP])
        for fault in self._size.out:
            if not self.possible(fault):
                yield Figure(what=f"one node {fault}", value="needs root")
                continue
            yield _first(fault, self.first[fault])
            yield _following(f"one node {fault}: later ones", self.following[fault])


def _first(fault: str, timed: Timed) -> Figure:
    elapsed, seen = timed.shares(1.0)
    return Figure(
        what=f"one node {fault}: the first one",
        value=f"p50 {median(timed.elapsed):.0f} ms, worst {max(timed.elapsed):.0f} ms",
        peer=f"bound {min(timed.bound):.0f} ms",
        ratio=f"{elapsed:.3f}, seen {seen:.3f}",
        aim="at most 1.0",
        holds=max(elapsed, seen) <= 1.0,
    )


def _following(what: str, timed: Timed) -> Figure:
    elapsed, seen = timed.shares(0.99)
    return Figure(
        what=what,
        value=f"p50 {median(timed.elapsed):.1f} ms, p99 {quantile(timed.elapsed, 0.99):.1f} ms",
        peer=f"bound {min(timed.bound):.0f} ms",
        ratio=f"{elapsed:.4f}, seen {seen:.4f}",
        aim="at most 1.0",
        holds=max(elapsed, seen) <= 1.0,
    )


@contextmanager
def bench(size: Size) -> Generator[Bench]:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch, ground(Path(scratch) / "cluster") as one:
        client = Remote(one.client(), "tests.netns.driver")
        try:
            yield Bench(one, client, size)
        finally:
            client.close()


def with_one_node_out(*, smallest: bool) -> list[Figure]:
    """All of it in one run, the kinds in turn, round after round."""
    size = SMALLEST if smallest else Size()
    with bench(size) as one:
        one.ask("CREATE DATABASE bench")
        one.ask("CREATE TABLE bench.t (a INT)")
        for number in range(size.rounds):
            one.round(number)
        return list(one.figures())
