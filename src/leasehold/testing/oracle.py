"""The oracle: sees a whole simulated world at once, in real time, and remembers what no single process knows.

A world tells it the news (`testing/news.py`), and the invariants (`testing/invariants`) read it. The lease world
(`testing/leases`) checks after each of its steps. A simulated cluster (`testing/observe.py`) checks after each pass of
the event loop with news. That is enough: an invariant depends on news and on time, and time alone only ends leases, so
an invariant that holds goes on to hold until there is news. What must be judged at an instant (the leases at the commit
of a point of no return) is noted at that instant. Only `check` raises a violation, never production code.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from leasehold.core.lease.audit import ServeRecord, StaleServe, StaleServeRule
from leasehold.core.lease.holder import NO_LEASE, Pass
from leasehold.core.words.messages import Cutoff, Receipt
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import BarrierReceipt, LeaderRecord, Outcome
from leasehold.error_codes import ErrorCode
from leasehold.errors import CheckFailed, Definite, Unreachable
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision, SegmentId, StatementId, Term
from leasehold.limits.units import SECOND_NS
from leasehold.testing.disturbances import Disturbances
from leasehold.testing.history import Committed, Elected, RevisionHistory
from leasehold.testing.news import (
    Answered,
    CatalogRead,
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
    ScannedRows,
    SimulatedEvent,
    StoredSegments,
    VaultSeen,
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
        """All lines that are kept; the text shows the last ones."""
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
    """The kinds of news that it depends on: without these, a step can't break it. None if it depends on the present
    state or on time: then it is checked after each step."""


def first_wrong(found: Iterable[str | None]) -> str | None:
    """The first finding of several; None if nothing is wrong."""
    return next((one for one in found if one is not None), None)


class Oracle:
    """The state of the world, and all promises ever made. `command` reproduces the run from its seed."""

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
        """The node of each host, by its durable vault."""
        self.disks_lost = 0
        """Machines whose segments were lost on purpose."""
        self.elections: dict[Term, tuple[int, Revision]] = {}
        """The start of each term in real time, and LM then."""
        self.newest_term = Term(0)
        self.proceeded = Revision(0)
        """The newest revision for which a barrier has proceeded."""
        self.returned = Revision(0)
        """The newest change whose statement has returned to its client."""
        self.told = Revision(0)
        """The newest revision that any client knows of, by a receipt or by the answer to a question."""
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.serves: deque[ServeRecord] = deque(maxlen=SERVES_KEPT_MAX)
        self.receipts: deque[BarrierReceipt] = deque(maxlen=RECEIPTS_KEPT_MAX)
        self.disturbances = Disturbances(now_ns)
        self.on_news: Callable[[], None] = lambda: None
        """Called at the first news since the last check: a check is due."""
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
        """The hash of all trace lines so far, also of those that are not kept."""
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
        """The news of this kind since the last check, in order."""
        assert self._hears is None or kind in self._hears, f"a check reads {kind.__name__}, which it does not declare"
        return self._news.get(kind, ())

    def recall(self, kind: type[T]) -> T:
        """An invariant's own memory; the first call makes it."""
        if kind not in self._memories:
            self._memories[kind] = kind()
        return self._memories[kind]

    @property
    def anything_new(self) -> bool:
        """Whether there is news since the last check."""
        return bool(self._news)

    def check(self) -> None:
        """Ends a step: checks each invariant that it may have broken. Raises `InvariantViolated`."""
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
        """The invariants that the news may have broken."""
        told = frozenset(self._news)
        due = self._due_on.get(told)
        if due is None:
            due = tuple(one for one in self.invariants if one.hears is None or not told.isdisjoint(one.hears))
            self._due_on[told] = due
        return due

    def violation(self, invariant: str, what: str) -> InvariantViolated:
        """The error for a violation in this run."""
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
        """A process is gone, so none of its guards can pass any more."""
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
        """The store has a new revision; the oracle must get it first."""
        news = self.history.take(batch, self._now_ns())
        if news is None:
            return
        if isinstance(news, Committed):
            self._cross(news)
        self.saw(news)

    def elected(self, record: LeaderRecord) -> None:
        """A term begins in the log."""
        self.saw(self.history.elect(record))

    def _cross(self, news: Committed) -> None:
        for key, procedure in news.crossings():
            hidden_at = self.history.first_seen[key]
            behind = tuple(one.name for one in self.leased() if one.view.revision < hidden_at)
            self.saw(Crossed(revision=news.revision, what=procedure.text, pre_state=hidden_at, behind=behind))

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
        """A file was damaged on purpose: it may go, once, and is not a copy that must stay."""
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

    def answered(self, statement: StatementId, answer: "Receipt | Definite | Unreachable") -> None:
        """A client heard how a statement ended, for the first time or again, or that no coordinator took it. That its
        outcome is unknown is not told."""
        if isinstance(answer, Receipt) and answer.outcome is Outcome.COMMITTED and answer.revision is not None:
            self.returned = max(self.returned, answer.revision)
            self.told = max(self.told, answer.revision)
        told = answer if isinstance(answer, Receipt) else answer.code
        self.saw(Answered(statement=statement, answer=told, real_ns=self._now_ns()))

    def catalog_read(self, by: str, revision: Revision, floor: Revision, tables: frozenset[tuple[str, str]]) -> None:
        """A coordinator has answered which tables there are; `floor` was `told` when the client asked."""
        self.told = max(self.told, revision)
        self.saw(CatalogRead(by=by, revision=revision, floor=floor, tables=tables))

    def passed(
        self,
        process: ProcessSeen,
        outcome: Pass[Any],
        table: ObjectId = NO_TABLE,
        login: bytes | None = None,
        rows: tuple[int, ...] = (),
        through: tuple[ObjectId, ...] = (),
        *,
        segment: SegmentId | None = None,
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
                segment=segment,
            )
        )

    def handed_out(self, released: Revision, returned: Revision) -> None:
        """A client got a batch of one revision when statements up to another revision had returned to it."""
        self.saw(HandedOut(released=released, returned=returned))

    def scanned(self, table: ObjectId, revision: Revision, rows: ScannedRows, cutoff: Cutoff | None = None) -> None:
        """A scan returned rows (a Counter), or segments with numbers of rows; see `Scanned`."""
        by_segment = not isinstance(rows, Counter)
        self.saw(Scanned(table=table, revision=revision, cutoff=cutoff, rows=rows, by_segment=by_segment))


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
