"""INV-OPEN-1: no file is opened under a sub-lease at or after its deadline, and none is granted on a view older than a
statement that had returned.

A sub-lease must not outlast the lease under which it was granted. What that is for is checked too: when a task opens a
file, the newest change that has returned, or on which the open was granted, still lets that login read that table with
these columns, and no newer DELETE takes rows of it.
"""

from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.records import TableRecord, UseState
from leasehold.testing.catalog import Model
from leasehold.testing.history import Committed
from leasehold.testing.invariants.right1 import denied
from leasehold.testing.local_news import LocallyOpened, SubLeased
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, SubLeased, LocallyOpened})


def check(oracle: Oracle) -> str | None:
    model = oracle.recall(Model)
    model.follow(oracle.of(Committed))
    for held in oracle.of(SubLeased):
        if held.until_ns > held.deadline_ns:
            return f"a sub-lease of {held.node} ends {held.until_ns - held.deadline_ns} ns after the lease"
        if held.revision < held.returned:
            return f"{held.node} granted an open on view {held.revision}, {held.returned} had returned before"
    for opened in oracle.of(LocallyOpened):
        wrong = _wrong(oracle, opened, model)
        if wrong is not None:
            return f"a task opened a file of {opened.node} {wrong}, and revision {opened.returned} had returned before"
    return None


def _wrong(oracle: Oracle, opened: LocallyOpened, model: Model) -> str | None:
    if opened.at_ns >= opened.deadline_ns:
        return f"{opened.at_ns - opened.deadline_ns} ns after the deadline"
    revision = max(opened.returned, opened.granted)
    problem = denied(oracle, revision, opened.table, (), opened.login, model.at(revision))
    if problem is not None:
        return problem
    table = oracle.history.record_at(revision, keys.table(opened.table))
    assert isinstance(table, TableRecord)
    alive = {one.id for one in table.fields if one.state is UseState.IN_USE}
    hidden = {one.id for one in table.fields} - alive
    if hidden & set(opened.fields):
        return "with a column that was dropped"
    newer = range(opened.deletes + 1, table.deletes + 1)
    if any(oracle.history.record_at(revision, keys.delete(table.id, number)) is not None for number in newer):
        return "with rows that were deleted"
    return None
