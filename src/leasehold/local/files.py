"""The small files by which the processes of one machine find each other."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, typed

COORDINATOR: Final = "coordinator"
"""The folder of it, and its name, in a cluster on this machine."""
ADDRESS_FILE = "address"
GOSSIP_FILE = "gossip"


def write_address(directory: Path, address: str) -> None:
    """Says where a process listens, once it does; replaced whole."""
    write_whole(directory / ADDRESS_FILE, address.encode())


def read_address(directory: Path) -> str | None:
    """Where a process said that it listens, None if it never did."""
    try:
        return (directory / ADDRESS_FILE).read_text().strip()
    except FileNotFoundError:
        return None


def write_gossip_address(directory: Path, address: str) -> None:
    """Says where a process hears gossip, once it does; replaced whole."""
    write_whole(directory / GOSSIP_FILE, address.encode())


def check_not_of_another(directory: Path, own: str, others: Mapping[str, str]) -> None:
    """Raises `BadDirectory` for a directory without the file `own` and with a file of `others`, whose it is by that.

    Two processes in one directory would write their addresses over each other's."""
    there = next((what for name, what in others.items() if (directory / name).exists()), None)
    if there is not None and not (directory / own).exists():
        raise BadDirectory(f"{directory} is the directory of {there}", hint="choose another --dir")


def make_directory(directory: Path) -> None:
    """Makes a directory and those above it, unless it is there; what is made is its owner's alone, since tokens and
    password hashes lie in it, and outlives the machine, since what is synced in it must. Raises `BadDirectory`."""
    try:
        missing = [one for one in (directory, *directory.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            sync_folder(one.parent)
        directory.mkdir(exist_ok=True)
    except OSError as error:
        why = "it is a file" if directory.is_file() else error.strerror
        raise BadDirectory(f"{directory} can't be a directory: {why}", hint="choose another --dir") from error


def names_in(directory: Path) -> list[str]:
    """What a directory holds, in order. Raises `BadDirectory`."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise BadDirectory(f"{directory} can't be read: {error.strerror}", hint="choose another --dir") from error


def check_not_writable_by_others(directory: Path) -> None:
    """Raises `BadDirectory` (WRITABLE_BY_OTHERS) for a directory in which another user could exchange files: which
    program runs and whom it trusts goes by these."""
    found = directory.stat()
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadDirectory(
            f"other users may write to {directory}: its mode is {stat.S_IMODE(found.st_mode):04o}",
            code=ErrorCode.WRITABLE_BY_OTHERS,
            hint=f"`chmod go-w {typed(directory)}` takes that right away; or choose another --dir",
        )
    if os.geteuid() not in {0, found.st_uid}:
        raise BadDirectory(
            f"{directory} belongs to another user (uid {found.st_uid}), who may write to it",
            code=ErrorCode.WRITABLE_BY_OTHERS,
            hint="choose a --dir of your own",
        )


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file so that a reader sees the old or the new content, also after a crash. Its owner alone may read
    it, whatever the umask; a link that is there under its name is replaced, and none is followed."""
    scratch = path.with_name(path.name + ".new")
    try:
        scratch.unlink(missing_ok=True)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise BadDirectory(f"{path} can't be written: {error.strerror}", hint="check space and permissions") from error
