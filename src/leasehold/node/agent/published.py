"""What a node's threads share: its view and its lease, each replaced by a single assignment.

The agent's thread writes, Flight's threads read. `core.lease.holder.guard` reads them in the right order.
"""

from collections.abc import Callable
from typing import Any

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.runtime import ConditionVariable
from leasehold.core.lease.holder import NO_LEASE, Lease
from leasehold.core.words.messages import NodeStatus
from leasehold.ids import ClusterId, Incarnation, NodeId, Revision, Session
from leasehold.node.agent.suspects import Suspects
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import ThreadRuntime


class Published:
    """The node's present view, lease and identity. `node` and `incarnation` are 0 until it has joined. `newer` is
    notified of each view; by default it is one for threads."""

    def __init__(self, newer: ConditionVariable | None = None) -> None:
        self.view: Catalog = Catalog()
        self.lease: Lease = NO_LEASE
        """A plain attribute: the guard of each batch reads it twice. `hold` replaces it."""
        self.had_lease = False
        """Whether this process has ever had a lease."""
        self.node = NodeId(0)
        self.incarnation = Incarnation(0)
        self.cluster_id = ClusterId("")
        self.session: Session | None = None
        """Proves to peers which node this is; a secret."""
        self.seal_key = b""
        """Seals what this process says of segments (`core.data.seals`); a secret that peers do not learn."""
        self.disk_full = False
        """Whether a write has found no space (`node/disk/space.py`)."""
        self.disk_failing = False
        """Whether this process has met another error of the disk."""
        self.suspects = Suspects()
        self.on_view: Callable[[Catalog], None] = lambda _: None
        """Called with each view once it is published, before anybody reports it: what it takes away goes now."""
        self.on_surrender: Callable[[], None] = lambda: None
        """Called once the lease was given back, before anybody is told."""
        self._newer = newer or ThreadRuntime(BoottimeClock().now_ns).condition()

    def joined(self, cluster_id: ClusterId, node: NodeId, incarnation: Incarnation) -> None:
        """Called once, before the first lease."""
        self.cluster_id, self.node, self.incarnation = cluster_id, node, incarnation

    def speaker(self) -> dict[str, Any]:
        """The fields by which a message to the leader names this process."""
        return {"node": self.node, "incarnation": self.incarnation, "session": self.session}

    def hold(self, lease: Lease) -> None:
        """Replaces the lease; with NO_LEASE it was given back."""
        self.had_lease = self.had_lease or lease is not NO_LEASE
        self.lease = lease
        if lease is NO_LEASE:
            self.on_surrender()

    def publish(self, view: Catalog) -> None:
        """Publishes a newer view, then wakes the threads that wait for it."""
        assert view.revision >= self.view.revision, "a view never goes back (INV-BARRIER-1)"
        self.view = view
        self.on_view(view)
        with self._newer:
            self._newer.notify_all()

    async def wait_for(self, revision: Revision, until_ns: int) -> None:
        """Waits until the view may show `revision`, at most until `until_ns`. It may return too early: look again."""
        with self._newer:
            if self.view.revision < revision:
                await self._newer.wait(until_ns)

    def status(self, now_ns: int, address: str) -> NodeStatus:
        """The node's own state, serving at `address`; a hint, without a guard."""
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
