"""ALTER CLUSTER: settings, and rebalances."""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters
from leasehold.core.ddl.settings import settings_changes
from leasehold.core.replicas import spread
from leasehold.core.words.statements import AlterCluster, Rebalance


def alter_cluster(statement: AlterCluster, catalog: Catalog, _context: Context) -> Plan | None:
    changes = settings_changes(statement.settings, catalog)
    return Plan(changes=changes, counters=counters(catalog)) if changes else None


def rebalance(statement: Rebalance, catalog: Catalog, _context: Context) -> Plan | None:
    """Buckets move behind the statement, or no more of them do (`core/replicas/spread.py`)."""
    changes = spread.stopped(catalog) if statement.stops else spread.started(catalog)
    if not changes:
        return None
    notes = ("buckets move from now on; `leasehold rebalance --wait` waits for that",)
    if statement.stops:
        is_auto = spread.is_automatic(catalog)
        notes = ("another one may begin within a minute: ALTER CLUSTER SET rebalance = 'manual'",) if is_auto else ()
    return Plan(changes=changes, counters=counters(catalog), notes=notes)
