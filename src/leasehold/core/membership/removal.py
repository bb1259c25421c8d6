"""Removal of a node: its id and token become tombstones for ever, its name is free again (I10, INV-ID-1).

Theory of operation. From the first step on the node gets no grant, so its lease runs out. Then, in one step, its
incarnation is closed and the tombstone is decided: no later commit counts on it (`core/data/commit.py`), and no process
of it is let in again (`core/membership/admission.py`). Its buckets get other replicas behind that
(`core/replicas/placement.py`).

Whoever has the machine still has the certificate of the name. So a record says since when a certificate of that name
has to be valid to count (`core/access/certified_names.py`).

A census of all tables and segments counts what stands in the way (`core/replicas/census.py`). The refusal names the
worst of it, since force gives up all of it.

| what stands in the way                                   | without force   | with force                            |
| -------------------------------------------------------- | --------------- | ------------------------------------- |
| segments that only this node is known to hold            | ONLY_HOLDER     | they are lost: SEGMENTS_LOST          |
| no other node has ever joined                            | LAST_NODE       | removed                               |
| a table wants more replicas than nodes are left          | TOO_FEW_NODES   | its buckets have fewer replicas       |
"""

from collections.abc import Collection

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.membership.topology import counted
from leasehold.core.replicas.census import Census
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import NodeRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import NodeId, ObjectId
from leasehold.limits.membership import LOST_TABLES_NAMED_MAX

_DIGITS_MAX = len(str(2**63))
"""Of a number that a node may have: a recovery makes them jump."""


def find_node(name: str, node: NodeId | None, catalog: Catalog) -> NodeRecord:
    """The node that a person means: `node` if that is given, else the one in the cluster that has the name, else the
    one with that number, else the newest removed one of that name. Raises `NotFound`."""
    if node is not None and node in catalog.nodes:
        return catalog.nodes[node]
    newest_first = sorted(catalog.nodes.values(), key=lambda one: (one.removed, -one.id))
    named = next((one for one in newest_first if one.name == name), None)
    is_number = name.isascii() and name.isdigit() and len(name) <= _DIGITS_MAX
    numbered = catalog.nodes.get(NodeId(int(name))) if is_number else None
    found = numbered if named is None or (named.removed and numbered is not None) else named
    if found is None:
        raise NotFound(f"no node {name[:80]!r} is or was in this cluster", hint="`leasehold status` lists them")
    return found


def check_allowed(found: Census, catalog: Catalog, *, force: bool) -> None:
    """Raises `Refused` for what stands in the way, the worst of it first, unless it is to be given up."""
    if not force:
        check_nothing_lost(found, catalog)
        check_enough_left(found, catalog)


def check_enough_left(found: Census, catalog: Catalog) -> None:
    """Raises `Refused` (LAST_NODE, TOO_FEW_NODES) if tables want more nodes than are left without it."""
    node = catalog.nodes[found.node]
    if node.incarnation == 0:
        return  # it has never joined: no bucket lies there
    hint = "start another node first, or use `--force` if no node shall remain"
    if found.left == 0:
        raise Refused(f"{node.name} is the last node of the cluster", code=ErrorCode.LAST_NODE, hint=hint)
    if found.short:
        raise Refused(
            f"{count_of_nodes(found.left)} would remain, and {which_need_more(sorted(found.short), catalog)}",
            code=ErrorCode.TOO_FEW_NODES,
            hint=hint,
        )


def check_nothing_lost(found: Census, catalog: Catalog) -> None:
    """Raises `Refused` (ONLY_HOLDER) if it is the only one known to hold some segments."""
    lost = found.lost_tables()
    if lost:
        record = catalog.nodes[found.node]
        segments = f"{found.lost} segment{'' if found.lost == 1 else 's'}"
        raise Refused(
            f"{record.name} is the only holder of {segments} of {count_of_tables(lost)}:"
            f" {names_of_tables(lost, catalog)}",
            code=ErrorCode.ONLY_HOLDER,
            hint="start it, and wait until other nodes have fetched them; `--force` gives these rows up forever",
        )


def tombstone(node: NodeRecord, catalog: Catalog) -> tuple[Change, ...]:
    """Its record as it stays. No session and no attempt to join is known of it any more."""
    gone = msgspec.structs.replace(
        node, removed=True, member=False, nonce=None, session_hash=None, end_hash=b"", draining=False
    )
    return (put(keys.node(node.id), gone), *((counted(catalog),) if node.member else ()))


def count_of_tables(tables: Collection[ObjectId]) -> str:
    """As `1 table`."""
    return f"{len(tables)} table{'' if len(tables) == 1 else 's'}"


def count_of_nodes(nodes: int) -> str:
    """As `1 node`."""
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def which_need_more(short: Collection[ObjectId], catalog: Catalog) -> str:
    """Of tables that want more replicas than nodes are left: as `1 table needs more replicas: d.t`."""
    needs = "needs" if len(short) == 1 else "need"
    return f"{count_of_tables(short)} {needs} more replicas: {names_of_tables(short, catalog)}"


def names_of_tables(tables: Collection[ObjectId], catalog: Catalog) -> str:
    """The first LOST_TABLES_NAMED_MAX of them."""
    shown = [_name(one, catalog) for one in list(tables)[:LOST_TABLES_NAMED_MAX]]
    more = "" if len(tables) <= LOST_TABLES_NAMED_MAX else ", .."
    return ", ".join(shown) + more


def _name(table: ObjectId, catalog: Catalog) -> str:
    record = catalog.tables.get(table)
    return f"table {table}" if record is None else str(catalog.table_name(record))
