"""Look-ups in one catalog, each a request of its own: a table, a view, the barriers that proceeded, a plan to read."""

from typing import TypeAlias, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.facts import parse_name, table_facts, view_facts
from leasehold.core.data.scan_plan import plan_query, plan_scan
from leasehold.core.questions.receipts import receipts
from leasehold.core.words.messages import (
    AskReceipts,
    AskTable,
    AskView,
    PlanQuery,
    PlanScan,
    QueryPlan,
    Receipts,
    ScanPlan,
    TableFacts,
    ViewFacts,
)

LookUp: TypeAlias = AskTable | AskView | AskReceipts | PlanScan | PlanQuery
Found: TypeAlias = TableFacts | ViewFacts | Receipts | ScanPlan | QueryPlan


def looked_up(request: LookUp, catalog: Catalog) -> Found:
    """The answer; raises what `plan_scan` and `plan_query` raise, `NotFound`, `Refused` (BAD_NAME)."""
    match request:
        case AskTable(name=name):
            return table_facts(catalog.table(parse_name(name)), catalog)
        case AskView(name=name):
            return view_facts(parse_name(name), catalog)
        case AskReceipts():
            return receipts(request, catalog)
        case PlanScan():
            return plan_scan(request, catalog)
        case PlanQuery():
            return plan_query(request, catalog)
        case _:
            assert_never(request)
