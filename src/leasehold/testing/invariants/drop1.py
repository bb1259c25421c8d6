"""INV-DROP-1: nothing is deleted from disk before the point of no return, which follows the barrier of its pre-state.

Of the store: a table, database or column goes only from its pre-state, by the procedure that had put it there, and at
the instant of that commit no live lease shows a view older than the pre-state. Of the disks: a finished segment file
leaves one only when the store's history, as it is by then, lets that node delete it (`History.may_go`): its table is
past the point of no return, its write has ended without it, the manifest no longer assigns it there; or it was
damaged.
"""

from typing import Final

from leasehold.core.records import DatabaseRecord, Field, ProcedureRecord, Step, TableRecord, UseState
from leasehold.ids import ObjectId
from leasehold.testing.history import Committed
from leasehold.testing.news import Crossed, Removed
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, Crossed, Removed})


def check(oracle: Oracle) -> str | None:
    """Commits that take something away, points of no return, files that went."""
    for news in oracle.of(Committed):
        wrong = _taken_away(news)
        if wrong is not None:
            return f"revision {news.revision}: {wrong}"
    for crossed in oracle.of(Crossed):
        if crossed.behind:
            return (
                f"{crossed.what} is past its point of no return at {crossed.revision}, but {', '.join(crossed.behind)}"
                f" can serve a view older than its pre-state at {crossed.pre_state}"
            )
    for one in oracle.of(Removed):
        if not one.damaged and not oracle.history.may_go(one.newest, one.table, one.bucket, one.segment, one.node):
            return f"segment {one.segment} of table {one.table} left {one.host}: nothing in the store lets it go"
    return None


def _taken_away(news: Committed) -> str | None:
    crossing = {
        one.target
        for key, one in news.before.items()
        if isinstance(one, ProcedureRecord) and one.step is Step.PRE_STATE and news.wrote[key] != one
    }
    for key, before in news.before.items():
        if not isinstance(before, TableRecord | DatabaseRecord):
            continue
        after = news.wrote[key]
        if after is None:
            wrong = _gone(before, before.id, crossing)
        elif isinstance(before, TableRecord) and isinstance(after, TableRecord):
            left = {field.id for field in after.fields}
            lost = (field for field in before.fields if field.id not in left)
            wrong = next((why for why in (_gone(field, before.id, crossing) for field in lost) if why), None)
        else:
            wrong = None
        if wrong is not None:
            return wrong
    return None


def _gone(what: TableRecord | DatabaseRecord | Field, target: ObjectId, crossing: set[ObjectId]) -> str | None:
    kind = type(what).__name__.removesuffix("Record").lower()
    if what.state is not UseState.PRE_DELETE:
        return f"{kind} {what.name} went while it was {what.state}"
    if target not in crossing:
        return f"{kind} {what.name} went without a procedure that had hidden it"
    return None
