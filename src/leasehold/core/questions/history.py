"""SHOW HISTORY: the statements that changed something, as their records tell; the newest ones, up to a bound."""

from collections import Counter
from heapq import nlargest

from leasehold.core.access.rights import CLUSTER, Path, holds, path_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.node_names import node_names
from leasehold.core.replicas.dropped import cleaning
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import PrincipalRecord, Right, StatementRecord
from leasehold.core.words.statements import TableName
from leasehold.limits.statements import HISTORY_ROWS_MAX
from leasehold.limits.units import MILLISECOND_NS

COLUMNS = ("order", "revision", "user", "statement", "outcome", "elapsed_ms", "nodes", "objects", "id")


def history(catalog: Catalog, of: str | None, asking: PrincipalRecord | None) -> Rows:
    """Newest first; `of` is a name as statements claim it (`core.ddl.claims`), None for all.

    The text of a statement may show values of rows. A user without ALTER on the object sees the statements that this
    user ran, and no others.
    """
    found = (one for one in catalog.statements.values() if of is None or of in one.objects)
    if asking is not None and not holds(asking, Right.ALTER, _path(of, catalog), catalog):
        found = (one for one in found if one.user == asking.name)
    newest = nlargest(HISTORY_ROWS_MAX, found, key=lambda one: one.order)
    rows = tuple(
        (
            one.order,
            one.revision,
            one.user,
            one.text,
            one.outcome.value,
            one.elapsed_ns // MILLISECOND_NS,
            _nodes(one, catalog),
            ", ".join(one.objects),
            one.id,
        )
        for one in newest
    )
    return Rows(columns=COLUMNS, rows=rows, revision=catalog.revision)


def _path(of: str | None, catalog: Catalog) -> Path:
    """By which objects the right to see all statements about one may be held."""
    kind, _, name = (of or "").partition(" ")
    match kind:
        case "table":
            table = TableName(*name.partition(".")[::2])
            found = catalog.find_table(table) or catalog.find_view(table)
            return (CLUSTER,) if found is None else path_of(found)
        case "database":
            database = catalog.find_database(name)
            return (CLUSTER,) if database is None else (database.id, CLUSTER)
        case _:
            return (CLUSTER,)


def _nodes(record: StatementRecord, catalog: Catalog) -> str:
    """How nodes were settled, by number; those that were not, and those that still delete files, by name."""
    how = Counter(one.how.value for barrier in record.barriers[-1:] for one in barrier.settled)
    parts = [f"{count} {name}" for name, count in sorted(how.items())]
    if record.pending:
        parts.append(f"not heard of: {node_names(record.pending, catalog)}")
    cleans = cleaning(record, catalog)
    if cleans:
        parts.append(f"deleting files: {node_names(cleans, catalog)}")
    return ", ".join(parts)
