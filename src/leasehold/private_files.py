"""Reads small files up to a bound, and never waits for a pipe. A file that holds a secret, or says who is trusted, is
refused if another user has access to it.

Checked is the file that was opened, so a link that changes meanwhile leads nowhere else.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from leasehold.errors import LeaseholdError, typed

SYSTEMD_FOLDER_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
"""systemd's variable for the folder of what its LoadCredential= hands to this process alone."""
_WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

MakesError: TypeAlias = Callable[[str, str], LeaseholdError]
"""Makes the error of what is wrong with a file: a sentence without its subject, the file, and a hint."""


def read_secret(path: Path, bytes_max: int, refused: MakesError, hint: str) -> bytes:
    """A file that nobody else can read or change. Raises what `refused` makes, which never shows what the file holds;
    `hint` is for one that is missing, no file, or too large."""
    return _read(path, _OTHERS & ~_granted_by_systemd(path), bytes_max, refused, hint)


def read_trusted(path: Path, bytes_max: int, refused: MakesError, hint: str) -> bytes:
    """As `read_secret`, of a file that others may read, but not change."""
    return _read(path, _WRITERS, bytes_max, refused, hint)


def read_any(path: Path, bytes_max: int, refused: MakesError, hint: str) -> bytes:
    """As `read_secret`, of a file that anybody may read and change."""
    return _read(path, None, bytes_max, refused, hint)


def read_if_there(path: Path, bytes_max: int, refused: MakesError, hint: str) -> bytes | None:
    """As `read_any`; None if nothing has this path."""
    try:
        return read_any(path, bytes_max, refused, hint)
    except LeaseholdError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise


def check_unchanged_by_others(path: Path, found: os.stat_result, refused: MakesError) -> None:
    """Raises what `refused` makes if another user could change the file or directory."""
    _check_access(path, found, _WRITERS, refused)


def _read(path: Path, forbidden: int | None, bytes_max: int, refused: MakesError, hint: str) -> bytes:
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise refused("is not a file", hint)
        if forbidden is not None:
            _check_access(path, found, forbidden, refused)
        if found.st_size > bytes_max:
            raise refused(f"has {found.st_size} bytes, and may have at most {bytes_max}", hint)
        return os.read(descriptor, bytes_max)
    except OSError as error:
        raise refused(f"can't be read: {error.strerror}", hint) from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _check_access(path: Path, found: os.stat_result, forbidden: int, refused: MakesError) -> None:
    if found.st_uid not in {0, os.geteuid()}:
        hint = f"run it as that user, or `chown {os.geteuid()} {typed(path)}`"
        raise refused(f"belongs to another user (uid {found.st_uid})", hint)
    if found.st_mode & forbidden:
        what, letters = ("changed", "w") if forbidden == _WRITERS else ("read or changed", "rwx")
        hint = f"`chmod go-{letters} {typed(path)}` takes that right away"
        raise refused(f"can be {what} by other users: its mode is {stat.S_IMODE(found.st_mode):04o}", hint)


def _granted_by_systemd(path: Path) -> int:
    """The bits of the mode that mean nothing. systemd may grant a process its credentials by an ACL, which shows in the
    bits of the group; nobody else can enter the folder."""
    return stat.S_IRGRP if str(path.parent) == os.environ.get(SYSTEMD_FOLDER_VARIABLE) else 0
