"""`leasehold node reset`: asks, moves the contents of a node's directory aside, and says what to do next."""

from pathlib import Path

from leasehold.cli.output import Output, confirm, note, show_answer
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, NotFound, typed
from leasehold.ids import NodeId
from leasehold.node.directory.reset import check_node_directory, reset
from leasehold.vault.inspect import inspect


def reset_directory(directory: Path, *, yes: bool, output: Output) -> None:
    """Raises what `confirm` raises, unless `yes`, and what is wrong with the directory."""
    check_node_directory(directory)
    known = _known(directory)
    if not yes:
        who = f", which is node {known}," if known else ""
        confirm(
            f"{directory}{who} gets a new id, and its segments are moved aside; continue?",
            why=f"a reset makes {directory} another node, which needs a confirmation",
            otherwise="nothing was reset",
        )
    moved = reset(directory)
    value = {"moved": list(moved.names), "to": str(moved.folder)}
    show_answer(output, value, f"moved {', '.join(moved.names)} to {moved.folder}")
    note(
        f"what to do next: `leasehold node remove {known or 'NAME'}` removes the old id from the cluster;"
        f" `leasehold node start --dir {typed(directory)} ..` gets a new id;"
        f" delete {moved.folder} when it is not needed any more"
    )


def _known(directory: Path) -> NodeId | None:
    """The id in the vault, if it can be read. Raises `BadDirectory` with code LOCKED while a process runs."""
    try:
        return inspect(directory).node
    except NotFound:
        return None
    except BadDirectory as error:
        if error.code == ErrorCode.LOCKED:
            raise
        return None  # damaged, of a newer version, or unreadable: it is put aside unread
