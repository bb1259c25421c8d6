"""Waiting until nodes serve, with a bound."""

from collections.abc import Callable, Mapping

from leasehold.client.cluster import Cluster
from leasehold.core.messages import ClusterStatus, NodeStatus
from leasehold.errors import Indefinite, NotInitialised, Unreachable
from leasehold.limits import ACTIVE_WAIT_NS, RETRY_PAUSE_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns


def wait_until_registered(cluster: Cluster, name: str) -> None:
    """Waits until a node has its id. Raises `Unreachable` if it does not get one in time."""
    _wait(cluster, {name}, lambda node: node is not None)


def wait_until_active(cluster: Cluster, addresses: Mapping[str, str]) -> ClusterStatus:
    """Waits until each of these nodes holds a lease under the address it listens on now.

    The address matters: a killed node's lease runs on for a while, and that must not pass for the new process.
    Raises `Unreachable` saying which do not, and their state.
    """
    return _wait(
        cluster,
        set(addresses),
        lambda node: node is not None and node.state == "ACTIVE" and node.address == addresses[node.name],
    )


def _wait(cluster: Cluster, wanted: set[str], holds: Callable[[NodeStatus | None], bool]) -> ClusterStatus:
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + ACTIVE_WAIT_NS
    while True:
        try:
            status = cluster.status()
        except (Indefinite, NotInitialised):
            if clock.now_ns() >= deadline_ns:
                raise
        else:
            nodes = {node.name: node for node in status.nodes}
            late = [name for name in sorted(wanted) if not holds(nodes.get(name))]
            if not late:
                return status
            if clock.now_ns() >= deadline_ns:
                states = ", ".join(
                    f"{name} is {nodes[name].state if name in nodes else 'not registered'}" for name in late
                )
                raise Unreachable(
                    f"not all nodes serve after {ACTIVE_WAIT_NS // SECOND_NS} s: {states}",
                    hint="`leasehold logs NODE` shows why",
                )
        sleep_ns(RETRY_PAUSE_NS)
