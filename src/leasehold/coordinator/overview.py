"""What people ask a coordinator: SHOW, DESCRIBE, status, receipts. Reads one catalog, changes nothing."""

from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from leasehold.coordinator import shown
from leasehold.coordinator.leasing import Leasing
from leasehold.coordinator.sessions import Sessions
from leasehold.coordinator.settings import published_bound_ns
from leasehold.coordinator.topology import Topology
from leasehold.core.catalog import Catalog
from leasehold.core.copies import Copies, Shortfall
from leasehold.core.grantor import Held
from leasehold.core.messages import (
    AskReceipts,
    ClusterStatus,
    KnownBarrier,
    Lacked,
    NodeRecovery,
    NodeStatus,
    Receipts,
    Rows,
)
from leasehold.core.records import NodeRecord, SettledHow
from leasehold.core.settings import settings_rows
from leasehold.core.statements import (
    Describe,
    DescribeDatabase,
    ShowCluster,
    ShowDatabases,
    ShowGrants,
    ShowNodes,
    ShowPrincipals,
    ShowProperties,
    ShowTables,
    ShowViews,
)
from leasehold.core.tally import in_words, left_in_words, segments_in_words
from leasehold.ids import NodeId, Revision, Term
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.statements import RECEIPTS_PAGE_MAX
from leasehold.limits.units import MILLISECOND_NS

CatalogQuestion: TypeAlias = (
    ShowDatabases
    | ShowTables
    | ShowViews
    | ShowNodes
    | ShowCluster
    | ShowProperties
    | ShowPrincipals
    | ShowGrants
    | Describe
    | DescribeDatabase
)
"""What is answered here; of statements and procedures, those who run them tell."""


class Overview:
    """Looks at the catalog and the leases of one leader. `failed_logins` counts them by the name of a user.

    `seen` says how the physical topology sees a node, by its name. It is shown, and goes nowhere else: what is decided
    here goes by leases and sessions alone.
    """

    def __init__(
        self,
        leasing: Leasing,
        sessions: Sessions,
        topology: Topology,
        term: Term,
        failed_logins: Callable[[str], int] = lambda _: 0,
        seen: Callable[[str], str] = lambda _: "",
        *,
        join_wait_ns: Callable[[NodeId, int], int] = lambda _node, _now_ns: 0,
        anybody_may_join: bool = False,
    ) -> None:
        self._anybody_may_join = anybody_may_join
        self._leasing = leasing
        self._sessions = sessions
        self._topology = topology
        self._term = term
        self._failed_logins = failed_logins
        self._seen = seen
        self._join_wait_ns = join_wait_ns
        self.copies: Copies | None = None
        """What lacks copies, once somebody counts it."""

    def answer(  # noqa: PLR0911 - one for each question
        self, question: CatalogQuestion, catalog: Catalog, now_ns: int
    ) -> Rows:
        """The rows of a SHOW or DESCRIBE; only what `shown.is_large` may take long, and may run on another thread."""
        match question:
            case ShowDatabases():
                return shown.databases(question, catalog)
            case ShowTables():
                return shown.tables(question, catalog)
            case ShowViews():
                return shown.views(question, catalog)
            case ShowProperties():
                return shown.properties(question, catalog)
            case ShowPrincipals():
                return shown.principals(question, catalog, self._failed_logins)
            case ShowGrants():
                return shown.grants(question, catalog)
            case Describe():
                return shown.columns(question, catalog)
            case DescribeDatabase():
                return shown.database(question, catalog)
            case ShowNodes():
                return self._nodes(catalog, now_ns)
            case ShowCluster():
                columns = ("setting", "value", "range", "meaning")
                return Rows(columns=columns, rows=settings_rows(catalog), revision=catalog.revision)
            case _:
                assert_never(question)

    def status(self, catalog: Catalog, now_ns: int) -> ClusterStatus:
        """The cluster as this leader sees it."""
        assert catalog.cluster is not None
        nodes = sorted((one for one in catalog.nodes.values() if not one.removed), key=lambda one: one.id)
        found = None if self.copies is None else self.copies.shortfall
        return ClusterStatus(
            cluster_id=catalog.cluster.cluster_id,
            term=self._term,
            revision=catalog.revision,
            bound_ns=published_bound_ns(self._leasing.grantor, now_ns),
            anybody_may_join=self._anybody_may_join,
            nodes=tuple(_with_copies(self._node(node, now_ns), found) for node in nodes),
            segments_short=None if found is None else found.short,
            segments_lost=None if found is None else sum(found.lost.values()),
            silences=self._sessions.silences(),
            lacked=() if found is None else _lacked(found),
            disks_full=self._sessions.disks_full(),
            session_ends=self._sessions.ends(),
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
            state = "FENCED" if held is not None and held.admitted else "RECOVERING"
        else:
            state = "DOWN"
        stage, recovery = self._stage(node, held), self._topology.recovery(node)
        if not connected and (wait_ns := self._join_wait_ns(node.id, now_ns)):
            stage, recovery = "WAITING", waiting(wait_ns)
        return NodeStatus(
            id=node.id,
            name=node.name,
            address=node.address,
            incarnation=node.incarnation,
            state=state,
            applied_revision=applied,
            lease_remaining_ns=max(0, remaining_ns),
            stage=stage,
            recovery=recovery,
            seen=self._seen(node.name),
        )

    def _stage(self, node: NodeRecord, held: Held | None) -> str:
        """Where a node is on its way into the logical topology."""
        if node.incarnation == 0:
            return "REGISTERED"
        if node.member:
            return "MEMBER"
        if self._sessions.connected(node.id):
            return "CONNECTED" if self._topology.recovery(node) is None else "RECOVERING"
        has_left = node.left or (held is not None and held.closed is not None)
        return "LEFT" if has_left else "ADMITTED"

    def _nodes(self, catalog: Catalog, now_ns: int) -> Rows:
        status = self.status(catalog, now_ns)
        sessions = {one.node: one.how for one in status.session_ends}
        sessions |= {one.node: "SILENT" if one.silent_ns >= SILENT_SHOWN_NS else "OPEN" for one in status.silences}
        rows = tuple(
            (
                one.id,
                one.name,
                one.address,
                one.incarnation,
                one.state,
                one.applied_revision,
                one.lease_remaining_ns // MILLISECOND_NS,
                one.stage,
                None if one.recovery is None else recovery_text(one.recovery, is_in=one.stage == "MEMBER"),
                one.segments_short,
                sessions.get(one.id),
                "FULL" if one.id in status.disks_full else None,
                one.seen,
            )
            for one in status.nodes
        )
        columns = (
            "id",
            "name",
            "address",
            "incarnation",
            "state",
            "applied_revision",
            "lease_remaining_ms",
            "stage",
            "recovery",
            "segments_short",
            "session",
            "disk",
            "seen",
        )
        return Rows(columns=columns, rows=rows, revision=catalog.revision)


def _lacked(found: Shortfall) -> tuple[Lacked, ...]:
    return tuple(Lacked(node=node, segments=count) for node, count in sorted(found.lacked.items()))


def _with_copies(node: NodeStatus, found: Shortfall | None) -> NodeStatus:
    if found is None:
        return node
    return msgspec.structs.replace(
        node,
        segments_short=found.of_node.get(node.id, 0),
        segments_alone=found.alone.get(node.id, 0),
    )


def waiting(wait_ns: int) -> NodeRecovery:
    """Of a process that waits to be let in, so long at most."""
    none = Revision(0)
    return NodeRecovery(
        case="",
        why="waits to be let in until leases of before have ended",
        applied=none,
        target=none,
        keys=0,
        keys_total=0,
        segments_kept=0,
        segments_fetched=0,
        segments_missing=0,
        segments_evicted=0,
        left_ns=wait_ns,
    )


def recovery_text(one: NodeRecovery, *, is_in: bool) -> str:
    """How far a recovery is, in a few words: its case, keys of a snapshot or revisions unless the node is in, segments,
    and what is left of it."""
    if not one.case:
        return in_words(one)
    here = ""
    if one.case == "c" and one.keys < one.keys_total:
        here = f"{one.keys}/{one.keys_total} keys"
    elif not is_in:
        here = f"{one.applied}/{one.target}"
    parts = (f"{one.case} {here}".rstrip(), segments_in_words(one), left_in_words(one))
    return ", ".join(part for part in parts if part)
