"""`leasehold node reset`: asks, puts a node's directory aside, and says what to do next."""

import sys
from pathlib import Path

from leasehold.cli.output import Output, confirmed, note, say, show_json
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, NotFound, Refused, typed
from leasehold.ids import NodeId
from leasehold.node.directory.reset import check_node_directory, reset
from leasehold.vault.inspect import inspect


def reset_directory(directory: Path, *, yes: bool, output: Output) -> None:
    """Raises `BadSettings` with code NEEDS_YES where nobody can be asked, `Refused` if somebody says no."""
    check_node_directory(directory)
    known = _known(directory)
    if not yes:
        _confirm(directory, known)
    moved = reset(directory)
    if output is Output.JSON:
        show_json({"moved": list(moved.names), "to": str(moved.folder)})
    else:
        say(f"moved {', '.join(moved.names)} to {moved.folder}")
    note(
        f"what to do next: `leasehold node remove {known or 'NAME'}` removes the old id from the cluster;"
        f" `leasehold node start --dir {typed(directory)} ..` gets a new id;"
        f" delete {moved.folder} when it is not needed any more"
    )


def _known(directory: Path) -> NodeId | None:
    """The id that the vault still tells, if it does. Raises `BadDirectory` with code LOCKED while a process runs."""
    try:
        return inspect(directory).node
    except NotFound:
        return None
    except BadDirectory as error:
        if error.code == ErrorCode.LOCKED:
            raise
        return None  # damaged, of a newer version, or not to be read: it is put aside unread


def _confirm(directory: Path, known: NodeId | None) -> None:
    if not sys.stdin.isatty():
        raise BadSettings(
            f"a reset makes {directory} another node, which needs a confirmation",
            code=ErrorCode.NEEDS_YES,
            hint="run it with --yes, or on a terminal",
        )
    who = f", which is node {known}," if known else ""
    if not confirmed(f"{directory}{who} gets a new id, and its segments are moved aside; continue?"):
        raise Refused("nothing was reset", code=ErrorCode.NOT_CONFIRMED, hint="answer y to go on")
