"""Look-ups in one catalog, each a request of its own: a table, a view, the barriers that proceeded, a plan to read."""

from typing import TypeAlias, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.changes import plan_changes
from leasehold.core.data.facts import parse_name, table_facts, view_facts
from leasehold.core.data.scan_plan import plan_query, plan_scan
from leasehold.core.questions.receipts import receipts
from leasehold.core.words.messages import (
    AskReceipts,
    AskTable,
    AskView,
    ChangesPlan,
    PlanChanges,
    PlanQuery,
    PlanScan,
    QueryPlan,
    Receipts,
    ScanPlan,
    TableFacts,
    ViewFacts,
)

LookUp: TypeAlias = AskTable | AskView | AskReceipts | PlanScan | PlanChanges | PlanQuery
Found: TypeAlias = TableFacts | ViewFacts | Receipts | ScanPlan | ChangesPlan | QueryPlan


def looked_up(request: LookUp, catalog: Catalog) -> Found:
    """The answer; raises what `plan_scan`, `plan_changes` and `plan_query` raise, `NotFound`, `Refused` (BAD_NAME)."""
    match request:
        case AskTable():
            return facts_of(request, catalog)
        case AskView(name=name):
            return view_facts(parse_name(name), catalog)
        case AskReceipts():
            return receipts(request, catalog)
        case PlanScan() | PlanChanges() | PlanQuery():
            return plan_of(request, catalog)
        case _:
            assert_never(request)


def facts_of(request: AskTable, catalog: Catalog) -> TableFacts:
    """Raises `NotFound`, `Refused` (BAD_NAME)."""
    return table_facts(catalog.table(parse_name(request.name)), catalog)


def plan_of(request: PlanScan | PlanChanges | PlanQuery, catalog: Catalog) -> ScanPlan | ChangesPlan | QueryPlan:
    """The plan that is asked for, of the present; raises as `looked_up`."""
    match request:
        case PlanScan():
            return plan_scan(request, catalog)
        case PlanChanges():
            return plan_changes(request, catalog)
        case PlanQuery():
            return plan_query(request, catalog)
        case _:
            assert_never(request)
