"""`leasehold rebalance`: shows which buckets would move, begins that, waits for it, or stops it."""

from pathlib import Path
from typing import Final

from leasehold.cli.login import connected
from leasehold.cli.output import Countdown, Line, Output, note, say, show_json, show_table
from leasehold.cli.questions import NamedRows, ask
from leasehold.cli.repairs import with_copies_left
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.rebalance import COLUMNS
from leasehold.core.words.durations import render_duration
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Unreachable, typed
from leasehold.limits.processes import NODE_WAIT_POLL_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns

_MIB: Final = 1024 * 1024


def rebalance(
    directory: Path, user: str | None, *, dry_run: bool, stop: bool, wait_ns: int | None, output: Output
) -> None:
    """Runs ALTER CLUSTER REBALANCE, or STOP REBALANCE; shows the plan first, and only that in a `dry_run`. With
    `wait_ns` it waits until nothing moves any more.

    Raises the leader's errors, and `Unreachable` (NOT_REBALANCED) if that takes longer.
    """
    if stop and (dry_run or wait_ns is not None):
        raise BadSettings("--stop goes with no other option", hint="run `leasehold rebalance --stop` alone")
    if dry_run and wait_ns is not None:
        raise BadSettings("--dry-run begins nothing to wait for", hint="leave out --dry-run or --wait")
    with connected(Coordinators, directory, user) as cluster:
        moves = _moves(cluster)
        if output is not Output.JSON and not stop:
            _show(moves)
        if stop or (moves and not dry_run):
            with Countdown() as countdown:
                cluster.sql(f"ALTER CLUSTER {'STOP ' if stop else ''}REBALANCE", on_wait=countdown.update)
        if wait_ns is not None:
            _wait(directory, cluster, wait_ns)
        is_under_way, left = _is_under_way(cluster), _moves(cluster)
    if output is Output.JSON:
        show_json({"rebalancing": is_under_way, "moves": moves, "left": left})
    elif is_under_way:
        say("buckets move")
        note("`leasehold rebalance --wait` waits for that, `leasehold rebalance --stop` stops it")
    elif not dry_run:
        say(f"no bucket moves any more, {_summed(left)} left" if left else "no bucket moves any more")


def _show(moves: NamedRows) -> None:
    if not moves:
        say("no bucket has to move: the nodes hold about as much as each other")
        return
    shown = [{**one, "bytes": f"{one['bytes'] / _MIB:.1f}"} for one in moves]
    show_table([*COLUMNS[:-2], "MiB", COLUMNS[-1]], [tuple(one.values()) for one in shown])
    say(_summed(moves))


def _summed(moves: NamedRows) -> str:
    return f"{len(moves)} move{'' if len(moves) == 1 else 's'}, {sum(one['bytes'] for one in moves) / _MIB:.1f} MiB"


def _wait(directory: Path, cluster: Coordinators, wait_ns: int) -> None:
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + wait_ns
    with Line() as line:
        while _is_under_way(cluster):
            left = _summed(_moves(cluster))
            if clock.now_ns() >= deadline_ns:
                raise Unreachable(
                    f"buckets still move after {render_duration(wait_ns)}: {left} left",
                    code=ErrorCode.NOT_REBALANCED,
                    hint=f"wait longer: `leasehold rebalance --wait --dir {typed(directory)} --timeout 4h`;"
                    " `leasehold status` shows which nodes are away",
                )
            line.show(with_copies_left(f"{left} left", cluster), None)
            sleep_ns(NODE_WAIT_POLL_NS)


def _is_under_way(cluster: Coordinators) -> bool:
    return {one["setting"]: one["value"] for one in ask(cluster, "SHOW CLUSTER")}["rebalancing"] == "yes"


def _moves(cluster: Coordinators) -> NamedRows:
    return ask(cluster, "SHOW REBALANCE")
