"""What a node's threads share: its view and its lease, each replaced whole by a single assignment.

The agent's thread writes, Flight's threads read; a reader sees the old object or the new one, never a mixture.
`core.lease.guard` reads them in the one order that is sound.
"""

import threading

from leasehold.core.catalog import Catalog
from leasehold.core.lease import NO_LEASE, Lease
from leasehold.core.messages import NodeStatus
from leasehold.ids import ClusterId, Incarnation, NodeId, Revision, Session
from leasehold.limits.flight import FLIGHT_WAITS_MAX
from leasehold.limits.units import SECOND_NS


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
        "waiting",
    )

    def __init__(self) -> None:
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
        """For what this process says of segments (`core.seals`); a secret that peers do not learn."""
        self.disk_full = False
        """Whether a write found no space, and since then none has found some (`node/space.py`)."""
        self.waiting = threading.BoundedSemaphore(FLIGHT_WAITS_MAX)
        """Held by each call that waits for a revision: whoever may do nothing here can wait too."""
        self._newer = threading.Condition()

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

    def wait_for(self, revision: Revision, timeout_ns: int) -> bool:
        """Blocks a Flight thread until the view shows `revision`; False if it does not in time."""
        if self.view.revision >= revision:
            return True
        with self._newer:
            return self._newer.wait_for(lambda: self.view.revision >= revision, timeout_ns / SECOND_NS)

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
