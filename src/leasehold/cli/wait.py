"""`leasehold node wait`: waits until a node serves, or its segments have all their copies, and shows its progress."""

from pathlib import Path
from typing import Final

import msgspec

from leasehold.cli.copies import node_copies
from leasehold.cli.login import connected
from leasehold.cli.output import Line
from leasehold.cli.recovery import recovery_words
from leasehold.cli.repairs import copies_left, repairs_if_told
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import CLUSTER_FILE, read_cluster_file
from leasehold.core.words.durations import render_duration
from leasehold.core.words.messages import NodeStatus
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, NotInitialised, NotLeader, Unreachable, typed
from leasehold.limits.processes import NODE_WAIT_POLL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import read_address
from leasehold.local.process import Process
from leasehold.wire.clock import BoottimeClock, sleep_ns

JOINING: Final = "JOINING"
"""The state of a process that has not joined yet, while the leader still reports its predecessor."""


def wait_for_node(
    directory: Path, wanted: str, timeout_ns: int, user: str | None = None, *, whole: bool = False
) -> NodeStatus:
    """Returns once the node with that name or number is ACTIVE; for a node on this machine, the process that runs now.
    If `whole`, each segment of its buckets must also be on as many nodes as its table wants;
    the progress of that is shown to a `user` who may see it.

    Raises `Unreachable` with code NOT_SERVING or NOT_WHOLE, or the error of a cluster that does not answer.
    """
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + timeout_ns
    with connected(Coordinators, directory, user) as cluster, Line() as line:
        copies = CopiesLeft(cluster)
        while True:
            node, trouble = _look(cluster, wanted)
            if node is not None and _is_local(directory, node.name):
                process = Process(directory / node.name)
                node = of_this_process(node, process.running() is not None, read_address(process.directory))
            if node is not None and node.state == "ACTIVE" and (not whole or node.segments_short == 0):
                return node
            state = state_words(node, trouble)
            if clock.now_ns() >= deadline_ns:
                if node is not None and node.state == "ACTIVE":
                    raise _not_whole(directory, node, timeout_ns)
                raise trouble or not_serving(directory, wanted, node, state, timeout_ns)
            waits = node is not None and node.stage == "WAITING"  # a countdown is not a change
            left = copies.words() if node is not None and node.segments_short else ""
            line.show(f"{wanted}: {state}{left and f', {left}'}", "WAITING" if waits else None)
            sleep_ns(NODE_WAIT_POLL_NS)


class CopiesLeft:
    """What is left to copy, asked for again and again, until it is not told."""

    def __init__(self, cluster: Coordinators) -> None:
        self._cluster = cluster
        self._told = True

    def words(self) -> str:
        """Empty if nothing is copied, or if that is not told."""
        repairs = repairs_if_told(self._cluster) if self._told else None
        self._told = repairs is not None
        return copies_left(repairs or [])


def _look(cluster: Coordinators, wanted: str) -> tuple[NodeStatus | None, LeaseholdError | None]:
    try:
        nodes = cluster.status().nodes
    except (Indefinite, NotInitialised, NotLeader) as error:
        return None, error
    named = [node for node in nodes if node.name == wanted] or [node for node in nodes if str(node.id) == wanted]
    return (named[0] if named else None), None


def _is_local(directory: Path, name: str) -> bool:
    """Whether `leasehold up` starts this node in the directory."""
    return (directory / CLUSTER_FILE).exists() and name in read_cluster_file(directory).nodes


def of_this_process(node: NodeStatus, runs: bool, address: str | None) -> NodeStatus:
    """The leader's status of a node, corrected for the process that `runs` on this machine at `address`, if any.

    The lease of a killed process goes on for a while. It is not the lease of the next process, which waits for its end.
    """
    if not runs:
        return msgspec.structs.replace(node, state="DOWN")
    return node if address == node.address else msgspec.structs.replace(node, state=JOINING)


def state_words(node: NodeStatus | None, trouble: LeaseholdError | None) -> str:
    """As `RECOVERING, b: revision 1,200 of 5,000`."""
    if trouble is not None:
        return trouble.text
    if node is None:
        return "not registered"
    if node.state == JOINING:
        left = f", in {-(-node.lease_remaining_ns // SECOND_NS)} s" if node.lease_remaining_ns else ""
        return f"{JOINING}, when the lease of its last process has ended{left}"
    words = recovery_words(node) if node.state != "ACTIVE" else node_copies(node)
    return f"{node.state}, {words}" if words else node.state


def _not_whole(directory: Path, node: NodeStatus, timeout_ns: int) -> Unreachable:
    return Unreachable(
        f"{node.name} serves, but after {render_duration(timeout_ns)} copies are missing: {node_copies(node)}",
        code=ErrorCode.NOT_WHOLE,
        hint=f"`leasehold status --dir {typed(directory)}` shows which nodes are away: start them, or wait longer",
    )


def not_serving(directory: Path, wanted: str, node: NodeStatus | None, state: str, timeout_ns: int) -> Unreachable:
    """The error for a node that does not serve in time; its hint depends on the state."""
    where = f"--dir {typed(directory)}"
    wanted = wanted if node is None else node.name
    is_local = _is_local(directory, wanted)
    match None if node is None else node.state:
        case None:
            hint = (
                f"`leasehold status {where}` lists the nodes; start it with `leasehold node start --name {wanted} ..`"
            )
        case "RECOVERING" | "JOINING":
            hint = f"wait longer: `leasehold node wait {wanted} {where} --timeout 10m`"
        case "DOWN" if node is not None and node.stage == "WAITING":
            hint = f"it runs; wait longer: `leasehold node wait {wanted} {where} --timeout 11m`"
        case "DOWN" if is_local:
            hint = f"`leasehold chaos start {wanted} {where}`"
        case "DOWN":
            hint = "start it on its machine: `leasehold node start --dir ..`"
        case _ if is_local:
            hint = f"`leasehold logs {wanted} {where}`"
        case _:
            hint = "its log on its machine says why"
    text = f"{wanted} does not serve after {render_duration(timeout_ns)}: it is {state}"
    return Unreachable(text, code=ErrorCode.NOT_SERVING, hint=hint)
