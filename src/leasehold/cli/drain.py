"""`leasehold node drain` and `leasehold node undrain`: a node gives up its buckets, or may have some again."""

from pathlib import Path
from typing import Any

from leasehold.cli.login import connected
from leasehold.cli.output import Countdown, Line, Output, note, say, show_json
from leasehold.cli.questions import ask
from leasehold.cli.repairs import with_copies_left
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.nodes import DRAINED
from leasehold.core.words.durations import render_duration
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, NotFound, Unreachable, typed
from leasehold.ids import NODE_NAME
from leasehold.limits.processes import NODE_WAIT_POLL_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns


def drain(directory: Path, user: str | None, name: str, *, drains: bool, wait_ns: int | None, output: Output) -> None:
    """Runs ALTER NODE; with `wait_ns` it waits until the node has no bucket any more.

    Raises the leader's errors, and `Unreachable` (NOT_DRAINED) if that takes longer.
    """
    if NODE_NAME.fullmatch(name) is None:
        raise BadSettings(f"{name[:80]!r} is not the name or number of a node", hint="`leasehold status` lists them")
    with connected(Coordinators, directory, user) as cluster:
        with Countdown() as countdown:
            cluster.sql(f"ALTER NODE {name} {'DRAIN' if drains else 'UNDRAIN'}", on_wait=countdown.update)
        node = _row(cluster, name) if wait_ns is None else _wait(directory, cluster, name, wait_ns)
    if output is Output.JSON:
        show_json({"id": node["id"], "node": node["name"], "drain": node["drain"]})
        return
    match node["drain"]:
        case None:
            say(f"{node['name']} may have buckets")
        case words if words == DRAINED:
            say(f"{node['name']} is drained")
            note(f"it may be stopped, and removed with `leasehold node remove {node['name']}`")
        case words:
            say(f"{node['name']} drains: {words}")


def _wait(directory: Path, cluster: Coordinators, name: str, wait_ns: int) -> dict[str, Any]:
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + wait_ns
    with Line() as line:
        while True:
            node = _row(cluster, name)
            if node["drain"] in {None, DRAINED}:
                return node
            if clock.now_ns() >= deadline_ns:
                raise Unreachable(
                    f"{node['name']} still drains after {render_duration(wait_ns)}: {node['drain']}",
                    code=ErrorCode.NOT_DRAINED,
                    hint=f"wait longer: `leasehold node drain {name} --wait --dir {typed(directory)} --timeout 1h`;"
                    " `leasehold status` shows which nodes are away, and open writes may delay it for ten minutes",
                )
            line.show(with_copies_left(f"{node['name']}: {node['drain']}", cluster), None)
            sleep_ns(NODE_WAIT_POLL_NS)


def _row(cluster: Coordinators, name: str) -> dict[str, Any]:
    """What SHOW NODES tells of a node."""
    nodes = ask(cluster, "SHOW NODES")
    found = [one for one in nodes if one["name"] == name] or [one for one in nodes if str(one["id"]) == name]
    if not found:
        raise NotFound(f"no node {name!r} is in this cluster any more", hint="`leasehold status` lists them")
    return found[0]
