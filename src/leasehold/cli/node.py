"""`leasehold node`: one data node, and what an operator does with one."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.options import (
    DEFAULT_DIR,
    Advertise,
    Asking,
    ClusterKey,
    ConfigFile,
    Dir,
    Gossip,
    Listen,
    NodeDir,
    Out,
    OwnDir,
    Restart,
    RestartWhen,
    Seeds,
    Tls,
    User,
)
from leasehold.cli.output import Output, note, say, show_json
from leasehold.cli.statement import read_timeout_ns
from leasehold.errors import BadSettings

node = typer.Typer(no_args_is_help=True, help="Run and maintain data nodes.")


@node.command()
def start(
    *,
    directory: OwnDir = None,
    coordinators: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinator",
            envvar="LEASEHOLD_COORDINATORS",
            help="host:port of a coordinator; may be repeated. Coordinators that the node already knows are"
            " asked after these.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", envvar="LEASEHOLD_NAME", show_default="the directory's name")
    ] = None,
    rack: Annotated[
        str | None,
        typer.Option(
            "--rack",
            envvar="LEASEHOLD_RACK",
            help="What the node shares a fate with, as a rack, a power supply or a host. Replicas of a bucket go to"
            " different ones where there are enough.",
        ),
    ] = None,
    listen: Listen = None,
    advertise: Advertise = None,
    seeds: Seeds = None,
    cluster_key: ClusterKey = None,
    gossip: Gossip = None,
    tls: Tls = None,
    restart: Restart = RestartWhen.ON_FAILURE,  # noqa: ARG001 - the supervisor has read it
    config: ConfigFile = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Serve nothing and contact no process: show what the directory holds.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Standalone: read the vault and every segment; exit 1 if one is damaged.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Standalone: put aside damaged segments that another node holds.")
    ] = False,
    export: Annotated[
        str | None, typer.Option("--export", metavar="SEGMENT", help="Standalone: write a segment to a Parquet file.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="The target file; an existing file is never replaced.")
    ] = None,
    output: Out = Output.TABLE,
) -> None:
    """Run one data node until a signal stops it. With --standalone, inspect or repair its directory instead."""
    from leasehold.cli.config import node_config, node_directory

    given = {
        "dir": directory,
        "name": name,
        "rack": rack,
        "coordinators": coordinators,
        "listen": listen,
        "advertise": advertise,
        "seeds": seeds,
        "cluster_key": cluster_key,
        "gossip": gossip,
        "tls": tls,
    }
    if standalone:
        from leasehold.cli.interrupt import unwound_by_interrupt
        from leasehold.cli.standalone import StandaloneOptions, run_standalone

        asked = StandaloneOptions(check=check, repair=repair, export=export, to=to)
        with unwound_by_interrupt():
            run_standalone(node_directory(config, given), asked, output)
        return
    if check or repair or export is not None or to is not None:
        raise BadSettings("that is for a node that serves nothing", hint="add --standalone, and stop the node first")
    from leasehold.cli.serve_node import run_node

    run_node(node_config(config, given))


@node.command()
def wait(
    name: Annotated[str, typer.Argument(help="The node's name or number.")],
    directory: Dir = DEFAULT_DIR,
    timeout: Annotated[str, typer.Option(help="As 60s.")] = "60s",
    whole: Annotated[
        bool, typer.Option("--whole", help="Also wait until all segments of its buckets are on enough nodes.")
    ] = False,
    user: User = None,
    output: Out = Output.TABLE,
) -> None:
    """Wait until a node serves; exit 5 if it does not within `--timeout`.

    With --whole, it also waits until each segment of the node's buckets is on as many nodes as its table wants. Then
    the loss of one node loses no rows of tables that want two replicas or more.
    """
    from leasehold.cli.copies import node_copies
    from leasehold.cli.wait import wait_for_node

    found = wait_for_node(directory, name, read_timeout_ns(timeout), user, whole=whole)
    if output is Output.JSON:
        show_json(
            {
                "id": found.id,
                "node": found.name,
                "address": found.address,
                "state": found.state,
                "segments_short": found.segments_short,
                "segments_alone": found.segments_alone,
            }
        )
        return
    say(f"{found.name} serves at {found.address}")
    if short := node_copies(found):
        note(f"{short}; `leasehold node wait {found.name} --whole` waits until that is mended")


@node.command()
def reset(
    directory: NodeDir,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")] = False,
    output: Out = Output.TABLE,
) -> None:
    """Move a node's identity, vault and segments aside, so that its next start gets a new id. Nothing is deleted.

    For a directory that its cluster refuses (an old copy, removed, ahead, diverged) or that is damaged. If interrupted,
    run it again to finish it.
    """
    from leasehold.cli.reset import reset_directory

    reset_directory(directory, yes=yes, output=output)


@node.command()
def remove(
    name: Annotated[str, typer.Argument(help="The node's name or number.")],
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Remove the node even if too few nodes remain, or if rows that only this node holds are lost.",
        ),
    ] = False,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Remove a node from the cluster for good: its buckets get other replicas, and its name becomes free.

    A running node ends, and the command waits for its lease; stop the node first to wait for a shorter time. The
    command may be run again.
    """
    from leasehold.cli.removal import remove as run

    run(directory, user, name, force=force, output=output, timeout=timeout)


@node.command()
def drain(
    name: Annotated[str, typer.Argument(help="The node's name or number.")],
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    wait_too: Annotated[bool, typer.Option("--wait", help="Wait until no bucket is left on it.")] = False,
    timeout: Annotated[str, typer.Option(help="How long to wait at most, as 60s.")] = "10m",
    output: Out = Output.TABLE,
) -> None:
    """Move the buckets of a node to others, while it serves. After that it may be stopped or removed.

    With --wait, exit 5 if buckets are left after `--timeout`; the drain goes on. The command may be run again.
    """
    from leasehold.cli.drain import drain as run

    run(directory, user, name, drains=True, wait_ns=read_timeout_ns(timeout) if wait_too else None, output=output)


@node.command()
def undrain(
    name: Annotated[str, typer.Argument(help="The node's name or number.")],
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    output: Out = Output.TABLE,
) -> None:
    """Let a node have buckets again that drains or was drained."""
    from leasehold.cli.drain import drain as run

    run(directory, user, name, drains=False, wait_ns=None, output=output)


@node.command()
def adopt(
    directory: NodeDir,
    coordinators: Annotated[
        list[str] | None,
        typer.Option(
            "--coordinator",
            envvar="LEASEHOLD_COORDINATORS",
            help="host:port; may be repeated. Those that the directory knows from before are asked after them.",
        ),
    ] = None,
    cluster_key: Annotated[
        Path | None,
        typer.Option(
            "--cluster-key",
            envvar="LEASEHOLD_CLUSTER_KEY",
            help="The file with the cluster key.",
            show_default="cluster.key beside the directory, if it is there",
        ),
    ] = None,
    tls: Tls = None,
    output: Out = Output.TABLE,
) -> None:
    """Make an older copy of a node's directory continue as that node, if the newest directory is lost.

    It waits until no process of the node serves any more. If a process of the node is alive, nothing changes. If the
    cluster was recovered from an older state, the contents of the directory are kept in before-adopt-<n> in it.
    """
    from leasehold.cli.removal import adopt as run

    run(directory, tuple(coordinators or ()), cluster_key, tls, output)
