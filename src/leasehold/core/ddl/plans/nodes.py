"""ALTER NODE: a node gives up its buckets, or may have some again."""

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, put
from leasehold.core.membership.drain import check_drain
from leasehold.core.membership.removal import find_node
from leasehold.core.words import keys
from leasehold.core.words.statements import AlterNode


def alter_node(statement: AlterNode, catalog: Catalog, context: Context) -> Plan | None:
    """Its buckets move behind the statement (`core.replicas.placement`)."""
    node = find_node(statement.node, None, catalog)
    down = ""
    if statement.drains:
        down = check_drain(node, catalog, leaving=context.leaving, serving=context.serving, alone=context.alone)
    if node.draining == statement.drains:
        return None
    notes: tuple[str, ...] = ()
    if statement.drains:
        notes = (f"its buckets move from now on; `leasehold node drain {node.name} --wait` waits for that",)
        notes += (down,) if down else ()
    changed = msgspec.structs.replace(node, draining=statement.drains)
    return Plan(changes=(put(keys.node(node.id), changed),), counters=counters(catalog), notes=notes)
