"""What a node's threads share: its view and its lease, each replaced whole by a single assignment.

The agent's thread writes, Flight's threads read; a reader sees the old object or the new one, never a mixture.
`core.lease.holder.guard` reads them in the one order that is sound.
"""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.runtime import ConditionVariable
from leasehold.core.lease.holder import NO_LEASE, Lease
from leasehold.core.words.messages import NodeStatus
from leasehold.ids import ClusterId, Incarnation, NodeId, Revision, Session
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import ThreadRuntime


class Published:
    """The node's present view, lease and identity. `node` 0 and `incarnation` 0 until it has joined."""

    __slots__ = (
        "_lease",
        "_newer",
        "cluster_id",
        "disk_full",
        "had_lease",
        "incarnation",
        "node",
        "seal_key",
        "session",
        "view",
    )

    def __init__(self, newer: ConditionVariable | None = None) -> None:
        """`newer` is of the runtime whose steps wait for a revision: threads, if none is given."""
        self.view: Catalog = Catalog()
        self._lease: Lease = NO_LEASE
        self.had_lease = False
        """Whether this process has had a lease: then none means that it was given back."""
        self.node = NodeId(0)
        self.incarnation = Incarnation(0)
        self.cluster_id = ClusterId("")
        self.session: Session | None = None
        """Proves to peers which node this is; a secret."""
        self.seal_key = b""
        """For what this process says of segments (`core.data.seals`); a secret that peers do not learn."""
        self.disk_full = False
        """Whether a write found no space, and since then none has found some (`node/disk/space.py`)."""
        self._newer = newer or ThreadRuntime(BoottimeClock().now_ns).condition()

    def joined(self, cluster_id: ClusterId, node: NodeId, incarnation: Incarnation) -> None:
        """Called once, before the first lease."""
        self.cluster_id, self.node, self.incarnation = cluster_id, node, incarnation

    @property
    def lease(self) -> Lease:
        """The present lease."""
        return self._lease

    @lease.setter
    def lease(self, lease: Lease) -> None:
        self.had_lease = self.had_lease or lease is not NO_LEASE
        self._lease = lease

    def publish(self, view: Catalog) -> None:
        """Shows a newer view, then wakes who waits for it."""
        assert view.revision >= self.view.revision, "a view never goes back (INV-BARRIER-1)"
        self.view = view
        with self._newer:
            self._newer.notify_all()

    async def wait_for(self, revision: Revision, until_ns: int) -> None:
        """Returns once the view shows `revision`, at most at `until_ns`. It may return sooner: look again."""
        with self._newer:
            if self.view.revision < revision:
                await self._newer.wait(until_ns)

    def status(self, now_ns: int, address: str) -> NodeStatus:
        """How the node sees itself, serving at `address`; a hint, without a guard."""
        lease, view, node = self.lease, self.view, self.node
        left_ns = max(0, lease.deadline_ns - now_ns)
        never = "RECOVERING" if lease.deadline_ns < 0 else "FENCED"
        return NodeStatus(
            id=node,
            name=view.nodes[node].name if node in view.nodes else "",
            address=address,
            incarnation=self.incarnation,
            state="ACTIVE" if left_ns else never,
            applied_revision=view.revision,
            lease_remaining_ns=left_ns,
        )
