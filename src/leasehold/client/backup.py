"""The file of a backup: it gets its name once it is whole and durable. Only its owner can read it, since it holds
password hashes."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from leasehold.durable import named_when_whole
from leasehold.errors import AlreadyExists


class BackupFile:
    """The bytes of a backup, in a file that has no name yet; implements `core.data.backup.BackupTarget`."""

    def __init__(self, file: BinaryIO, scratch: Path) -> None:
        self._file = file
        self._scratch = scratch

    def give_up(self) -> None:
        """Deletes it; for a process that ends at once."""
        self._scratch.unlink(missing_ok=True)

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def write(self, blob: bytes) -> None:
        self._file.write(blob)


@contextmanager
def backup_file(target: Path, *, force: bool) -> Generator[BackupFile]:
    """A file that becomes `target` at the end of the block, unless an error ends it. With `force` it replaces a file
    there. Raises `AlreadyExists`, and `Refused` with code NOT_WRITTEN."""
    if os.path.lexists(target) and not (force and target.is_file()):
        raise _exists(target)
    with named_when_whole(target, exists=_exists, hint="choose another file", replaces=force) as unnamed:
        yield BackupFile(*unnamed)


def _exists(target: Path) -> AlreadyExists:
    if not target.is_file():
        what = "is a directory" if target.is_dir() else "exists and is not a file"
        return AlreadyExists(f"{target} {what}", hint="choose another name")
    return AlreadyExists(f"{target} already exists", hint="choose another name, or replace it with --force")
