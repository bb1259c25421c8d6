"""EXPLAIN: its rows for what a statement would meet, and the names of what it takes away."""

from typing import Any

import pytest

from leasehold.core import ddl
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import ResolvedView
from leasehold.core.ddl.explain import Circumstances, NodeWait, explained
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import Need, ViewColumn
from leasehold.core.words.statements import CreateView, Definition
from leasehold.ids import FieldId, Revision
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from tests.unit.coordinator.statement_cases import CASES
from tests.unit.core.catalog_words import Ground

MET = Circumstances(
    ahead=(),
    changed=Revision(7),
    settling=(),
    barrier=(NodeWait(name="n1", at_most_ns=MILLISECOND_NS + 1), NodeWait(name="n2", at_most_ns=0)),
    bound_ns=4 * SECOND_NS,
)
TAKEN_AWAY = {
    "DROP DATABASE": "database db",
    "DROP DATABASE CASCADE": "view db.v, table db.t, database db",
    "DROP TABLE": "table db.t",
    "DROP TABLE CASCADE": "view db.v, view db.w, table db.t",
    "a shorter TTL": "rows of db.t that are past the new TTL",
    "DROP COLUMN": "column b of db.t",
    "DROP VIEW": "view db.v",
    "DROP VIEW CASCADE": "view db.v, view db.w",
    "DELETE FROM": "rows of db.t (DELETE 1)",
    "DROP USER": "user u",
    "DROP ROLE": "role r",
    "REVOKE": "SELECT on db.t of u",
    "REVOKE ROLE": "role r of u",
}
BARRIER = [
    ("barrier", "until the node has applied the change or its lease has ended", "n1", 2),
    ("barrier", "n2 holds no lease, so it is settled at once", None, 0),
]
BOUND = ("bound", "when it is first and all earlier statements are settled", None, 4_000)


def context(statement: Definition, catalog: Catalog) -> dict[str, Any]:
    """As a leader finds it out; a view has column `a` of the first thing that it reads."""
    found: dict[str, Any] = {"user": "admin", "password_hash": "h", "wall_us": 10**15}
    if isinstance(statement, CreateView):
        read = catalog.find_table(statement.reads[0]) or catalog.find_view(statement.reads[0])
        assert read is not None
        need = Need(object=read.id, fields=() if read.id in catalog.views else (FieldId(1),))
        columns = (ViewColumn(name="a", type="INT"),)
        found["view"] = ResolvedView(body=statement.body, columns=columns, needs=(need,))
    return found


def rows_of(name: str, met: Circumstances = MET) -> tuple[Rows, int]:
    case = CASES[name]
    base = Ground()
    for statement in case.before:
        base.begin(statement, **context(statement, base.catalog))
    begun = ddl.begin(base.request(case.statement, **context(case.statement, base.catalog)), base.catalog)
    draft = base.catalog.changed(begun.changes)
    return explained(begun.procedure, len(begun.changes), met, draft), len(begun.changes)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.destructive])
def test_an_additive_statement_is_committed_then_waits_for_nodes(name: str) -> None:
    rows, changes = rows_of(name)
    assert rows.rows == (("change", f"committed; {changes} records", None, 0), *BARRIER, BOUND)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.destructive])
def test_a_destructive_statement_hides_then_waits_then_takes_away(name: str) -> None:
    rows, changes = rows_of(name)
    hidden = TAKEN_AWAY[name]
    assert rows.rows == (
        ("hide", f"{hidden}: hidden and refused from now on; {changes} records", None, 0),
        *BARRIER,
        ("point of no return", f"removed for good: {hidden}", None, 0),
        BOUND,
    )


def test_what_comes_before_it_is_told_first():
    met = Circumstances(
        ahead=("s1", "s2"),
        changed=Revision(7),
        settling=(NodeWait(name="n3", at_most_ns=SECOND_NS),),
        barrier=(),
        bound_ns=4 * SECOND_NS,
    )
    rows, _ = rows_of("ADD COLUMN", met)
    assert rows.rows[:2] == (
        ("queue", "2 statements on the same objects come first", "s1, s2", 16_000),
        ("settle", "it may not know of the last change, at revision 7", "n3", 1_000),
    )
