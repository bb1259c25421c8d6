"""EXPLAIN: how a statement would run on a catalog, whom it would wait for, and how long at most. Changes nothing.

| step | what it waits for |
| --- | --- |
| queue | the statements before it on the same objects, until the last change of each is settled |
| settle | nodes that may still serve what was before the last change of those objects |
| change, or hide | nobody: it is committed |
| barrier | each node whose lease has not ended, until it has applied the change |
| point of no return | nobody; only for what takes something away |
| bound | what is published for it, from there on |
"""

from typing import TypeAlias, assert_never

import msgspec

from leasehold.core.access.rights import object_named
from leasehold.core.catalog.catalog import Catalog, field_by_id
from leasehold.core.words import records
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import Hidden, ProcedureRecord
from leasehold.ids import ObjectId, Revision
from leasehold.limits.units import MILLISECOND_NS

ExplainRow: TypeAlias = tuple[str, str, str | None, int | None]
COLUMNS = ("step", "what", "waits for", "at most ms")


class NodeWait(msgspec.Struct, frozen=True, kw_only=True):
    """How long a barrier that began now would wait for a node at most; 0 for one that is settled at once."""

    name: str
    at_most_ns: int


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement would meet: the ids `ahead` of it, the nodes that it would wait for, and the published bound."""

    ahead: tuple[str, ...]
    changed: Revision
    """When what it uses was last changed; not settled yet where `settling` names nodes."""
    settling: tuple[NodeWait, ...]
    barrier: tuple[NodeWait, ...]
    bound_ns: int


def explained(procedure: ProcedureRecord | None, changes: int, met: Circumstances, catalog: Catalog) -> Rows:
    """The rows of EXPLAIN for a statement that would begin with `procedure` (None: nothing to do) and write `changes`
    records."""
    rows: list[ExplainRow] = []
    if met.ahead:
        # Each has a bound of its own, and then a barrier settles what it changed last.
        most_ns = 2 * met.bound_ns * len(met.ahead)
        what = f"{len(met.ahead)} statements on the same objects come first"
        rows.append(("queue", what, ", ".join(met.ahead), _ms(most_ns)))
    rows.extend(
        ("settle", f"it may not know of the last change, at revision {met.changed}", node.name, _ms(node.at_most_ns))
        for node in met.settling
    )
    if procedure is None:
        rows.append(("nothing", "the statement changes nothing", None, 0))
    elif procedure.hides:
        hidden = ", ".join(named(one, catalog) for one in procedure.hides)
        rows.append(("hide", f"{hidden}: hidden and refused from now on; {changes} records", None, 0))
        rows.extend(_barrier(met.barrier))
        rows.append(("point of no return", f"removed for good: {hidden}", None, 0))
    else:
        rows.append(("change", f"committed; {changes} records", None, 0))
        rows.extend(_barrier(met.barrier))
    rows.append(("bound", "when it is first and all earlier statements are settled", None, _ms(met.bound_ns)))
    return Rows(columns=COLUMNS, rows=tuple(rows), revision=catalog.revision)


def _barrier(nodes: tuple[NodeWait, ...]) -> list[ExplainRow]:
    return [
        ("barrier", "until the node has applied the change or its lease has ended", node.name, _ms(node.at_most_ns))
        if node.at_most_ns
        else ("barrier", f"{node.name} holds no lease, so it is settled at once", None, 0)
        for node in nodes
    ]


def _ms(duration_ns: int) -> int:
    return -(-duration_ns // MILLISECOND_NS)


def named(hidden: Hidden, catalog: Catalog) -> str:
    """What a statement takes away, for people."""
    match hidden:
        case records.HiddenDatabase(database=target):
            return f"database {catalog.databases[target].name}"
        case records.HiddenTable(table=target):
            return f"table {_relation(target, catalog)}"
        case records.HiddenView(view=target):
            return f"view {_relation(target, catalog)}"
        case records.HiddenColumn(table=target, field=field_id):
            field = field_by_id(catalog.tables[target], field_id)
            return f"column {field_id if field is None else field.name} of {_relation(target, catalog)}"
        case records.HiddenRows(table=target, number=number):
            return f"rows of {_relation(target, catalog)} (DELETE {number})"
        case records.ExpiredRows(table=target):
            return f"rows of {_relation(target, catalog)} that are past the new TTL"
        case records.HiddenPrincipal(principal=target):
            return f"{catalog.principals[target].kind} {catalog.principals[target].name}"
        case records.HiddenRights(principal=principal, object=target, rights=rights):
            return f"{', '.join(rights)} on {_object(target, catalog)} of {catalog.principals[principal].name}"
        case records.HiddenMembership(user=user, role=role):
            return f"role {catalog.principals[role].name} of {catalog.principals[user].name}"
        case _:
            assert_never(hidden)


def _relation(target: ObjectId, catalog: Catalog) -> str:
    found = catalog.tables.get(target) or catalog.views[target]
    return str(catalog.table_name(found))


def _object(target: ObjectId, catalog: Catalog) -> str:
    kind, name = object_named(target, catalog)
    return f"database {name}" if kind == "DATABASE" else name or "the cluster"
