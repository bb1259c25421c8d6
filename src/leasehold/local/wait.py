"""Waiting until nodes are registered, or serve. Between two looks `pause` is called with what is waited for; an error
that it raises ends the waiting."""

from collections.abc import Callable, Mapping, Sequence

from leasehold.client.coordinators import Coordinators
from leasehold.core.recovery.progress import in_words
from leasehold.core.words.messages import ClusterStatus, NodeStatus
from leasehold.errors import Indefinite, NotInitialised, NotLeader
from leasehold.local.files import read_address
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process


def wait_until_registered(cluster: Coordinators, name: str, pause: Callable[[str], None]) -> None:
    """Waits until a node has its id."""
    _wait(cluster, {name}, lambda node: node is not None, pause)


def wait_until_active(
    cluster: Coordinators, addresses: Mapping[str, str], pause: Callable[[str], None]
) -> ClusterStatus:
    """Waits until each of these nodes holds a lease under this address. The address tells its new process from a killed
    one, whose lease runs on for a while."""
    return _wait(
        cluster,
        set(addresses),
        lambda node: node is not None and node.state == "ACTIVE" and node.address == addresses[node.name],
        pause,
    )


def _wait(
    cluster: Coordinators, wanted: set[str], holds: Callable[[NodeStatus | None], bool], pause: Callable[[str], None]
) -> ClusterStatus:
    while True:
        try:
            status = cluster.status()
        except (Indefinite, NotInitialised, NotLeader) as error:
            pause(f"the coordinator ({error.text})")
            continue
        nodes = {node.name: node for node in status.nodes}
        late = [name for name in sorted(wanted) if not holds(nodes.get(name))]
        if not late:
            return status
        pause(", ".join(f"{name}, which {_state(nodes.get(name))}" for name in late))


def _state(node: NodeStatus | None) -> str:
    if node is None:
        return "is not registered yet"
    told = node.recovery
    return in_words(told) if told is not None and not told.case else f"is {node.state}"


def wait_until_up(process: Process, patience: ProcessPatience, needed: Sequence[Process] = ()) -> str:
    """The address of a process, once it listens, which it does only while those run that it needs."""
    while True:
        address = read_address(process.directory)
        if address is not None:
            return address
        for one in needed:
            one.check_runs()
        patience.wait(f"{process.name} to listen", [process])
