"""SHOW PROCEDURES: the statements that have not ended, the dropped tables whose files are still there, and compactions
that nodes do by themselves."""

from collections.abc import Iterable

import msgspec

from leasehold.core.access.rights import CLUSTER, holds
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.node_names import node_names
from leasehold.core.data.auto_compaction import open_compactions
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.replicas.dropped import cleaning
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import PrincipalRecord, Right, StatementRecord, Step
from leasehold.ids import NodeId, StatementId
from leasehold.limits.units import MILLISECOND_NS

COLUMNS = ("procedure", "statement", "user", "text", "state")


class RunningStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that has not ended, as its leader knows it."""

    id: StatementId
    number: int | None
    """Its procedure; None until its first transaction is durable."""
    user: str | None
    text: str
    has_begun: bool
    """It was at the head of the queues of its objects."""
    waits_for: tuple[NodeId, ...] | None = None
    """The nodes that its barrier waits for now; None while it waits for none."""
    waits_ns: int = 0
    """How much longer that takes at most."""


def procedures(running: Iterable[RunningStatement], catalog: Catalog, asking: PrincipalRecord | None) -> Rows:
    """The statements that have not ended, in the order in which they came, then the drops whose files still go,
    then compactions.

    The text of a statement may show values of rows. A user without ALTER on the cluster sees none of other users.
    """
    sees_all = asking is None or holds(asking, Right.ALTER, (CLUSTER,), catalog)

    def text_of(one: RunningStatement | StatementRecord) -> str | None:
        return one.text if sees_all or (asking is not None and one.user == asking.name) else None

    rows: list[Row] = []
    ids: set[StatementId] = set()
    for one in running:
        rows.append((one.number, one.id, one.user, text_of(one), _state(one, catalog)))
        ids.add(one.id)
    for one in _drops(catalog):
        if one.id not in ids:
            nodes = cleaning(one, catalog)
            state = f"deleting files on {len(nodes)} nodes: {node_names(nodes, catalog)}"
            rows.append((one.order, one.id, one.user, text_of(one), state))
    for one in sorted(open_compactions(catalog), key=lambda one: one.order):
        table = catalog.tables.get(one.table)
        if table is not None and one.compactor is not None:
            text = f"compaction of {catalog.table_name(table)}, bucket {one.compacts}"
            rows.append((None, None, None, text, f"joining segments on {node_names((one.compactor,), catalog)}"))
    return rows_of(COLUMNS, rows, catalog)


def _drops(catalog: Catalog) -> list[StatementRecord]:
    """The statements that dropped what nodes still hold files of, oldest first."""
    if not len(catalog.dropped):
        return []
    found = (one for one in catalog.statements.values() if any(table in catalog.dropped for table in one.dropped))
    return sorted(found, key=lambda one: one.order)


def _state(running: RunningStatement, catalog: Catalog) -> str:
    if running.waits_for is not None:
        nodes = node_names(running.waits_for, catalog)
        return f"waiting for {nodes}, at most {running.waits_ns // MILLISECOND_NS} ms"
    if running.number is not None:
        procedure = catalog.procedures.get(running.number)
        hides = procedure is not None and procedure.step is Step.PRE_STATE
        return "before its point of no return" if hides else "committed"
    return "being planned" if running.has_begun else "queued"
