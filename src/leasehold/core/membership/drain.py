"""Draining: a node gives up its buckets while it serves, so that it may be stopped or removed.

Theory of operation. A statement marks the node. From then on it gets no bucket, and each of its buckets gets another
replica. Once that is in sync, the node is taken off the bucket (`core/replicas/placement.py`). The mark stays whatever
becomes of its process, until a statement takes it away or the node is removed. A drain that can't end is refused:

| what stands in the way                                       | refusal       |
| the node was removed                                         | REMOVED       |
| no other node that may have buckets has ever joined          | LAST_NODE     |
| a table wants more replicas than such nodes are left         | TOO_FEW_NODES |
| the node is away, and nobody else holds some segments        | ONLY_HOLDER   |
"""

from collections.abc import Collection, Mapping

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.removal import count_of_nodes, count_of_tables, names_of_tables, which_need_more
from leasehold.core.replicas.replication import is_short, staying
from leasehold.core.words.records import NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import NodeId, ObjectId


def check_drain(
    node: NodeRecord,
    catalog: Catalog,
    *,
    leaving: Collection[NodeId],
    serving: Collection[NodeId],
    alone: Mapping[ObjectId, int] | None,
) -> str:
    """Raises `Refused` if the node can't be emptied. `alone` has the segments by table that only this node holds, where
    it is away. Nodes that are not `serving` count too, since they may come back; says which they are."""
    if node.removed:
        raise Refused(
            f"{node.name} (id {node.id}) was removed from the cluster",
            code=ErrorCode.REMOVED,
            hint="`leasehold status` lists the nodes; a removed one has no buckets any more",
        )
    others = [one for one in staying(catalog, leaving) if one != node.id]
    down = [catalog.nodes[one].name for one in sorted(others) if one not in serving]
    are_down = f"{', '.join(down)} {'is' if len(down) == 1 else 'are'} down" if down else ""
    if not others:
        raise Refused(
            f"no node is left that could take the buckets of {node.name}",
            code=ErrorCode.LAST_NODE,
            hint="start another node first; ALTER NODE .. UNDRAIN lets a drained node have buckets again",
        )
    short = sorted(one for one in catalog.tables if is_short(one, len(others), catalog))
    if short:
        raise Refused(
            f"{count_of_nodes(len(others))} would be left for buckets{f' ({are_down})' if down else ''},"
            f" and {which_need_more(short, catalog)}",
            code=ErrorCode.TOO_FEW_NODES,
            hint="start another node first, or lower the 'replication' of these tables",
        )
    if alone:
        segments = f"{sum(alone.values())} segment{'' if sum(alone.values()) == 1 else 's'}"
        raise Refused(
            f"{node.name} is away, and it alone holds {segments} of {count_of_tables(alone)}:"
            f" {names_of_tables(alone, catalog)}",
            code=ErrorCode.ONLY_HOLDER,
            hint="start it and drain it then: without it these rows can't be read or copied",
        )
    return f"of the nodes that take its buckets {are_down}: the drain may have to wait" if down else ""
