"""What makes writes to files survive the machine."""

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Makes a file durable, or which names a folder holds. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
