"""Look-ups that take long: a coordinator computes them on a thread, users in turn (`coordinator/user_turns.py`)."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.reads import walked
from leasehold.core.questions.catalog import add_up_to_many
from leasehold.core.questions.lookups import LookUp
from leasehold.core.words.messages import AskReceipts, AskTable, AskView, PlanChanges, PlanQuery, PlanScan
from leasehold.core.words.records import TableRecord, ViewRecord
from leasehold.core.words.statements import TableName
from leasehold.ids import BucketNumber
from leasehold.limits.statements import QUERY_TABLES_MAX


def takes_long(request: LookUp, catalog: Catalog) -> bool:
    """Whether an answer looks at what all segments say, or names more than INLINE_EFFORT_MAX views, columns, buckets
    and segments: not on the loop that grants leases."""
    match request:
        case PlanChanges():
            return True
        case PlanScan():
            is_long = request.rewrite or request.replaces or request.grouped
            is_long = is_long or bool(request.where) or request.follows is not None
            return is_long or add_up_to_many(_named((request.name,), catalog, _segments))
        case AskTable(name=name):
            return add_up_to_many(_named((name,), catalog, _buckets))
        case AskView(name=name):
            return add_up_to_many(_named((name,), catalog, lambda *_: ()))
        case PlanQuery(names=names):
            whole = _named(names[:QUERY_TABLES_MAX], catalog, _segments)
            return add_up_to_many(chain(whole, _like_unknown(names[:QUERY_TABLES_MAX], catalog)))
        case AskReceipts():
            return False
        case _:
            assert_never(request)


def _named(
    names: tuple[str, ...], catalog: Catalog, more: Callable[[TableRecord, Catalog], Iterable[int]]
) -> Iterator[int]:
    """The views that an answer about these names is read through, with their columns, and its tables with theirs, and
    `more` of each table."""
    found = (_find(name, catalog) for name in names)
    for one in walked(filter(None, found), catalog):
        if isinstance(one, ViewRecord):
            yield 1 + len(one.columns)
            yield from (len(need.fields) for need in one.needs)
            continue
        yield len(one.fields)
        yield from more(one, catalog)


def _buckets(table: TableRecord, _: Catalog) -> Iterable[int]:
    """What the facts of a table name."""
    return (table.buckets,)


def _segments(table: TableRecord, catalog: Catalog) -> Iterable[int]:
    """What a plan names: the buckets too."""
    return (1 + catalog.segments.count((table.id, BucketNumber(number))) for number in range(table.buckets))


def _like_unknown(names: tuple[str, ...], catalog: Catalog) -> Iterator[int]:
    """The names among which `relation_named` looks for one that is like the first unknown name."""
    for name in names:
        if _find(name, catalog) is None:
            database = catalog.find_database(name.partition(".")[0])
            yield len(catalog.databases if database is None else catalog.relation_names.get(database.id, ()))
            return


def _find(name: str, catalog: Catalog) -> TableRecord | ViewRecord | None:
    qualified = TableName(*name.partition(".")[::2])
    return catalog.find_table(qualified) or catalog.find_view(qualified)
