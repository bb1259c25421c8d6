"""One process per directory: an exclusive lock that the kernel ends with the process."""

import fcntl
import os
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory

LOCK_NAME: Final = "lock"
PID_DIGITS_MAX: Final = 20


class DirectoryLock:
    """An flock on `<directory>/lock`, held from construction to `release`. The file stays, with its holder's pid."""

    def __init__(self, directory: Path) -> None:
        """Makes the directory if need be. Raises `BadDirectory`: code LOCKED while another process holds it, NO_ACCESS
        where the file system refuses."""
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadDirectory(
                f"can't use the directory {directory}: {error.strerror}",
                code=ErrorCode.NO_ACCESS,
                hint="check its owner and mode, or choose another directory",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, PID_DIGITS_MAX).decode("ascii", "replace").strip()
            os.close(file)
            raise BadDirectory(
                f"the directory {directory} is in use by {f'process {holder}' if holder else 'another process'}",
                code=ErrorCode.LOCKED,
                hint="stop that process first, or give this process a directory of its own",
            ) from error
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        self._file: int | None = file

    def release(self) -> None:
        """Idempotent."""
        # The file is left: unlinking it would let two processes lock two files of one name.
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
