"""Makes writes to files survive a crash of the machine."""

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import BinaryIO, Final, NamedTuple

from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, BadDirectory, Refused

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of the system if a disk, a quota or a limit leaves no room for a write."""


def no_room(what: object) -> BadDirectory:
    """The error for a temporary copy of `what` that found the disk full."""
    return BadDirectory(
        f"no space is left in {gettempdir()} for the copy of {what} that is read",
        code=ErrorCode.DISK,
        hint="free space there, or name another folder with the variable TMPDIR; nothing was changed",
    )


def sync_file(path: Path) -> None:
    """Makes a file durable. Raises `OSError`."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable. Raises `OSError`; `NotADirectoryError` at once for anything else, also for a
    pipe that nobody writes to."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class UnnamedFile(NamedTuple):
    """A file that does not have its name yet, to write and read; `scratch` is where it lies until then."""

    file: BinaryIO
    scratch: Path


@contextmanager
def named_when_whole(
    target: Path, *, exists: Callable[[Path], AlreadyExists], hint: str, replaces: bool = False
) -> Generator[UnnamedFile]:
    """A file, for its owner alone, that becomes `target` once the block has ended and the file is durable; after an
    error nothing is left. It takes the place of a file of that name only if it `replaces` it.

    Raises what `exists` makes if a file is in the way, and `Refused` (NOT_WRITTEN) with the `hint`.
    """
    scratch = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield UnnamedFile(file, scratch)
                file.flush()
                os.fsync(descriptor)
            if replaces:
                scratch.replace(target)
            else:
                target.hardlink_to(scratch)  # a rename would replace a file of that name
        finally:
            scratch.unlink(missing_ok=True)
        sync_folder(target.parent)
    except FileExistsError as error:
        raise exists(Path(str(error.filename2 or error.filename))) from error
    except OSError as error:
        raise Refused(f"{target} can't be written: {error.strerror}", code=ErrorCode.NOT_WRITTEN, hint=hint) from error
