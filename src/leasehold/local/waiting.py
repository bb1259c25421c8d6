"""Waiting until nodes serve, with a bound."""

from collections.abc import Callable, Mapping

from leasehold.client.coordinators import Coordinators
from leasehold.core.messages import ClusterStatus, NodeStatus
from leasehold.core.tally import in_words
from leasehold.errors import Indefinite, NotInitialised, NotLeader, Unreachable
from leasehold.limits import ACTIVE_WAIT_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock


def wait_until_registered(cluster: Coordinators, name: str, pause: Callable[[], None]) -> None:
    """Waits until a node has its id. Raises `Unreachable` if it does not get one in time, and what `pause` raises."""
    _wait(cluster, {name}, lambda node: node is not None, pause)


def wait_until_active(cluster: Coordinators, addresses: Mapping[str, str], pause: Callable[[], None]) -> ClusterStatus:
    """Waits until each of these nodes holds a lease under the address it listens on now.

    The address matters: a killed node's lease runs on for a while, and that must not pass for the new process.
    Raises `Unreachable` saying which do not, and their state, and what `pause`, called between two looks, raises.
    """
    return _wait(
        cluster,
        set(addresses),
        lambda node: node is not None and node.state == "ACTIVE" and node.address == addresses[node.name],
        pause,
    )


def _wait(
    cluster: Coordinators, wanted: set[str], holds: Callable[[NodeStatus | None], bool], pause: Callable[[], None]
) -> ClusterStatus:
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + ACTIVE_WAIT_NS
    while True:
        try:
            status = cluster.status()
        except (Indefinite, NotInitialised, NotLeader):
            if clock.now_ns() >= deadline_ns:
                raise
        else:
            nodes = {node.name: node for node in status.nodes}
            late = [name for name in sorted(wanted) if not holds(nodes.get(name))]
            if not late:
                return status
            if clock.now_ns() >= deadline_ns:
                states = ", ".join(f"{name} {_state(nodes.get(name))}" for name in late)
                raise Unreachable(
                    f"not all nodes serve after {ACTIVE_WAIT_NS // SECOND_NS} s: {states}",
                    hint="`leasehold logs NODE` shows why",
                )
        pause()


def _state(node: NodeStatus | None) -> str:
    if node is None:
        return "is not registered"
    told = node.recovery
    return in_words(told) if told is not None and not told.case else f"is {node.state}"
