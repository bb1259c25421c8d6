"""What people ask a leader: SHOW, DESCRIBE, status, receipts (answered in `core/questions`). Changes nothing."""

from collections.abc import Callable

from leasehold.coordinator.nodes.lease_settings import published_bound_ns
from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.sessions import Sessions
from leasehold.coordinator.nodes.topology import Topology
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.catalog import CatalogQuestion, answer
from leasehold.core.questions.nodes import NodeLiveness, node_status, nodes, segments_lacked
from leasehold.core.replicas.copies import Copies
from leasehold.core.words.messages import ClusterStatus, NodeStatus, Rows
from leasehold.core.words.records import NodeRecord
from leasehold.core.words.statements import ShowNodes
from leasehold.ids import NodeId, Term


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

    def answer(self, question: CatalogQuestion | ShowNodes, catalog: Catalog, now_ns: int) -> Rows:
        """The rows of a SHOW or DESCRIBE; only what `is_large` may take long, and may run on another thread."""
        if isinstance(question, ShowNodes):
            return nodes(self.status(catalog, now_ns), catalog)
        return answer(question, catalog, self._failed_logins)

    def status(self, catalog: Catalog, now_ns: int) -> ClusterStatus:
        """The cluster as this leader sees it."""
        assert catalog.cluster is not None
        found = None if self.copies is None else self.copies.shortfall
        return ClusterStatus(
            cluster_id=catalog.cluster.cluster_id,
            term=self._term,
            revision=catalog.revision,
            bound_ns=published_bound_ns(self._leasing.grantor, now_ns),
            anybody_may_join=self._anybody_may_join,
            nodes=self._nodes(catalog, now_ns),
            segments_short=None if found is None else found.short,
            segments_lost=None if found is None else sum(found.lost.values()),
            silences=self._sessions.silences(),
            lacked=() if found is None else segments_lacked(found),
            disks_full=self._sessions.disks_full(),
            session_ends=self._sessions.ends(),
        )

    def serving(self, catalog: Catalog, now_ns: int) -> list[NodeId]:
        """The nodes whose lease has not ended, as far as this leader knows."""
        return [one.id for one in self._nodes(catalog, now_ns) if one.state == "ACTIVE"]

    def _nodes(self, catalog: Catalog, now_ns: int) -> tuple[NodeStatus, ...]:
        found = None if self.copies is None else self.copies.shortfall
        present = sorted((one for one in catalog.nodes.values() if not one.removed), key=lambda one: one.id)
        return tuple(node_status(one, self._known(one, now_ns), found, now_ns) for one in present)

    def _known(self, node: NodeRecord, now_ns: int) -> NodeLiveness:
        return NodeLiveness(
            held=self._leasing.grantor.held(node.id),
            lease_end_ns=self._leasing.lease_end_ns(node.id),
            is_connected=self._sessions.connected(node.id),
            recovery=self._topology.recovery(node),
            join_wait_ns=self._join_wait_ns(node.id, now_ns),
            seen=self._seen(node.name),
        )
