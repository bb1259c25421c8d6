"""What makes writes to files survive the machine."""

import errno
import os
from pathlib import Path
from typing import Final

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where a disk, a quota or a limit leaves no room for a write."""


def sync_file(path: Path) -> None:
    """Makes a file durable. Raises `OSError`."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Makes durable which names a folder holds. Raises `OSError`; `NotADirectoryError` at once for what is none, as a
    pipe that nobody writes to."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
