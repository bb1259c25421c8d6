"""SHOW REBALANCE: the replicas that move, then those that a rebalance would move, in order."""

from typing import Final

from leasehold.core.catalog.catalog import BucketKey, Catalog
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.replicas.placement import fleet
from leasehold.core.replicas.spread import Size, Sizes, planned
from leasehold.core.words.messages import Rows
from leasehold.ids import NodeId
from leasehold.limits.membership import SPREAD_PERCENT

COLUMNS: Final = ("table", "bucket", "from", "to", "rows", "bytes", "state")
MOVING: Final = "MOVING"
PLANNED: Final = "PLANNED"


def rebalance(catalog: Catalog) -> Rows:
    """As of this catalog; a leader knows better which nodes are about to be removed, and plans without these. Walks all
    buckets."""
    sizes = Sizes().of(catalog)
    plan = planned(catalog, fleet(catalog), sizes, percent=SPREAD_PERCENT)
    moving = ((key, catalog.buckets[key].moving) for key in sorted(catalog.moving))
    rows = [_row(key, move, sizes.get(key, Size()), MOVING, catalog) for key, move in moving if move is not None]
    rows.extend(_row(one.key, (one.source, one.target), one.size, PLANNED, catalog) for one in plan)
    return rows_of(COLUMNS, rows, catalog)


def _row(key: BucketKey, move: tuple[NodeId, NodeId], size: Size, state: str, catalog: Catalog) -> Row:
    table = catalog.tables.get(key[0])
    name = str(key[0]) if table is None else str(catalog.table_name(table))
    source, target = (catalog.nodes[node].name for node in move)
    return name, key[1], source, target, size.rows, size.size_bytes, state
