"""`leasehold status`: the coordinators, the nodes, their leases, and the progress of recoveries."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from leasehold.cli.copies import copies_lines
from leasehold.cli.output import Output, milliseconds, say, show_json, show_table
from leasehold.cli.questions import NamedRows
from leasehold.cli.recovery import recovery_json, recovery_line
from leasehold.cli.repairs import copies_left, repairs_if_told
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import coordinator_names
from leasehold.core.data.coordinator_client import CoordinatorRole
from leasehold.core.questions.nodes import DRAINED, DRAINING
from leasehold.core.words.durations import render_duration
from leasehold.core.words.messages import ClusterStatus
from leasehold.errors import Unreachable
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

_DRAINS: Final = {
    DRAINING: "drains: its buckets move to other nodes; SHOW NODES shows how many are left",
    DRAINED: "drained: it has no buckets, and may be stopped or removed",
}
"""What status says about a member that drains, by its stage."""
_ENDS: Final = {
    "NO_ANSWER": "it stopped answering {ago} s ago: it is paused, hangs, is cut off or has ended",
    "GONE": "its connection was closed {ago} s ago: its process has ended, or can't reach the coordinator",
    "CLOSED": "its process closed the session {ago} s ago",
    "SURRENDERED": "it was stopped cleanly {ago} s ago",
    "ENDED": "its process ended {ago} s ago, as its supervisor reports; that process's log says more",
    "REFUSED": "the coordinator ended its session {ago} s ago; the coordinator's log says why",
}
"""What status says about a node that is not connected, by the end of its last session."""


class ShownCoordinator(NamedTuple):
    """A line about a coordinator."""

    name: str
    address: str
    role: CoordinatorRole


def show_cluster(cluster: Coordinators, output: Output) -> None:
    """The coordinators, the nodes and their leases. While nobody leads, the coordinators if there are several; then it
    raises what the question for the nodes raised."""
    try:
        status = cluster.status()
    except Unreachable:
        coordinators = _coordinators(cluster)
        if len(coordinators) > 1 and output is Output.JSON:
            show_json(_coordinators_json(coordinators))
        elif len(coordinators) > 1:
            _show_coordinators(coordinators)
        raise
    show_status(status, output, _coordinators(cluster), repairs_if_told(cluster))


def _coordinators(cluster: Coordinators) -> list[ShownCoordinator]:
    names = coordinator_names(cluster.target)
    return [ShownCoordinator(names.get(address, address), address, role) for address, role in cluster.roles().items()]


def _show_coordinators(coordinators: Sequence[ShownCoordinator]) -> None:
    show_table(["coordinator", "address", "role"], coordinators)


def _coordinators_json(coordinators: Sequence[ShownCoordinator]) -> dict[str, Any]:
    return {"coordinators": [one._asdict() for one in coordinators]}


def show_status(
    status: ClusterStatus,
    output: Output,
    coordinators: Sequence[ShownCoordinator] = (),
    repairs: NamedRows | None = None,
) -> None:
    """What the leader tells of the nodes, and of `repairs` if it does, and what the coordinators tell of themselves."""
    if output is Output.JSON:
        show_json(_as_json(status) | _coordinators_json(coordinators) | {"repairs": repairs})
        return
    say(
        f"cluster {status.cluster_id}, term {status.term}, revision {status.revision};"
        f" a schema change takes at most {status.bound_ns / SECOND_NS:.1f} s"
    )
    if status.anybody_may_join:
        say(
            "WARNING: anyone who can reach the coordinator's port may join as a node and copy all data: it has no"
            " cluster key (start it with --cluster-key FILE)"
        )
    for warning in status.store_warnings:
        say(f"WARNING: {warning}", style="yellow")
    if status.clock_ahead_ns:
        ahead = render_duration(status.clock_ahead_ns // SECOND_NS * SECOND_NS)
        say(
            f"the wall clock of the coordinator is ahead by {ahead}: it is not trusted, and rows expire by measured"
            f" time\nhint: correct the clock; if it is right, ALTER CLUSTER SET clock_step = '..' to more than that,"
            " and back a minute later"
        )
    if len(coordinators) > 1:
        _show_coordinators(coordinators)
    columns = ["id", "name", "address", "incarnation", "state", "applied", "lease ms"]
    rows = [
        (
            node.id,
            node.name,
            node.address,
            node.incarnation,
            node.state,
            node.applied_revision,
            node.lease_remaining_ns // MILLISECOND_NS,
        )
        for node in status.nodes
    ]
    seen = [node.seen for node in status.nodes]
    if set(seen) - {"", "ALIVE"}:
        columns.append("seen")
        rows = [(*row, told) for row, told in zip(rows, seen, strict=True)]
    show_table(columns, rows)
    for line in _node_lines(status):
        say(line)
    for line in copies_lines(status):
        say(line)
    if left := copies_left(repairs or []):
        say(f"under way: {left}")


def _node_lines(status: ClusterStatus) -> Iterator[str]:
    """What is unusual about each node."""
    silent_ns = {one.node: one.silent_ns for one in status.silences}
    ends = {one.node: one for one in status.session_ends}
    for node in status.nodes:
        if (silent := silent_ns.get(node.id, 0)) >= SILENT_SHOWN_NS:
            yield f"{node.name}: connected, silent for {silent / SECOND_NS:.1f} s: it is paused, or its machine hangs"
        if node.id in status.disks_full:
            yield f"{node.name}: DISK_FULL: it takes no rows until there is space on its disk"
        if node.id in status.disks_failing:
            yield f"{node.name}: DISK_ERROR: its disk fails, so other nodes take over its buckets; its log says how"
        if (end := ends.get(node.id)) is not None and end.how in _ENDS:
            yield f"{node.name}: {_ENDS[end.how].format(ago=f'{end.ago_ns / SECOND_NS:.1f}')}"
        if node.stage in _DRAINS:
            yield f"{node.name}: {_DRAINS[node.stage]}"
        if line := recovery_line(node):
            yield f"{node.name}: {line}"


def _as_json(status: ClusterStatus) -> dict[str, Any]:
    silent_ms = {one.node: one.silent_ns // MILLISECOND_NS for one in status.silences}
    ends = {one.node: one for one in status.session_ends}
    lacked = {one.node: one.segments for one in status.lacked}
    return {
        "cluster_id": status.cluster_id,
        "term": status.term,
        "revision": status.revision,
        "bound_ms": milliseconds(status.bound_ns),
        "anybody_may_join": status.anybody_may_join,
        "segments_short": status.segments_short,
        "segments_lost": status.segments_lost,
        "clock_ahead_s": status.clock_ahead_ns // SECOND_NS,
        "store_warnings": list(status.store_warnings),
        "nodes": [
            {
                "id": node.id,
                "name": node.name,
                "address": node.address,
                "incarnation": node.incarnation,
                "state": node.state,
                "applied_revision": node.applied_revision,
                "lease_remaining_ms": node.lease_remaining_ns // MILLISECOND_NS,
                "stage": node.stage,
                "recovery": recovery_json(node.recovery),
                "seen": node.seen,
                "segments_short": node.segments_short,
                "segments_alone": node.segments_alone,
                "segments_lacked": lacked.get(node.id, 0),
                "silent_ms": silent_ms.get(node.id),
                "disk_full": node.id in status.disks_full,
                "disk_failing": node.id in status.disks_failing,
                "session_end": None if (end := ends.get(node.id)) is None else end.how,
                "session_ended_ms": None if end is None else end.ago_ns // MILLISECOND_NS,
            }
            for node in status.nodes
        ],
    }
