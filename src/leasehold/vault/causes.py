"""Errors of SQLite and of the file system on a vault, as ours.

Only what no other cause explains is damage: a mode, a lock or a full disk can be mended without losing the node's
identity.
"""

import errno
import sqlite3
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, LeaseholdError, OutcomeUnknown

SQLITE_ERRORS: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a call of SQLite raises. Its messages quote the file's schema; Python can't decode them if that is damaged."""
_REFUSED: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY)
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REFUSED_FILE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)


def corrupt(path: Path, why: str) -> Corrupt:
    return Corrupt(
        f"the vault {path} is damaged: {why}",
        hint=f"restore the latest copy of {path.parent}, or move it away and start a new node with --name",
    )


def disk(path: Path, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the vault {path} can't be written or read: {why}",
        code=ErrorCode.DISK,
        hint="check the disk (space, health, mode), then start this node again",
    )


class DiskFull(Exception):
    """A write found no space, and nothing of it was written."""


def is_disk_full(error: Exception) -> bool:
    """Whether the file system had no space for a write. SQLite says so before anything of the transaction counts."""
    return isinstance(error, sqlite3.Error) and result_code(error) == sqlite3.SQLITE_FULL


def explain(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError | OSError) -> LeaseholdError:
    """Ours for one of theirs: codes NO_ACCESS, LOCKED, DISK and CORRUPT."""
    if isinstance(error, OSError):
        return _no_access(path, str(error)) if error.errno in _REFUSED_FILE else disk(path, str(error))
    if isinstance(error, UnicodeDecodeError):
        return corrupt(path, "its schema is no text")
    code = result_code(error)
    if code in _REFUSED:
        return _no_access(path, str(error))
    if code in _LOCKED:
        return BadDirectory(
            f"another program has the vault {path} open: {error}",
            code=ErrorCode.LOCKED,
            hint="close that program (a copy, a backup, a database shell), then start this node again",
        )
    # What SQLite does not blame on the disk, in statements that are always the same, is damage.
    if isinstance(error, sqlite3.OperationalError) and code not in {0, sqlite3.SQLITE_ERROR}:
        return disk(path, str(error))
    return corrupt(path, str(error))


def result_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _no_access(path: Path, why: str) -> BadDirectory:
    return BadDirectory(
        f"the vault {path} can't be opened: {why}",
        code=ErrorCode.NO_ACCESS,
        hint="check that the vault and its -wal and -shm are files, check their owner and mode, then start this"
        " node again",
    )
