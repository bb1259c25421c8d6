"""What people see of statements that have not ended, or not begun: SHOW PROCEDURES and the circumstances of EXPLAIN."""

from collections.abc import Iterable

from leasehold.coordinator.leasing import Leasing, Waiting
from leasehold.coordinator.running import Running
from leasehold.core.catalog import Catalog
from leasehold.core.ddl import cleaning
from leasehold.core.explain import NodeWait
from leasehold.core.history import node_name, node_names
from leasehold.core.messages import Rows, WaitingFor
from leasehold.core.records import StatementRecord, Step
from leasehold.ids import NodeId, Revision, StatementId
from leasehold.limits.units import MILLISECOND_NS

COLUMNS = ("procedure", "statement", "user", "text", "state")


def procedure_rows(running: Iterable[Running], leasing: Leasing, catalog: Catalog) -> Rows:
    """The statements that have not ended, in the order in which they came, then the drops whose files still go."""
    shown = [one for one in running if not one.closing]
    rows: list[tuple[str | int | None, ...]] = [
        (one.number, one.id, one.user, one.text, _state(one, leasing, catalog)) for one in shown
    ]
    ids = {one.id for one in shown}
    rows.extend(
        (one.order, one.id, one.user, one.text, _cleaning(cleaning(one, catalog), catalog))
        for one in _drops(catalog)
        if one.id not in ids
    )
    return Rows(columns=COLUMNS, rows=tuple(rows), revision=catalog.revision)


def _drops(catalog: Catalog) -> list[StatementRecord]:
    """The statements that dropped what nodes still hold files of, oldest first."""
    if not len(catalog.dropped):
        return []
    found = (one for one in catalog.statements.values() if any(table in catalog.dropped for table in one.dropped))
    return sorted(found, key=lambda one: one.order)


def _cleaning(nodes: tuple[NodeId, ...], catalog: Catalog) -> str:
    return f"deleting files on {len(nodes)} nodes: {node_names(nodes, catalog)}"


def _state(running: Running, leasing: Leasing, catalog: Catalog) -> str:
    waiting = running.waiting(leasing)
    if waiting is not None:
        nodes = node_names(waiting.nodes, catalog)
        return f"waiting for {nodes}, at most {waiting.at_most_ns // MILLISECOND_NS} ms"
    if running.past_return:
        return "past its point of no return"
    if running.number is not None:
        procedure = catalog.procedures.get(running.number)
        hides = procedure is not None and procedure.step is Step.PRE_STATE
        return "before its point of no return" if hides else "committed"
    return "queued" if running.began_ns is None else "being planned"


def waiting_for(running: Running, leasing: Leasing, catalog: Catalog) -> WaitingFor | None:
    """The progress of a statement; None while it waits for no node."""
    waiting = running.waiting(leasing)
    return None if waiting is None else told_of(waiting, running.id, catalog)


def told_of(waiting: Waiting, statement: StatementId, catalog: Catalog) -> WaitingFor:
    """The same as a message."""
    names = tuple(node_name(node, catalog) for node in waiting.nodes)
    return WaitingFor(statement_id=statement, nodes=names, at_most_ns=waiting.at_most_ns)


def unsettled(
    revision: Revision, nodes: Iterable[NodeId], leasing: Leasing, catalog: Catalog, now_ns: int
) -> tuple[NodeWait, ...]:
    """The nodes that may still serve what is older than `revision`."""
    if revision <= leasing.settled:
        return ()
    behind = [one for one in nodes if (held := leasing.grantor.held(one)) and (held.applied or 0) < revision]
    return tuple(one for one in node_waits(behind, leasing, catalog, now_ns) if one.at_most_ns)


def node_waits(nodes: Iterable[NodeId], leasing: Leasing, catalog: Catalog, now_ns: int) -> tuple[NodeWait, ...]:
    """How long a barrier that began now would wait for each node that could hold it up."""
    waits: list[NodeWait] = []
    for node in sorted(nodes):
        held = leasing.grantor.held(node)
        if held is not None:
            at_most_ns = 0 if held.closed is not None else max(0, held.bound_ns - now_ns)
            waits.append(NodeWait(name=node_names((node,), catalog), at_most_ns=at_most_ns))
    return tuple(waits)
