"""INV-DDL-1: every statement ends, within the published bound, committed or rolled back, and once.

Whoever asks, and however often: a statement has one outcome at one revision, the store says the same, and a refusal
was one. Where it was rolled back, no node can serve a view any more by which it still hides something. A procedure
that goes leaves a statement that has ended; one that begins has waited for what came before it on its objects
(`testing/versions.py`). (That every statement does end once the world has healed is `liveness.py`.)

The bound is measured in real time, from the commit of a statement's first transaction until it is past its barrier in
the store, or its client was answered, and held against what the oracle reckons by itself (`testing/bounds.py`): the
leases that may be out, the changes of leader, the time in which the leader or its store was disturbed. A bound that
the code tells is not above that either, and no receipt tells more time than its bound allows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from leasehold.core.words import keys
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome, ProcedureRecord, StatementRecord, Step
from leasehold.error_codes import ErrorCode
from leasehold.ids import Revision, StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.bounds import Bounds
from leasehold.testing.history import Committed, Elected
from leasehold.testing.news import Answered
from leasehold.testing.oracle import Oracle
from leasehold.testing.versions import Versions

LEADER_CHANGE_NS: Final = 7_700_000_000
UNRECORDED_NS: Final = 60 * SECOND_NS
"""How long a statement that wrote nothing may have run before its answer."""
NO_OUTCOME: Final = frozenset({ErrorCode.BUSY, ErrorCode.NOT_LEADER, ErrorCode.NOT_INITIALISED})
"""Refusals after which the client asks for the statement again."""

DURABLE_FIRST: Final = frozenset({Outcome.ROLLED_BACK, Outcome.COMMITTED_PENDING})
"""Ends that another leader might not choose."""

End = tuple[Outcome, Revision | None]


class FirstTransaction(NamedTuple):
    """The first transaction of a statement, in real time, and the bound under one leader from there."""

    text: str
    at_ns: int
    bound_ns: int


class Statements:
    """What clients have heard of each statement, and how it ended in the store."""

    def __init__(self) -> None:
        self.heard: dict[StatementId, Receipt | str] = {}
        self.ends: dict[StatementId, End] = {}
        self.begun: dict[StatementId, FirstTransaction] = {}
        self.running: dict[StatementId, None] = {}
        """Those of `begun` that are not known to be past their barrier."""
        self.bounds = Bounds()
        self.versions = Versions()
        self.rolled_back: dict[StatementId, Revision] = {}
        """At which revision."""


def check(oracle: Oracle) -> str | None:
    known = oracle.recall(Statements)
    for news in _in_order(oracle):
        wrong = _committed(oracle, known, news) if isinstance(news, Committed) else None
        if wrong is not None:
            return wrong
        known.bounds.take(oracle, news)
    for told in oracle.of(Answered):
        wrong = _answered(oracle, known, told)
        if wrong is None and isinstance(told.answer, Receipt):
            wrong = _over(oracle, known, told.statement, told.real_ns) or _told_bound(
                known, told.statement, told.answer.bound_ns, told.real_ns
            )
        if wrong is not None:
            return wrong
    for statement in known.running:
        # Of one that has not ended nobody knows whether its leader still leads.
        wrong = _too_long(oracle, known, statement, oracle.real_ns, may_change=True)
        if wrong is not None:
            return wrong
    return None


def _in_order(oracle: Oracle) -> "Sequence[Committed | Elected]":
    """Revisions and elections in their order: a term begins after the revision that was LM then."""
    committed, elected = oracle.of(Committed), oracle.of(Elected)
    if not elected:
        return committed
    told: list[tuple[int, int, Committed | Elected]] = [(one.revision, 0, one) for one in committed]
    told.extend((one.newest, 1, one) for one in elected)
    return [news for _, _, news in sorted(told, key=lambda each: each[:2])]


def _committed(oracle: Oracle, known: Statements, news: Committed) -> str | None:
    for one in news.written(StatementRecord):
        wrong = _recorded(known, one)
        if one.outcome is Outcome.ROLLED_BACK:
            known.rolled_back.setdefault(one.id, news.revision)
        if wrong is None and one.outcome is Outcome.RUNNING and one.id not in known.begun:
            bound_ns = known.bounds.under_one_leader_ns(oracle, news.real_ns)
            if bound_ns is not None:
                known.begun[one.id] = FirstTransaction(one.text, news.real_ns, bound_ns)
                known.running[one.id] = None
        elif wrong is None and one.outcome is not Outcome.RUNNING:
            wrong = _over(oracle, known, one.id, news.real_ns)
        wrong = wrong or _told_bound(known, one.id, one.bound_ns, news.real_ns)
        if wrong is not None:
            return wrong
    for moved in news.written(ProcedureRecord):
        if moved.step is Step.FINISHED:
            wrong = _over(oracle, known, moved.statement, news.real_ns)
            if wrong is not None:
                return wrong
    for gone in news.deleted(ProcedureRecord):
        record = news.wrote.get(keys.statement(gone.statement))
        if not isinstance(record, StatementRecord) or record.outcome is Outcome.RUNNING:
            return f"procedure {gone.number} ({gone.text}) went at {news.revision}, its statement has not ended"
    return known.versions.take(news, oracle.proceeded)


def _over(oracle: Oracle, known: Statements, statement: StatementId, at_ns: int) -> str | None:
    """Checks a statement that is past its barrier, or whose client knows that."""
    if statement not in known.running:
        return None
    del known.running[statement]
    return _too_long(oracle, known, statement, at_ns)


def _too_long(
    oracle: Oracle, known: Statements, statement: StatementId, at_ns: int, *, may_change: bool = False
) -> str | None:
    text, began_ns, bound_ns = known.begun[statement]
    took_ns = at_ns - began_ns
    if took_ns <= bound_ns:
        return None
    more_ns = known.bounds.next_change_ns() if may_change else 0
    allowed_ns = known.bounds.allowed_ns(oracle, bound_ns, began_ns, at_ns) + more_ns
    if took_ns <= allowed_ns:
        return None
    return f"{text} runs for {took_ns} ns of real time, its bound is {bound_ns} ns, {allowed_ns} ns are allowed"


def _told_bound(known: Statements, statement: StatementId, told_ns: int, at_ns: int) -> str | None:
    begun = known.begun.get(statement)
    if begun is None:
        return None
    most_ns = known.bounds.told_at_most_ns(begun.bound_ns, begun.at_ns, at_ns)
    if told_ns <= most_ns:
        return None
    return f"{begun.text} was told a bound of {told_ns} ns, the leases that could be out make it {most_ns} ns"


def _recorded(known: Statements, record: StatementRecord) -> str | None:
    before, heard = known.ends.get(record.id), known.heard.get(record.id)
    if isinstance(heard, str):
        return f"{record.text} was refused ({heard}) and is {record.outcome}"
    if record.outcome is Outcome.RUNNING:
        return None if before is None else f"{record.text} had ended ({before[0]}) and runs again"
    end = (record.outcome, record.revision)
    if before is not None and before != end:
        return f"{record.text} was {_brief(before)} and is {_brief(end)}"
    if isinstance(heard, Receipt) and (heard.outcome, heard.revision) != end:
        return f"{record.text} was told as {_brief((heard.outcome, heard.revision))} and is {_brief(end)}"
    known.ends[record.id] = end
    return None


def _answered(oracle: Oracle, known: Statements, told: Answered) -> str | None:
    answer, before = told.answer, known.heard.get(told.statement)
    if isinstance(answer, str):
        if answer in NO_OUTCOME or (answer == ErrorCode.NO_STATEMENT and _may_be_unknown(oracle, told.statement)):
            return None
        if isinstance(before, Receipt) or told.statement in known.ends:
            return f"statement {told.statement} had ended and is refused now ({answer})"
        known.heard[told.statement] = answer
        return None
    end = (answer.outcome, answer.revision)
    if isinstance(before, str):
        return f"{answer.text} was refused ({before}) and is told as {_brief(end)}"
    earlier = known.ends.get(told.statement)
    if isinstance(before, Receipt):
        earlier = (before.outcome, before.revision)
    if earlier is not None and earlier != end:
        return f"{answer.text} was {_brief(earlier)} and is told as {_brief(end)}"
    if earlier is None and answer.outcome in DURABLE_FIRST:
        return f"{answer.text} is told as {_brief(end)} before the store says so: another leader could go on with it"
    back = known.rolled_back.get(told.statement)
    behind = [] if back is None else [one.name for one in oracle.leased() if one.view.revision < back]
    if behind:
        return f"{answer.text} is told as {_brief(end)}, but {', '.join(behind)} can serve what it had hidden at {back}"
    known.heard[told.statement] = answer
    return _late(oracle, told, answer, back)


def _late(oracle: Oracle, told: Answered, receipt: Receipt, back: Revision | None) -> str | None:
    if receipt.elapsed_ns <= receipt.bound_ns:
        return None
    # On the slowest clock; what comes before the first transaction counts too.
    span_ns = receipt.elapsed_ns + receipt.elapsed_ns // 50
    first = oracle.history.first_seen.get(keys.statement(told.statement))
    at_ns = None if first is None else oracle.history.committed_at_ns[first]
    from_ns = told.real_ns - span_ns - UNRECORDED_NS if at_ns is None else at_ns - span_ns
    to_ns = told.real_ns
    if back is not None:
        to_ns = oracle.history.committed_at_ns[back]
    elif at_ns is not None and not receipt.leader_changes:  # a later leader counts from when it has taken it up
        to_ns = min(to_ns, at_ns + span_ns)
    changes = sum(from_ns <= began_ns <= to_ns for began_ns, _ in oracle.elections.values())
    allowed_ns = receipt.bound_ns + changes * LEADER_CHANGE_NS + oracle.disturbances.lasted_ns(from_ns, to_ns)
    if receipt.elapsed_ns <= allowed_ns:
        return None
    return f"{receipt.text} took {receipt.elapsed_ns} ns, with {changes} changes of leader {allowed_ns} ns are allowed"


def _may_be_unknown(oracle: Oracle, statement: StatementId) -> bool:
    """Whether it never wrote anything, or ended so long ago that its record was purged."""
    return keys.statement(statement) not in oracle.history.records


def _brief(end: End) -> str:
    return f"{end[0]} at revision {end[1]}"
