"""A disk that can be full: a small file system of its own where it may be mounted, a limit on file sizes elsewhere."""

import contextlib
import os
import resource
import subprocess
from pathlib import Path
from typing import Final, Self

SIZE: Final = 16 * 1024 * 1024
FILLER: Final = "filler"


class SmallDisk:
    """A context manager; processes on it are started with `limit`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._mounted = False
        self._limit: int | None = None

    def __enter__(self) -> Self:
        self.directory.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "leasehold-test", str(self.directory)]
        self._mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        return self

    def __exit__(self, *_: object) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.directory)], check=True)

    @property
    def is_mounted(self) -> bool:
        """Whether it is a file system of its own."""
        return self._mounted

    def fill(self, *, leave: int) -> None:
        """Leaves about so many bytes for all files, or for each."""
        if not self._mounted:
            self._limit = leave
            return
        # A node may take what was free a moment ago: its bytes fill the disk as well.
        with (self.directory / FILLER).open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while (room := self._free() - leave) > 0:
                filler.write(bytes(room))

    def _free(self) -> int:
        room = os.statvfs(self.directory)
        return room.f_bavail * room.f_bsize

    def free(self) -> None:
        """Takes that back."""
        self._limit = None
        (self.directory / FILLER).unlink(missing_ok=True)

    def limit(self) -> None:
        """To be called in a new process before it begins."""
        if self._limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, self._limit))
