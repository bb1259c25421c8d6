"""Checks that a node's folders lie in one mount, so that files move between them by one rename."""

import re
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory

FOLDERS: Final = ("segments", "staging", "trash")
_TABLE: Final = Path("/proc/self/mountinfo")
_MOUNT_POINT: Final = 4
"""The index of this word in a line; its blanks are written as octal digits."""


def check_one_mount(directory: Path) -> None:
    """Raises `BadDirectory` with code OTHER_DISK if one of the folders in `directory` is a mount or on another disk."""
    try:
        mounts, device = _mount_points(), directory.stat().st_dev
        for name in FOLDERS:
            folder = directory / name
            if folder.exists() and (folder.stat().st_dev != device or folder.resolve() in mounts):
                raise BadDirectory(
                    f"{folder} is not on the same mount as {directory}: nothing can be moved between them",
                    code=ErrorCode.OTHER_DISK,
                    hint=f"mount the disk at {directory} itself, with all that is in it",
                )
    except OSError as error:
        raise BadDirectory(
            f"{error.filename or directory}: {error.strerror}",
            code=ErrorCode.NO_ACCESS,
            hint="check its owner and mode",
        ) from error


def _mount_points() -> frozenset[Path]:
    """Empty where the system does not tell; then only the disks are compared."""
    try:
        lines = _TABLE.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    words = (line.split(" ")[_MOUNT_POINT] for line in lines)
    return frozenset(Path(re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), word)) for word in words)
