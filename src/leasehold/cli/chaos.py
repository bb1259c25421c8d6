"""`leasehold chaos`: breaks a process of a cluster on this machine, and repairs it."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import DEFAULT_DIR, Dir, NodeName, Out
from leasehold.cli.output import Output, note, show_answer
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused

if TYPE_CHECKING:
    from leasehold.local.process import Process

chaos = typer.Typer(no_args_is_help=True, help="Break a process of a cluster on this machine, and repair it.")


def _chaos(directory: Path, name: str, number: signal.Signals, verb: str, output: Output) -> None:
    process = _process(directory, name)
    _check_paused(process, number)
    process.signal(number)
    _done(process.name, verb, output)


def _process(directory: Path, name: str) -> "Process":
    from leasehold.local.processes import LocalCluster

    return LocalCluster(directory).node(name)


def _check_paused(process: "Process", number: signal.Signals) -> None:
    """Raises `Refused` if the signal would change nothing."""
    if process.running() is None:
        return
    if process.is_paused() and number is signal.SIGSTOP:
        hint = f"let it go on with `leasehold chaos resume {process.name}`"
        raise Refused(f"{process.name} is already paused", code=ErrorCode.PAUSED, hint=hint)
    if not process.is_paused() and number is signal.SIGCONT:
        raise Refused(f"{process.name} is not paused: it runs", code=ErrorCode.NOT_PAUSED, hint="no action is needed")


def _done(name: str, verb: str, output: Output) -> None:
    show_answer(output, {"node": name, "done": verb}, f"{name} {verb}")


@chaos.command()
def kill(
    node: NodeName,
    directory: Dir = DEFAULT_DIR,
    machine: Annotated[
        bool, typer.Option("--machine", help="Also kill its supervisor, as if the machine had failed.")
    ] = False,
    output: Out = Output.TABLE,
) -> None:
    """Kill a process with SIGKILL. Its supervisor tells the cluster, and ends."""
    process = _process(directory, node)
    if machine:
        process.signal(signal.SIGKILL)
    else:
        process.kill_below_supervisor()
    process.wait_until_gone()
    _done(process.name, "killed", output)


@chaos.command()
def pause(node: NodeName, directory: Dir = DEFAULT_DIR, output: Out = Output.TABLE) -> None:
    """Pause a process with SIGSTOP."""
    _chaos(directory, node, signal.SIGSTOP, "paused", output)


@chaos.command()
def resume(node: NodeName, directory: Dir = DEFAULT_DIR, output: Out = Output.TABLE) -> None:
    """Resume a paused process with SIGCONT."""
    _chaos(directory, node, signal.SIGCONT, "resumed", output)


@chaos.command()
def start(node: NodeName, directory: Dir = DEFAULT_DIR, output: Out = Output.TABLE) -> None:
    """Start a process that does not run; a node gets another port.

    Returns when the node has joined or has run for 2 s. A killed node joins when its old lease has ended.
    """
    from leasehold.local.processes import LocalCluster

    process = LocalCluster(directory).start(node)
    _done(process.name, "started", output)
    note("`leasehold status` shows when it serves")
