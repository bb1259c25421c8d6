"""INV-DDL-1: every statement ends, within the published bound, committed or rolled back, and once.

Whoever asks, and however often: a statement has one outcome at one revision, the store says the same, and a refusal
was one. No receipt's elapsed time is above its bound, but for the time in which the leader or its store was disturbed
and for 7.5 s for each change of leader meanwhile. A procedure that goes leaves a statement that has ended. (That
every statement does end once the world has healed is `liveness.py`.)
"""

from typing import Final

from leasehold.core import keys
from leasehold.core.messages import Receipt
from leasehold.core.records import Outcome, ProcedureRecord, StatementRecord
from leasehold.ids import Revision, StatementId
from leasehold.limits import SECOND_NS
from leasehold.testing.history import Committed
from leasehold.testing.news import Answered
from leasehold.testing.oracle import Oracle

LEADER_CHANGE_NS: Final = 7_500_000_000
UNRECORDED_NS: Final = 60 * SECOND_NS
"""How long before its answer a statement that wrote nothing may have run."""
NO_OUTCOME: Final = frozenset({"BUSY", "NOT_LEADER", "NOT_INITIALISED"})
"""Refusals that leave the statement to be asked for again."""

End = tuple[Outcome, Revision | None]


class Statements:
    """What clients have heard of each, and what the store says of its end."""

    def __init__(self) -> None:
        self.heard: dict[StatementId, Receipt | str] = {}
        self.ends: dict[StatementId, End] = {}


def check(oracle: Oracle) -> str | None:
    """What the store says of statements, then what clients have heard."""
    known = oracle.recall(Statements)
    for news in oracle.of(Committed):
        for one in news.written(StatementRecord):
            wrong = _recorded(known, one)
            if wrong is not None:
                return wrong
        for gone in news.deleted(ProcedureRecord):
            record = news.wrote.get(keys.statement(gone.statement))
            if not isinstance(record, StatementRecord) or record.outcome is Outcome.RUNNING:
                return f"procedure {gone.number} ({gone.text}) went at {news.revision}, its statement has not ended"
    for told in oracle.of(Answered):
        wrong = _answered(oracle, known, told)
        if wrong is not None:
            return wrong
    return None


def _recorded(known: Statements, record: StatementRecord) -> str | None:
    before, heard = known.ends.get(record.id), known.heard.get(record.id)
    if isinstance(heard, str):
        return f"{record.text} was refused ({heard}) and is {record.outcome}"
    if record.outcome is Outcome.RUNNING:
        return None if before is None else f"{record.text} had ended ({before[0]}) and runs again"
    end = (record.outcome, record.revision)
    if before is not None and not _same(before, end):
        return f"{record.text} was {_brief(before)} and is {_brief(end)}"
    if isinstance(heard, Receipt) and not _same((heard.outcome, heard.revision), end):
        return f"{record.text} was told as {_brief((heard.outcome, heard.revision))} and is {_brief(end)}"
    known.ends[record.id] = end
    return None


def _answered(oracle: Oracle, known: Statements, told: Answered) -> str | None:
    answer, before = told.answer, known.heard.get(told.statement)
    if isinstance(answer, str):
        if answer in NO_OUTCOME or (answer == "NO_STATEMENT" and _may_be_unknown(oracle, told.statement)):
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
    if earlier is not None and not _same(earlier, end):
        return f"{answer.text} was {_brief(earlier)} and is told as {_brief(end)}"
    known.heard[told.statement] = answer
    return _late(oracle, told, answer)


def _late(oracle: Oracle, told: Answered, receipt: Receipt) -> str | None:
    if receipt.elapsed_ns <= receipt.bound_ns:
        return None
    # On the slowest clock; what comes before the first transaction counts too.
    span_ns = receipt.elapsed_ns + receipt.elapsed_ns // 50
    first = oracle.history.first_seen.get(keys.statement(told.statement))
    at_ns = None if first is None else oracle.history.committed_at_ns[first]
    from_ns = told.real_ns - span_ns - UNRECORDED_NS if at_ns is None else at_ns - span_ns
    to_ns = told.real_ns if at_ns is None else min(told.real_ns, at_ns + span_ns)
    changes = sum(from_ns <= began_ns <= to_ns for began_ns, _ in oracle.elections.values())
    allowed_ns = receipt.bound_ns + changes * LEADER_CHANGE_NS + oracle.disturbed_ns(from_ns, to_ns)
    if receipt.elapsed_ns <= allowed_ns:
        return None
    return f"{receipt.text} took {receipt.elapsed_ns} ns, with {changes} changes of leader {allowed_ns} ns are allowed"


def _may_be_unknown(oracle: Oracle, statement: StatementId) -> bool:
    """Whether it never wrote anything, or ended so long ago that its record was purged."""
    return keys.statement(statement) not in oracle.history.records


def _same(before: End, after: End) -> bool:
    if before[0] is Outcome.COMMITTED_PENDING and after[0] is Outcome.COMMITTED:
        return before[1] == after[1]
    return before == after


def _brief(end: End) -> str:
    return f"{end[0]} at revision {end[1]}"
