"""The small files by which the processes of one machine find each other."""

import os
from pathlib import Path

from leasehold.errors import BadDirectory

ADDRESS_FILE = "address"


def write_address(directory: Path, address: str) -> None:
    """Says where a process listens, once it does; replaced whole."""
    write_whole(directory / ADDRESS_FILE, address.encode())


def read_address(directory: Path) -> str | None:
    """Where a process said that it listens, None if it never did."""
    try:
        return (directory / ADDRESS_FILE).read_text().strip()
    except FileNotFoundError:
        return None


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file so that a reader sees the old or the new content, also after a crash."""
    scratch = path.with_name(path.name + ".new")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise BadDirectory(f"{path} can't be written: {error.strerror}", hint="check space and permissions") from error
