"""A model of the catalog: a plain dictionary of what a person sees, changed by statements in the order of revisions.

It shares nothing with the plans of the production code but the parsed statements (`testing/effects.py`). A destructive
statement hides at its first revision what it takes away, and a rollback puts back exactly that; what takes effect only
past the point of no return waits for it in `late`.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from leasehold.core.words import keys
from leasehold.core.words.records import Outcome, ProcedureRecord, StatementRecord, Step
from leasehold.core.words.statements import Definition
from leasehold.ids import Revision, StatementId
from leasehold.sql.parse import parse
from leasehold.testing.catalog_rows import CatalogRows, RowKey
from leasehold.testing.effects import Effects, effects
from leasehold.testing.history import Committed

TEXTS_KEPT: Final = 10_000
parsed = lru_cache(maxsize=TEXTS_KEPT)(parse)
"""Statements on few names come again and again."""


class Model:
    """What the catalog shows, revision by revision."""

    def __init__(self) -> None:
        self.shown: dict[RowKey, Any] = {}
        self._undo: dict[StatementId, Effects] = {}
        self._late: dict[StatementId, Effects] = {}
        self._taken = Revision(0)
        self._revisions: list[Revision] = [Revision(0)]
        self._states: list[CatalogRows] = [{}]

    def follow(self, committed: Iterable[Committed]) -> str | None:
        """Takes each revision once; says what is wrong if one of them was not possible."""
        for news in committed:
            if news.revision > self._taken:
                self._taken = news.revision
                try:
                    self._take(news)
                except (AssertionError, KeyError, ValueError) as error:
                    return f"revision {news.revision} holds a statement that was not possible there: {error!r}"
        return None

    def _take(self, news: Committed) -> None:
        """Statements that end in a revision first, then those that begin, in their order."""
        records = sorted(news.written(StatementRecord), key=lambda one: one.order)
        changes: Effects = {}
        for record in records:
            if record.outcome is not Outcome.RUNNING:
                changes |= self._end(record)
        for moved in news.written(ProcedureRecord):
            if moved.step is Step.FINISHED:
                changes |= self._change(self._late.pop(moved.statement, {}))
        for record in records:
            if record.outcome is Outcome.RUNNING and keys.statement(record.id) not in news.before:
                changes |= self.begin(record.id, parsed(record.text))
        if changes:
            self._revisions.append(news.revision)
            self._states.append(dict(self.shown))

    def at(self, revision: Revision) -> CatalogRows:
        """What the catalog shows at a revision."""
        return self._states[bisect_right(self._revisions, revision) - 1]

    def begin(self, statement_id: StatementId, statement: Any) -> Effects:
        """The first transaction of a statement. Raises `AssertionError` where it could not have been accepted."""
        now, late = effects(statement, self.shown)
        self._undo[statement_id] = {key: self.shown.get(key) for key in now}
        self._late[statement_id] = late
        return self._change(now)

    def apply(self, statement_id: StatementId, statement: Definition) -> None:
        """Applies a whole statement that was committed."""
        self.begin(statement_id, statement)
        self._change(self._late.pop(statement_id))

    def _end(self, record: StatementRecord) -> Effects:
        undo = self._undo.pop(record.id, {})
        self._late.pop(record.id, None)
        return self._change(undo) if record.outcome is Outcome.ROLLED_BACK else {}

    def _change(self, changes: Effects) -> Effects:
        for key, value in changes.items():
            if value is None:
                self.shown.pop(key, None)
            else:
                self.shown[key] = value
        return changes
