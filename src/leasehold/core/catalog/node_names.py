"""The names of nodes in what people read."""

from leasehold.core.catalog.catalog import Catalog
from leasehold.ids import STRANGERS, STRANGERS_NAME, NodeId


def node_names(nodes: tuple[NodeId, ...], catalog: Catalog) -> str:
    """Nodes by name, for people."""
    return ", ".join(node_name(one, catalog) for one in nodes)


def node_name(node: NodeId, catalog: Catalog) -> str:
    """One of them; its number where it has none."""
    if node == STRANGERS:
        return STRANGERS_NAME
    return catalog.nodes[node].name if node in catalog.nodes else str(node)
