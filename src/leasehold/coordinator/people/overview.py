"""Answers to SHOW, DESCRIBE and status at a leader (built in `core/questions`)."""

from collections.abc import Callable

from leasehold.coordinator.nodes.leases import Leasing
from leasehold.coordinator.nodes.sessions import Sessions
from leasehold.coordinator.nodes.topology import Topology
from leasehold.coordinator.shared_answer import SharedAnswer
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.catalog import CatalogQuestion, answer
from leasehold.core.questions.certificates import ending
from leasehold.core.questions.nodes import NodeLiveness, buckets_left, node_status, nodes, segments_lacked
from leasehold.core.questions.repairs import repairs
from leasehold.core.questions.rows import pages
from leasehold.core.replicas.copies import Copies
from leasehold.core.words.messages import ClusterStatus, NodeAbsence, NodeStatus, Rows, TableFacts
from leasehold.core.words.records import NodeRecord
from leasehold.core.words.statements import ShowCoordinators, ShowNodes, ShowRepairs
from leasehold.ids import NodeId, Term
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.statements import INLINE_EFFORT_MAX


class Overview:
    """Shows the catalog and the leases of one leader. `failed_logins` counts wrong passwords by user. `seen` tells the
    state of a node, by its name, in the physical topology: it is only shown, and decides nothing."""

    def __init__(
        self,
        leasing: Leasing,
        sessions: Sessions,
        topology: Topology,
        copies: Copies,
        term: Term,
        *,
        catalog: Callable[[], Catalog],
        now_ns: Callable[[], int],
        failed_logins: Callable[[str], int],
        seen: Callable[[str], str],
        join_wait_ns: Callable[[NodeId, int], int],
        anybody_may_join: bool,
        coordinators: Callable[[Catalog, int], Rows],
        coordinator_certificates_end_s: Callable[[Catalog, int], dict[str, int]],
        store_warnings: Callable[[], tuple[str, ...]],
        replaced_in_ns: Callable[[NodeId], int | None],
        copy_rates: Callable[[int], dict[NodeId, int]],
        began_ns: int,
        wall_us: Callable[[], int],
    ) -> None:
        self._leasing = leasing
        self._sessions = sessions
        self._topology = topology
        self._copies = copies
        self._term = term
        self._failed_logins = failed_logins
        self._seen = seen
        self._join_wait_ns = join_wait_ns
        self._anybody_may_join = anybody_may_join
        self._coordinators = coordinators
        self._coordinator_certificates_end_s = coordinator_certificates_end_s
        self._wall_us = wall_us
        self._store_warnings = store_warnings
        self._replaced_in_ns = replaced_in_ns
        self._copy_rates = copy_rates
        self._began_ns = began_ns
        self._catalog = catalog
        self._now_ns = now_ns
        self._shared_status = SharedAnswer(self._status_now)
        self._shared_pages = SharedAnswer(self._pages_now)

    async def nodes_shown(self) -> tuple[Rows, ...]:
        """The pages of SHOW NODES, by the catalog and the clock of after this call. With many nodes an answer takes
        milliseconds, so all who ask meanwhile get the same one."""
        return await self._shared_pages.get() if self._are_many() else self._pages_now()

    async def status_shown(self) -> ClusterStatus:
        """As `nodes_shown`, of `status`."""
        return await self._shared_status.get() if self._are_many() else self._status_now()

    def _are_many(self) -> bool:
        return len(self._catalog().nodes) > INLINE_EFFORT_MAX

    def _status_now(self) -> ClusterStatus:
        return self.status(self._catalog(), self._now_ns())

    def _pages_now(self) -> tuple[Rows, ...]:
        return tuple(pages(self.answer(ShowNodes(), self._catalog(), self._now_ns())))

    def answer(
        self, question: CatalogQuestion | ShowNodes | ShowCoordinators | ShowRepairs, catalog: Catalog, now_ns: int
    ) -> Rows:
        """The rows of a SHOW or DESCRIBE. A question that `is_large` may run on another thread."""
        if isinstance(question, ShowNodes):
            return nodes(self.status(catalog, now_ns), catalog, self._sessions.certificate_ends_s())
        if isinstance(question, ShowCoordinators):
            return self._coordinators(catalog, now_ns)
        if isinstance(question, ShowRepairs):
            return repairs(catalog, self._copy_rates(now_ns))
        return answer(question, catalog, self._failed_logins)

    def status(self, catalog: Catalog, now_ns: int) -> ClusterStatus:
        assert catalog.cluster is not None
        found = self._copies.shortfall
        return ClusterStatus(
            cluster_id=catalog.cluster.cluster_id,
            term=self._term,
            revision=catalog.revision,
            bound_ns=self._leasing.published_bound_ns(),
            anybody_may_join=self._anybody_may_join,
            nodes=self._nodes(catalog, now_ns),
            segments_short=None if found is None else found.short,
            segments_lost=None if found is None else sum(found.lost.values()),
            silences=self._sessions.silences(),
            lacked=() if found is None else segments_lacked(found),
            disks_full=self._sessions.disks_full(),
            session_ends=self._sessions.ends(),
            store_warnings=(*self._store_warnings(), *self._ending(catalog, now_ns)),
        )

    def _ending(self, catalog: Catalog, now_ns: int) -> tuple[str, ...]:
        nodes = {catalog.nodes[node].name: ends_s for node, ends_s in self._sessions.certificate_ends_s().items()}
        ends_s = self._coordinator_certificates_end_s(catalog, now_ns) | nodes
        return ending(ends_s, self._wall_us() // 1_000_000)

    def absences(self, facts: TableFacts, catalog: Catalog, now_ns: int) -> tuple[NodeAbsence, ...]:
        """Those of the nodes of a table that are not heard, or hold no lease."""
        nodes = {one.node for one in facts.places}
        heard = {one.node for one in self._sessions.silences() if one.silent_ns < SILENT_SHOWN_NS}
        return tuple(
            NodeAbsence(
                node=one.id,
                lease_remaining_ns=one.lease_remaining_ns,
                away_ns=max(0, now_ns - (self._leasing.lease_end_ns(one.id) or self._began_ns)),
                replaced_in_ns=self._replaced_in_ns(one.id),
            )
            for one in self._nodes(catalog, now_ns)
            if one.id in nodes and (one.state != "ACTIVE" or one.id not in heard)
        )

    def serving(self, catalog: Catalog, now_ns: int) -> list[NodeId]:
        """The nodes whose lease has not ended, by this leader."""
        return [one.id for one in self._nodes(catalog, now_ns) if one.state == "ACTIVE"]

    def _nodes(self, catalog: Catalog, now_ns: int) -> tuple[NodeStatus, ...]:
        found = self._copies.shortfall
        present = sorted((one for one in catalog.nodes.values() if not one.removed), key=lambda one: one.id)
        return tuple(node_status(one, self._known(one, catalog, now_ns), found, now_ns) for one in present)

    def _known(self, node: NodeRecord, catalog: Catalog, now_ns: int) -> NodeLiveness:
        return NodeLiveness(
            held=self._leasing.grantor.held(node.id),
            lease_end_ns=self._leasing.lease_end_ns(node.id),
            is_connected=self._sessions.connected(node.id),
            recovery=self._topology.recovery(node),
            join_wait_ns=self._join_wait_ns(node.id, now_ns),
            seen=self._seen(node.name),
            buckets=buckets_left(node, catalog) if node.draining else 0,
        )
