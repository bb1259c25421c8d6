"""`leasehold up`: a cluster on this machine."""

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import DEFAULT_DIR, Dir, Out
from leasehold.cli.output import Output, note
from leasehold.errors import typed

if TYPE_CHECKING:
    from leasehold.local.processes import LocalCluster


class LocalStore(StrEnum):
    """What `--meta` takes: the names of `local.members.ENGINES`."""

    ETCD = "etcd"
    ZOOKEEPER = "zookeeper"


def up(
    directory: Dir = DEFAULT_DIR,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", "-n", help="The number of data nodes.", show_default="the nodes that it has; 3 for a new cluster"
        ),
    ] = None,
    coordinators: Annotated[
        int | None,
        typer.Option(
            "--coordinators",
            help="The number of coordinators: 1, 3 or 5. Several share a store, which is started as well.",
            show_default="those that it has; 1 for a new cluster",
        ),
    ] = None,
    meta: Annotated[
        LocalStore | None,
        typer.Option(
            "--meta",
            help="The store that several coordinators share.",
            show_default="the one that it has; for a new one etcd if there is one on this machine, else zookeeper",
        ),
    ] = None,
    *,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Make a cluster without TLS: its passwords and rows travel in the clear.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the cluster is up.")] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long to wait for processes that run and make progress, such as 5m.")
    ] = "5m",
    output: Out = Output.TABLE,
) -> None:
    """Start a coordinator and its data nodes here, or those that do not run; stop them at Ctrl-C or SIGTERM."""
    from leasehold.cli.statement import read_timeout_ns
    from leasehold.local.processes import LocalCluster
    from leasehold.local.stop import StopSignals, ToldToStop
    from leasehold.wire.clock import BoottimeClock

    until_ns = BoottimeClock().now_ns() + read_timeout_ns(timeout)
    if detach:
        local = LocalCluster(directory, tell=note, until_ns=until_ns)
        _start(local, nodes, coordinators, meta, not insecure, output)
        note(f"the cluster keeps running; stop it with `leasehold down --dir {typed(directory)}`")
        return
    signals = StopSignals()
    local = LocalCluster(directory, pause=signals.pause, tell=note, until_ns=until_ns)
    try:
        with contextlib.suppress(ToldToStop):
            _start(local, nodes, coordinators, meta, not insecure, output)
            note("running; Ctrl-C stops it")
            signals.wait()
    except SystemExit:  # nobody reads its output any more
        local.down()
        raise
    note("stopping")
    local.down()


def _start(
    local: "LocalCluster",
    nodes: int | None,
    coordinators: int | None,
    meta: LocalStore | None,
    tls: bool,
    output: Output,
) -> None:
    from leasehold.cli.status import show_cluster
    from leasehold.client.coordinators import Coordinators

    several = "a coordinator" if coordinators in {None, 1} else f"{coordinators} coordinators"
    note(f"starting {several} and {'the' if nodes is None else nodes} nodes in {local.directory}")
    local.up(nodes, coordinators, meta, tls=tls)
    local.wait_until_active()
    with Coordinators(local.directory) as cluster:
        show_cluster(cluster, output)
