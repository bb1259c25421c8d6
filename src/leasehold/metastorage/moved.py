"""What is said about a meta storage that goes on elsewhere, or that a move has not finished."""

from typing import Final

from leasehold.core.words.records import MetaMoveRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, typed

TO_FILE: Final = "sqlite"
"""What `leasehold meta migrate --to` takes for a file of a coordinator's own."""


class MetaMoved(BadDirectory):
    """The meta storage goes on elsewhere: no coordinator leads on this one any more."""

    default_code = ErrorCode.META_MOVED


class MetaUnfinished(BadDirectory):
    """A move is filling the log: no coordinator may use it yet."""

    default_code = ErrorCode.META_UNFINISHED


def moved(what: str, move: MetaMoveRecord) -> MetaMoved:
    """The error for a meta storage, described by `what`, that has this mark."""
    is_file = "://" not in move.to
    if not move.is_finished:
        to = f"{TO_FILE} --dir {typed(move.to)}" if is_file else typed(move.to)
        return MetaMoved(
            f"{what} is being moved to {move.to}, and the move is not finished",
            hint=f"run the same `leasehold meta migrate` with --to {to} again: it finishes the move",
        )
    start = f"--dir {typed(move.to)}, without --meta" if is_file else f"--meta {typed(move.to)}, and an empty --dir"
    return MetaMoved(f"{what} has moved to {move.to}", hint=f"start the coordinator with {start}")
