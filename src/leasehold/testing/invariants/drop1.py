"""INV-DROP-1: nothing is deleted from disk before the point of no return, which follows the barrier of its pre-state.

Of the store: a database, table, column, view, user or role goes only from its pre-state, by the procedure that had
put it there, and at the instant of that commit no live lease shows a view older than the pre-state. Of the disks: a
finished segment file leaves one only when the store's history, as it is by then, lets that node delete it
(`History.may_go`): its table is past the point of no return, its write has ended without it, the manifest no longer
assigns it there; or it was damaged.
"""

from typing import Final, TypeAlias

from leasehold.core.words.records import (
    DatabaseRecord,
    Field,
    Hidden,
    HiddenColumn,
    HiddenDatabase,
    HiddenPrincipal,
    HiddenTable,
    HiddenView,
    PrincipalRecord,
    ProcedureRecord,
    Step,
    TableRecord,
    UseState,
    ViewRecord,
)
from leasehold.testing.history import Committed
from leasehold.testing.news import Crossed, Removed
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Committed, Crossed, Removed})

Named: TypeAlias = DatabaseRecord | TableRecord | ViewRecord | PrincipalRecord


def check(oracle: Oracle) -> str | None:
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
    crossing = [
        hidden
        for key, one in news.before.items()
        if isinstance(one, ProcedureRecord) and one.step is Step.PRE_STATE and news.wrote[key] != one
        for hidden in one.hides
    ]
    for key, before in news.before.items():
        wrong = None
        if isinstance(before, Named):
            after = news.wrote[key]
            if after is None:
                wrong = _gone(before, _hidden(before), crossing)
            elif isinstance(before, TableRecord) and isinstance(after, TableRecord):
                wrong = _lost_column(before, after, crossing)
        if wrong is not None:
            return wrong
    return None


def _lost_column(before: TableRecord, after: TableRecord, crossing: list[Hidden]) -> str | None:
    left = {field.id for field in after.fields}
    lost = (field for field in before.fields if field.id not in left)
    return first_wrong(_gone(field, HiddenColumn(table=before.id, field=field.id), crossing) for field in lost)


def _hidden(what: Named) -> Hidden:
    match what:
        case DatabaseRecord(id=number):
            return HiddenDatabase(database=number)
        case TableRecord(id=number):
            return HiddenTable(table=number)
        case ViewRecord(id=number):
            return HiddenView(view=number)
        case PrincipalRecord(id=number):
            return HiddenPrincipal(principal=number)


def _gone(what: Named | Field, hidden: Hidden, crossing: list[Hidden]) -> str | None:
    kind = type(what).__name__.removesuffix("Record").lower()
    if what.state is not UseState.PRE_DELETE:
        return f"{kind} {what.name} went while it was {what.state}"
    if hidden not in crossing:
        return f"{kind} {what.name} went without a procedure that had hidden it"
    return None
