"""What people see of statements before they end: their progress, SHOW PROCEDURES, and EXPLAIN."""

from collections.abc import Iterable

from leasehold.coordinator.nodes.leases import Leasing, Waiting
from leasehold.coordinator.statements.unfinished import LiveStatement
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.node_names import node_name, node_names
from leasehold.core.ddl.explain import NodeWait
from leasehold.core.questions.procedures import RunningStatement
from leasehold.core.words.messages import WaitingFor
from leasehold.ids import NodeId, Revision, StatementId


def shown(running: Iterable[LiveStatement], leasing: Leasing) -> list[RunningStatement]:
    """What SHOW PROCEDURES tells of statements, without those that are answered and only being closed."""
    return [_known(one, one.waiting(leasing)) for one in running if not one.run.is_closing]


def _known(running: LiveStatement, waiting: Waiting | None) -> RunningStatement:
    return RunningStatement(
        id=running.id,
        number=running.run.number,
        user=running.origin.user,
        text=running.origin.text,
        has_begun=running.run.has_begun,
        waits_for=None if waiting is None else waiting.nodes,
        waits_ns=0 if waiting is None else waiting.at_most_ns,
    )


def waiting_for(running: LiveStatement, leasing: Leasing, catalog: Catalog) -> WaitingFor | None:
    """The progress of a statement; None while it waits for no node."""
    waiting = running.waiting(leasing)
    return None if waiting is None else told_of(waiting, running.id, catalog)


def told_of(waiting: Waiting, statement: StatementId, catalog: Catalog) -> WaitingFor:
    names = tuple(node_name(node, catalog) for node in waiting.nodes)
    return WaitingFor(statement_id=statement, nodes=names, at_most_ns=waiting.at_most_ns)


def unsettled(
    revision: Revision, nodes: Iterable[NodeId], leasing: Leasing, catalog: Catalog, now_ns: int
) -> tuple[NodeWait, ...]:
    """The nodes that may still serve a revision older than `revision`."""
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
