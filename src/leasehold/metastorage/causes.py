"""Errors of a meta storage: SQLite's errors translated, too many requests, and a storage that was closed or failed."""

import sqlite3
from pathlib import Path

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, Indefinite, LeaseholdError, Refused
from leasehold.limits.requests import COMMAND_QUEUE_MAX


def result_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def busy() -> Refused:
    """Too many requests wait."""
    text = f"{COMMAND_QUEUE_MAX} requests already wait for the meta storage"
    return Refused(text, code=ErrorCode.BUSY, hint="ask again later")


def closed(storage: str, cause: LeaseholdError | None) -> Refused:
    """For a request after the storage has ended; `cause` is the error that ended it, None if it was closed."""
    if cause is None:
        return Refused(f"{storage} is closed", code=ErrorCode.CLOSED, hint="open it again")
    return Refused(f"{storage} {_ended(cause)}", code=cause.code, hint=cause.hint)


def unanswered(storage: str, cause: LeaseholdError | None) -> Indefinite:
    """For a request that was waiting when the storage ended: its outcome is unknown."""
    text = f"no answer: {storage} {_ended(cause)}"
    return Indefinite(text, code=ErrorCode.CLOSED, hint="open it again and look whether it happened")


def _ended(cause: LeaseholdError | None) -> str:
    return "is closed" if cause is None else f"failed: {cause.text}"


def corrupt(path: Path, what: str) -> Corrupt:
    hint = "stop the coordinator, empty the directory, and restore the whole of a backup"
    return Corrupt(f"{path} is damaged: {what}", hint=hint)


def unclear(path: Path, error: sqlite3.Error) -> Indefinite:
    """For a commit or a rollback that failed half way: its outcome is unknown."""
    return Indefinite(
        f"a commit to {path} may or may not have happened: {error}",
        code=ErrorCode.STORAGE_FAILED,
        hint="check the disk, restart the coordinator, then look whether it happened",
    )


def explain(path: Path, error: sqlite3.Error) -> LeaseholdError:
    """Translates an error of SQLite. Only for a transaction that certainly did not happen."""
    match result_code(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return corrupt(path, str(error))
        case sqlite3.SQLITE_FULL:
            hint = f"free space under {path.parent}, then ask again"
            return Refused(f"no space for {path}", code=ErrorCode.DISK_FULL, hint=hint)
        case sqlite3.SQLITE_BUSY:
            return BadDirectory(f"another program has {path} open", hint="close that program, then start again")
        case _:
            hint = "check the disk and the file's owner and rights"
            return BadDirectory(f"{path} can't be used: {error}", hint=hint)
