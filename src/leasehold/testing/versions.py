"""At most two versions of an object are in use: a statement begins once all earlier statements on its objects have
ended, and no node serves a state before the last change of any of them.

Judged by the claims of procedures (`core/ddl/claims.py`) and by the barriers that have proceeded.
"""

from collections.abc import Mapping
from typing import NamedTuple

from leasehold.core.words import keys
from leasehold.core.words.records import Claim, Outcome, ProcedureRecord, StatementRecord, Step
from leasehold.ids import Revision
from leasehold.testing.history import Committed


class _Change(NamedTuple):
    revision: Revision
    text: str


class Versions:
    """When each claimed name was last changed, and the statements that hide something."""

    def __init__(self) -> None:
        self._changed: dict[str, _Change] = {}
        self._hiding: dict[int, ProcedureRecord] = {}

    def take(self, news: Committed, proceeded: Revision) -> str | None:
        """Takes one revision, and the newest one for which a barrier has proceeded; says what is wrong."""
        for key, record in news.wrote.items():
            before = news.before.get(key)
            procedure = before if record is None else record
            if not isinstance(procedure, ProcedureRecord):
                continue
            wrong = self._too_early(procedure, proceeded) if before is None else None
            if wrong is not None:
                return f"{procedure.text} began at {news.revision}, {wrong}"
            if isinstance(record, ProcedureRecord) and record.step is Step.PRE_STATE:
                self._hiding[record.number] = record
            else:
                self._hiding.pop(procedure.number, None)
            if record is not None or _rolled_back(procedure, news):
                names = (name for name, claim in procedure.claims.items() if claim is Claim.EXCLUSIVE)
                self._changed.update(dict.fromkeys(names, _Change(news.revision, procedure.text)))
        return None

    def _too_early(self, one: ProcedureRecord, proceeded: Revision) -> str | None:
        for name in one.claims:
            last = self._changed.get(name)
            if last is not None and last.revision > proceeded:
                return f"{name} was last changed at {last.revision} ({last.text}), barriers proceeded to {proceeded}"
        for other in self._hiding.values():
            if _conflict(one.claims, other.claims):
                return f"while {other.text} was not past its point of no return"
        return None


def _rolled_back(procedure: ProcedureRecord, news: Committed) -> bool:
    record = news.wrote.get(keys.statement(procedure.statement))
    return isinstance(record, StatementRecord) and record.outcome is Outcome.ROLLED_BACK


def _conflict(one: Mapping[str, Claim], other: Mapping[str, Claim]) -> bool:
    return any(Claim.EXCLUSIVE in {one[name], other[name]} for name in one.keys() & other.keys())
