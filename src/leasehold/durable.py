"""Makes writes to files survive a crash of the machine."""

import errno
import os
from pathlib import Path
from typing import Final

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of the system if a disk, a quota or a limit leaves no room for a write."""


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
