"""The oracle: sees a whole simulated world at once, in real time, and remembers what no single process knows.

A world tells it what happens (`testing/news.py`), the invariants (`testing/invariants`) read it. It serves two
worlds: the lease world (`testing/leases`) checks after each of its steps; the simulated cluster, through
`testing/observe.py`, after each pass of the event loop in which anything was told. That is as good as after every
step: an invariant depends on what was told and on time, and time passing alone only ends leases, so what held goes on
to hold until something is told. What must be judged at the very instant (who held a lease when a point of no return
was committed) is noted at that instant. A violation is raised only by `check`, never out of production code.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from leasehold.core.lease.audit import ServeRecord, StaleServe, StaleServeRule
from leasehold.core.lease.holder import NO_LEASE, Pass
from leasehold.core.words import keys
from leasehold.core.words.messages import Cutoff, Receipt
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import BarrierReceipt, Outcome, ProcedureRecord, StatementRecord, Step
from leasehold.error_codes import ErrorCode
from leasehold.errors import CheckFailed, Definite
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId, StatementId, Term, TransactionId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.disturbances import Disturbances
from leasehold.testing.history import Committed, Elected, RevisionHistory
from leasehold.testing.news import (
    Answered,
    Crossed,
    Damaged,
    DisksShrank,
    HandedOut,
    LeaderSeen,
    LeaseView,
    Passed,
    Proceeded,
    ProcessSeen,
    Removed,
    Scanned,
    SimulatedEvent,
    StoredSegments,
    VaultSeen,
    Wrote,
)

TRACE_LINES_MAX: Final = 400
TRACE_LINES_SHOWN: Final = 60
SERVES_KEPT_MAX: Final = 100_000
RECEIPTS_KEPT_MAX: Final = 10_000
LEADERS_KEPT_MAX: Final = 8
NO_TABLE: Final = ObjectId(0)
"""Of a guard that no request asked for."""

T = TypeVar("T")


class InvariantViolated(CheckFailed):
    """An invariant did not hold after a step of a simulated world. The hint is the command that reproduces it."""

    default_code = ErrorCode("INVARIANT_VIOLATED")

    def __init__(
        self,
        invariant: str,
        what: str,
        *,
        seed: int | None,
        step: int,
        real_ns: int,
        trace: Iterable[str],
        command: str | None,
    ) -> None:
        where = f"step {step}, {real_ns / SECOND_NS:.6f} s"
        where = where if seed is None else f"seed {seed}, {where}"
        self.trace = tuple(trace)
        """All of it that is kept; the text shows its end."""
        text = "\n".join((f"{invariant} violated at {where}: {what}", *self.trace[-TRACE_LINES_SHOWN:]))
        super().__init__(text, hint=command or "run the scenario again")
        self.invariant = invariant
        self.what = what
        self.seed = seed
        self.step = step
        self.real_ns = real_ns


class Invariant(NamedTuple):
    """A named check: what is wrong, or None."""

    id: str
    check: "Callable[[Oracle], str | None]"
    hears: frozenset[type] | None = None
    """The kinds of news that it depends on: a step that tells none of them can't break it. None where it depends on
    what is true now, or on time: then it is checked after each step."""


class Oracle:
    """What is true in the world now, and what has ever been promised. `command` reproduces the run from its seed."""

    def __init__(
        self,
        invariants: tuple[Invariant, ...],
        *,
        now_ns: Callable[[], int],
        seed: int | None = None,
        command: str | None = None,
    ) -> None:
        self.invariants = invariants
        self.seed = seed
        self.command = command
        self.step = 0
        self.history = RevisionHistory()
        self.processes: dict[str, ProcessSeen] = {}
        """Those that are alive, paused ones too, by name."""
        self.leaders: dict[Term, LeaderSeen] = {}
        self.vaults: dict[str, VaultSeen] = {}
        self.disks: dict[str, StoredSegments] = {}
        self.nodes: dict[str, NodeId] = {}
        """Which node's vault a host holds, as far as it is durable."""
        self.disks_lost = 0
        """Machines whose segments were lost on purpose."""
        self.elections: dict[Term, tuple[int, Revision]] = {}
        """When each term began in real time, and LM then."""
        self.newest_term = Term(0)
        self.proceeded = Revision(0)
        """The newest revision for which a barrier has proceeded."""
        self.returned = Revision(0)
        """The newest change whose statement has returned to its client."""
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.serves: deque[ServeRecord] = deque(maxlen=SERVES_KEPT_MAX)
        self.receipts: deque[BarrierReceipt] = deque(maxlen=RECEIPTS_KEPT_MAX)
        self.disturbances = Disturbances(now_ns)
        self.on_news: Callable[[], None] = lambda: None
        """Called with the first thing told since the last check: a check is due."""
        self._now_ns = now_ns
        self._news: dict[type, list[Any]] = {}
        self._due_on: dict[frozenset[type], tuple[Invariant, ...]] = {}
        """By the kinds that were told together."""
        self._hears: frozenset[type] | None = None
        """Of the invariant that is being checked."""
        self._memories: dict[type, Any] = {}
        self._damaged: set[tuple[str, SegmentId]] = set()
        self._leased: list[ProcessSeen] | None = None
        """While a check runs: several invariants ask for the same."""
        self._digest = hashlib.sha256()
        self._served = 0

    @property
    def real_ns(self) -> int:
        """Real time, which no process can read."""
        return self._now_ns()

    # ------------------------------------------------------------ the trace

    def note(self, line: str) -> None:
        """Adds a line to the trace: step, real time, what was done."""
        whole = f"{self.step:>6} {self._now_ns() / SECOND_NS:>12.6f}s {line}"
        self.trace.append(whole)
        self._digest.update(whole.encode())

    def digest(self) -> str:
        """Of all trace lines so far, those no longer kept too."""
        return self._digest.hexdigest()

    # ------------------------------------------------------------ checking

    def saw(self, news: SimulatedEvent) -> None:
        """Takes what happened; the invariants see it at the next check."""
        if not self._news:
            self.on_news()
        self._news.setdefault(type(news), []).append(news)
        match news:
            case Proceeded(receipt=receipt):
                self.receipts.append(receipt)
                self.proceeded = max(self.proceeded, receipt.revision)
            case Passed(process=process, outcome=outcome, table=table):
                self._served += 1
                self.serves.append(_serve_record(process, outcome, table, self._served))
            case Elected(term=term, newest=newest, holder=holder):
                self.disturbances.leads(holder)
                self.newest_term = max(self.newest_term, term)
                self.elections[term] = (self._now_ns(), newest)
            case _:
                pass

    def of(self, kind: type[T]) -> Sequence[T]:
        """What was told of this kind since the last check, in order."""
        assert self._hears is None or kind in self._hears, f"a check reads {kind.__name__}, which it does not declare"
        return self._news.get(kind, ())

    def recall(self, kind: type[T]) -> T:
        """An invariant's own memory, made empty when it is first asked for."""
        if kind not in self._memories:
            self._memories[kind] = kind()
        return self._memories[kind]

    @property
    def anything_new(self) -> bool:
        """Whether anything was told since the last check."""
        return bool(self._news)

    def check(self) -> None:
        """Ends a step: every invariant that it may have broken is held against what is true now. Raises
        `InvariantViolated`."""
        self._leased = self._live()
        for invariant in self._due():
            self._hears = invariant.hears
            wrong = invariant.check(self)
            if wrong is not None:
                raise self.violation(invariant.id, wrong)
        self._hears = self._leased = None
        self._news.clear()
        self.step += 1

    def _due(self) -> tuple[Invariant, ...]:
        """Those that what was told may have broken."""
        told = frozenset(self._news)
        due = self._due_on.get(told)
        if due is None:
            due = tuple(one for one in self.invariants if one.hears is None or not told.isdisjoint(one.hears))
            self._due_on[told] = due
        return due

    def violation(self, invariant: str, what: str) -> InvariantViolated:
        """The failure of this run, to be raised."""
        return InvariantViolated(
            invariant,
            what,
            seed=self.seed,
            step=self.step,
            real_ns=self._now_ns(),
            trace=self.trace,
            command=self.command,
        )

    def leased(self) -> list[ProcessSeen]:
        """The processes whose lease has not ended in real time: each could pass a guard now."""
        return self._live() if self._leased is None else self._leased

    def _live(self) -> list[ProcessSeen]:
        now_ns = self._now_ns()
        return [one for one in self.processes.values() if one.lease is not NO_LEASE and now_ns < one.lease_ends_ns()]

    def audit(self) -> tuple[StaleServe, ...]:
        """Every serve kept that the rule of `leasehold verify` calls stale."""
        rule = StaleServeRule(self.receipts)
        judged = (rule.judge(serve) for serve in self.serves)
        return tuple(one for one in judged if one is not None)

    # ------------------------------------------------------------ who is there

    def began(self, process: ProcessSeen) -> None:
        """A process of a node starts, in place of an older one of the same name."""
        self.processes[process.name] = process

    def ended(self, process: ProcessSeen) -> None:
        """It is gone: nothing it holds can pass a guard any more."""
        if self.processes.get(process.name) is process:
            del self.processes[process.name]

    def leads(self, leader: LeaderSeen) -> None:
        """A coordinator has made the grantor of its term."""
        self.leaders[leader.term] = leader
        while len(self.leaders) > LEADERS_KEPT_MAX:
            del self.leaders[min(self.leaders)]

    def retired(self, term: Term) -> None:
        """The coordinator that led a term has forgotten what it knew."""
        self.leaders.pop(term, None)

    # ------------------------------------------------------------ the store

    def committed(self, batch: RevisionChanges) -> None:
        """The store has a new revision, of whatever keys: to be told before anyone else hears of it."""
        news = self.history.take(batch, self._now_ns())
        if news is None:
            return
        if isinstance(news, Committed):
            self._cross(news)
        self.saw(news)

    def _cross(self, news: Committed) -> None:
        for key, after in news.wrote.items():
            before = news.before.get(key)
            if not isinstance(before, ProcedureRecord) or before.step is not Step.PRE_STATE:
                continue
            if isinstance(after, ProcedureRecord) and after.step is Step.PRE_STATE:
                continue
            if after is None and not _goes_forward(before, news):
                continue  # rolled back
            hidden_at = self.history.first_seen[key]
            behind = tuple(one.name for one in self.leased() if one.view.revision < hidden_at)
            self.saw(Crossed(revision=news.revision, what=before.text, pre_state=hidden_at, behind=behind))

    # ------------------------------------------------------------ disks

    def removed(self, host: str, table: ObjectId, bucket: BucketNumber, segment: SegmentId) -> None:
        """A segment file leaves a host's disk."""
        vault = self.vaults.get(host)
        spot = (host, segment)
        self.saw(
            Removed(
                host=host,
                node=self.nodes.get(host, NodeId(0)),
                table=table,
                bucket=bucket,
                segment=segment,
                durable=Revision(0) if vault is None else vault.durable.applied,
                newest=self.history.newest,
                damaged=spot in self._damaged,
            )
        )
        self._damaged.discard(spot)

    def damaged(self, host: str, segment: SegmentId) -> None:
        """A file was damaged on purpose: it may go, once, and counts for no copy that has to stay."""
        self._damaged.add((host, segment))
        self.saw(Damaged(host=host, segment=segment))

    def disk_lost(self, host: str) -> None:
        """A machine's segments were lost on purpose."""
        self.disks_lost += 1
        self.saw(DisksShrank(host=host))

    def machine_crashed(self, host: str) -> None:
        """A machine lost what was not synced."""
        self.saw(DisksShrank(host=host))

    # ------------------------------------------------------------ clients

    def answered(self, statement: StatementId, answer: "Receipt | Definite") -> None:
        """A client heard how a statement ended, for the first time or again. An indefinite error is not told."""
        if isinstance(answer, Receipt) and answer.outcome is Outcome.COMMITTED and answer.revision is not None:
            self.returned = max(self.returned, answer.revision)
        told = answer if isinstance(answer, Receipt) else answer.code
        self.saw(Answered(statement=statement, answer=told, real_ns=self._now_ns()))

    def passed(
        self,
        process: ProcessSeen,
        outcome: Pass[Any],
        table: ObjectId = NO_TABLE,
        login: bytes | None = None,
        rows: tuple[int, ...] = (),
        through: tuple[ObjectId, ...] = (),
    ) -> None:
        """A guard that ran at this instant, from its first reading to its last, let a batch of a table pass."""
        self.saw(
            Passed(
                process=process,
                outcome=outcome,
                returned=self.returned,
                proceeded=self.proceeded,
                table=table,
                login=login,
                rows=rows,
                through=through,
            )
        )

    def wrote(self, transaction: TransactionId, table: ObjectId, rows: "Counter[str]") -> None:
        """A client is about to commit these rows under a write transaction."""
        self.saw(Wrote(transaction=transaction, table=table, rows=rows))

    def handed_out(self, released: Revision, returned: Revision) -> None:
        """A client was handed a batch, released on one revision when statements up to another had returned to it."""
        self.saw(HandedOut(released=released, returned=returned))

    def scanned(
        self,
        table: ObjectId,
        revision: Revision,
        rows: "Counter[str] | Mapping[SegmentId, int]",
        cutoff: Cutoff | None = None,
    ) -> None:
        """A scan planned at `revision` returned these rows (a Counter), or segments with so many rows each; without a
        cutoff, what was gone at that revision was left out."""
        by_segment = not isinstance(rows, Counter)
        self.saw(Scanned(table=table, revision=revision, cutoff=cutoff, rows=rows, by_segment=by_segment))


def _goes_forward(procedure: ProcedureRecord, news: Committed) -> bool:
    """Whether a procedure that ends with this revision takes what it had hidden away for good, or puts it back."""
    record = news.wrote.get(keys.statement(procedure.statement))
    return not isinstance(record, StatementRecord) or record.outcome is not Outcome.ROLLED_BACK


def _serve_record(process: ProcessSeen, outcome: Pass[LeaseView], table: ObjectId, number: int) -> ServeRecord:
    return ServeRecord(
        node=process.node,
        incarnation=process.incarnation,
        request=str(number),
        table=table,
        view=outcome.view.revision,
        term=outcome.lease.term,
        sequence=outcome.lease.sequence,
        deadline_ns=outcome.lease.deadline_ns,
        released_ns=outcome.released_ns,
    )
