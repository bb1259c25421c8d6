"""Tables that were dropped, until each node that held rows of them has deleted its files."""

from collections.abc import Collection

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import StatementRecord
from leasehold.ids import NodeId, ObjectId


def cleaned(catalog: Catalog, table: ObjectId, nodes: Collection[NodeId]) -> tuple[Change, ...]:
    """These nodes hold no file of a dropped table any more, or were removed."""
    dropped = catalog.dropped.get(table)
    if dropped is None or not any(node in dropped.pending for node in nodes):
        return ()
    pending = tuple(one for one in dropped.pending if one not in nodes)
    if not pending:
        return (Change(keys.dropped(table), None),)
    return (put(keys.dropped(table), msgspec.structs.replace(dropped, pending=pending)),)


def cleaning(record: StatementRecord, catalog: Catalog) -> tuple[NodeId, ...]:
    """The nodes that have not yet deleted what they hold of the tables that a statement dropped."""
    dropped = [catalog.dropped.get(table) for table in record.dropped]
    return tuple(sorted({node for one in dropped if one is not None for node in one.pending}))
