"""The oracle: sees the whole world at once, in real time, and remembers what no single process knows.

The world tells it what happened; the invariants (`testing/invariants`) read it after every step. It keeps the
receipts of barriers and the records of serves too, so that the rule of `leasehold verify` is held against every run.
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from leasehold.core.audit import ServeRecord, StaleServe, StaleServeRule
from leasehold.core.grantor import GrantorEffect, Held
from leasehold.core.lease import NO_LEASE, Pass
from leasehold.core.messages import Grant, Renewal, Surrender
from leasehold.core.records import BarrierReceipt
from leasehold.errors import CheckFailed
from leasehold.ids import ObjectId, Revision, Term
from leasehold.testing.actors import Coordinator, GuardRun, NodeProcess, View

TRACE_LINES_MAX: Final = 400
SERVES_KEPT_MAX: Final = 100_000
RECEIPTS_KEPT_MAX: Final = 10_000


class InvariantViolated(CheckFailed):
    """An invariant did not hold after a step of a simulated world."""

    default_code = "INVARIANT_VIOLATED"

    def __init__(self, invariant: str, what: str, *, seed: int | None, step: int, trace: Iterable[str]) -> None:
        where = f"step {step}" if seed is None else f"seed {seed}, step {step}"
        repeat = "run the scenario again" if seed is None else f"run(seed={seed}, steps={step + 1}) repeats it exactly"
        super().__init__(f"{invariant} violated at {where}: {what}\n" + "\n".join(trace), hint=repeat)
        self.invariant = invariant
        self.seed = seed
        self.step = step


# ---------------------------------------------------------------- what the last step brought


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A leader gave a grant for this renewal; `due_floor` is the floor it owed, by the oracle's own count."""

    coordinator: Coordinator
    renewal: Renewal
    grant: Grant
    due_floor: Revision


class Proceeded(msgspec.Struct, frozen=True, kw_only=True):
    """A leader let a barrier proceed."""

    coordinator: Coordinator
    receipt: BarrierReceipt


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A guard let a batch pass."""

    run: GuardRun
    outcome: Pass[View]


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A leader took a message of a node; what it knew of the node's lease before and after, and what it did."""

    message: Renewal | Surrender
    before: Held | None
    after: Held | None
    effects: tuple[GrantorEffect, ...]


News = Granted | Proceeded | Passed | Heard


class Oracle:
    """What is true in the world now, and what has ever been promised."""

    def __init__(self, coordinators: list[Coordinator], processes: list[NodeProcess]) -> None:
        self.coordinators = coordinators
        self.processes = processes
        """Those that are alive, paused ones too."""
        self.real_ns = 0
        self.step = 0
        self.newest_term = Term(0)
        self.proceeded = Revision(0)
        """The newest revision for which a barrier has proceeded."""
        self.returned = Revision(0)
        """The newest change whose statement has returned to its client."""
        self.news: list[News] = []
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.serves: deque[ServeRecord] = deque(maxlen=SERVES_KEPT_MAX)
        self.receipts: deque[BarrierReceipt] = deque(maxlen=RECEIPTS_KEPT_MAX)
        self._digest = hashlib.sha256()

    def note(self, line: str) -> None:
        """Adds a line to the trace: step, real time, what was done."""
        whole = f"{self.step:>6} {self.real_ns / 1e9:>12.6f}s {line}"
        self.trace.append(whole)
        self._digest.update(whole.encode())

    def digest(self) -> str:
        """Of all trace lines so far, those no longer kept too."""
        return self._digest.hexdigest()

    def saw(self, news: News) -> None:
        """Takes what happened; the invariants see it until the next step begins."""
        self.news.append(news)
        match news:
            case Proceeded(receipt=receipt):
                self.receipts.append(receipt)
                self.proceeded = max(self.proceeded, receipt.revision)
                self.returned = max(self.returned, receipt.revision)
            case Passed(run=run, outcome=outcome):
                self.serves.append(_serve_record(run.process, outcome, len(self.serves)))
            case Granted() | Heard():
                pass

    def leased(self) -> list[NodeProcess]:
        """The processes whose lease has not ended in real time: each could pass a guard now."""
        return [one for one in self.processes if one.lease is not NO_LEASE and self.real_ns < one.lease_ends_ns()]

    def audit(self) -> tuple[StaleServe, ...]:
        """Every serve kept that the rule of `leasehold verify` calls stale."""
        rule = StaleServeRule(self.receipts)
        judged = (rule.judge(serve) for serve in self.serves)
        return tuple(one for one in judged if one is not None)


def _serve_record(process: NodeProcess, outcome: Pass[View], number: int) -> ServeRecord:
    return ServeRecord(
        node=process.node,
        incarnation=process.incarnation,
        request=str(number),
        table=ObjectId(1),
        view=outcome.view.revision,
        term=outcome.lease.term,
        sequence=outcome.lease.sequence,
        deadline_ns=outcome.lease.deadline_ns,
        released_ns=outcome.released_ns,
    )
