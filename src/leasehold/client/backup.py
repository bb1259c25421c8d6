"""The file of a backup: it gets its name once it is whole and durable. Only its owner can read it, since it holds
password hashes."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Refused


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
    if target.is_dir() or (os.path.lexists(target) and not force):
        raise _exists(target)
    scratch = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield BackupFile(file, scratch)
                file.flush()
                os.fsync(descriptor)
            if force:
                scratch.replace(target)
            else:
                target.hardlink_to(scratch)  # a rename would replace a file of that name
        finally:
            scratch.unlink(missing_ok=True)
        sync_folder(target.parent)
    except FileExistsError as error:
        raise _exists(Path(str(error.filename2 or error.filename))) from error
    except OSError as error:
        raise Refused(
            f"{target} can't be written: {error.strerror}", code=ErrorCode.NOT_WRITTEN, hint="choose another file"
        ) from error


def _exists(target: Path) -> AlreadyExists:
    if target.is_dir():
        return AlreadyExists(f"{target} is a directory", hint="name a file")
    return AlreadyExists(f"{target} already exists", hint="choose another name, or replace it with --force")
