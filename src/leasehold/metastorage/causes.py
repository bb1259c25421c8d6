"""SQLite's errors as ours: what happened to the file, and whether a transaction may have happened."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, Indefinite, LeaseholdError, Refused


def result_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def corrupt(path: Path, what: str) -> Corrupt:
    """The file is not what was written to it."""
    hint = "stop the coordinator, empty the directory, and restore the whole of a backup"
    return Corrupt(f"{path} is damaged: {what}", hint=hint)


def unclear(path: Path, error: sqlite3.Error) -> Indefinite:
    """A commit, or its undoing, that failed half way."""
    return Indefinite(
        f"a commit to {path} may or may not have happened: {error}",
        code=ErrorCode.STORAGE_FAILED,
        hint="check the disk, restart the coordinator, then look whether it happened",
    )


def explain(path: Path, error: sqlite3.Error) -> LeaseholdError:
    """Ours for SQLite's; only for what surely did not happen."""
    kinds: dict[int, Callable[[], LeaseholdError]] = {
        sqlite3.SQLITE_CORRUPT: lambda: corrupt(path, str(error)),
        sqlite3.SQLITE_NOTADB: lambda: corrupt(path, str(error)),
        sqlite3.SQLITE_FULL: lambda: Refused(
            f"no space for {path}", code=ErrorCode.DISK_FULL, hint=f"free space under {path.parent}, then ask again"
        ),
        sqlite3.SQLITE_BUSY: lambda: BadDirectory(
            f"another program has {path} open", hint="close that program, then start again"
        ),
    }
    kind = kinds.get(result_code(error))
    if kind is not None:
        return kind()
    return BadDirectory(f"{path} can't be used: {error}", hint="check the disk and the file's owner and rights")
