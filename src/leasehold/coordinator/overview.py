"""What people ask a coordinator: SHOW, DESCRIBE, status, receipts. Reads one catalog, changes nothing."""

from typing import assert_never

from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.sessions import Sessions
from leasehold.coordinator.settings import published_bound_ns
from leasehold.core.catalog import Catalog, live_fields
from leasehold.core.durations import render_duration
from leasehold.core.messages import AskReceipts, ClusterStatus, KnownBarrier, NodeStatus, Receipts, Rows
from leasehold.core.records import NodeRecord, SettledHow, UseState
from leasehold.core.settings import settings_rows
from leasehold.core.statements import Describe, Question, ShowCluster, ShowDatabases, ShowNodes, ShowTables
from leasehold.ids import NodeId, Term
from leasehold.limits import MILLISECOND_NS, RECEIPTS_PAGE_MAX


class Overview:
    """Looks at the catalog and the leases of one leader."""

    def __init__(self, leasing: Leasing, sessions: Sessions, term: Term) -> None:
        self._leasing = leasing
        self._sessions = sessions
        self._term = term

    def answer(self, question: Question, catalog: Catalog, now_ns: int) -> Rows:
        """The rows of a SHOW or DESCRIBE."""
        match question:
            case ShowDatabases():
                used = sorted(one.name for one in catalog.databases.values() if one.state is UseState.IN_USE)
                return Rows(columns=("database",), rows=tuple((name,) for name in used), revision=catalog.revision)
            case ShowTables(database=database):
                return _tables(catalog, database)
            case ShowNodes():
                return self._nodes(catalog, now_ns)
            case ShowCluster():
                columns = ("setting", "value", "range", "meaning")
                return Rows(columns=columns, rows=settings_rows(catalog), revision=catalog.revision)
            case Describe():
                return _columns(catalog, question)
            case _:
                assert_never(question)

    def status(self, catalog: Catalog, now_ns: int) -> ClusterStatus:
        """The cluster as this leader sees it."""
        assert catalog.cluster is not None
        nodes = sorted((one for one in catalog.nodes.values() if not one.removed), key=lambda one: one.id)
        return ClusterStatus(
            cluster_id=catalog.cluster.cluster_id,
            term=self._term,
            revision=catalog.revision,
            bound_ns=published_bound_ns(self._leasing.grantor, now_ns),
            nodes=tuple(self._node(node, now_ns) for node in nodes),
        )

    def serving(self, catalog: Catalog, now_ns: int) -> list[NodeId]:
        """The nodes whose lease has not ended, as far as this leader knows."""
        return [one.id for one in self.status(catalog, now_ns).nodes if one.state == "ACTIVE"]

    def receipts(self, request: AskReceipts, catalog: Catalog) -> Receipts:
        """A page of the barriers that proceeded, in the order of their statements."""
        limit = max(1, min(request.limit, RECEIPTS_PAGE_MAX))
        later = sorted(
            (one for one in catalog.statements.values() if one.order > request.after and one.barriers),
            key=lambda one: one.order,
        )
        page = later[:limit]
        barriers = [
            KnownBarrier(order=one.order, statement=one.id, barrier=barrier) for one in page for barrier in one.barriers
        ]
        return Receipts(barriers=tuple(barriers), next_after=page[-1].order if len(later) > limit else None)

    def _node(self, node: NodeRecord, now_ns: int) -> NodeStatus:
        held = self._leasing.grantor.held(node.id)
        remaining_ns = 0
        applied = None
        if held is not None and held.closed is not SettledHow.SURRENDERED and held.applied is not None:
            applied = held.applied
            remaining_ns = self._leasing.lease_end_ns(node.id) - now_ns
        connected = self._sessions.connected(node.id)
        if remaining_ns > 0:
            state = "ACTIVE"
        elif connected:
            state = "FENCED" if applied is not None else "RECOVERING"
        else:
            state = "DOWN"
        return NodeStatus(
            id=node.id,
            name=node.name,
            address=node.address,
            incarnation=node.incarnation,
            state=state,
            applied_revision=applied,
            lease_remaining_ns=max(0, remaining_ns),
        )

    def _nodes(self, catalog: Catalog, now_ns: int) -> Rows:
        rows = tuple(
            (
                one.id,
                one.name,
                one.address,
                one.incarnation,
                one.state,
                one.applied_revision,
                one.lease_remaining_ns // MILLISECOND_NS,
            )
            for one in self.status(catalog, now_ns).nodes
        )
        columns = ("id", "name", "address", "incarnation", "state", "applied_revision", "lease_remaining_ms")
        return Rows(columns=columns, rows=rows, revision=catalog.revision)


def _tables(catalog: Catalog, database: str | None) -> Rows:
    only = None if database is None else catalog.database(database).id
    rows: list[tuple[str | int | bool | None, ...]] = []
    for table in catalog.tables.values():
        owner = catalog.databases[table.database]
        if table.state is not UseState.IN_USE or owner.state is not UseState.IN_USE or only not in {None, owner.id}:
            continue
        size = sum(
            segment.rows
            for number in range(table.buckets)
            for segment in catalog.segments.get((table.id, number), {}).values()  # pyright: ignore[reportArgumentType, reportCallIssue] - number is a BucketNumber
        )
        rows.append((owner.name, table.name, table.buckets, table.replication, size))
    columns = ("database", "table", "buckets", "replication", "rows")
    return Rows(columns=columns, rows=tuple(sorted(rows, key=str)), revision=catalog.revision)


def _columns(catalog: Catalog, question: Describe) -> Rows:
    table = catalog.table(question.table)
    rows: list[tuple[str | int | bool | None, ...]] = []
    for field in live_fields(table):
        notes: list[str] = []
        if field.id == table.cluster_by:
            notes.append(f"clustered into {table.buckets} buckets")
        if field.id == table.time_column and table.ttl_ns is not None:
            notes.append(f"rows expire after {render_duration(table.ttl_ns)}")
        rows.append((field.name, field.type, field.nullable, ", ".join(notes)))
    return Rows(columns=("column", "type", "nullable", "note"), rows=tuple(rows), revision=catalog.revision)
