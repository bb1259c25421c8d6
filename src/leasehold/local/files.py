"""The small files by which the processes of one machine find each other."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, typed

ADDRESS_FILE = "address"
GOSSIP_FILE = "gossip"


def write_address(directory: Path, address: str) -> None:
    """Writes down where a process listens."""
    write_whole(directory / ADDRESS_FILE, address.encode())


def read_address(directory: Path) -> str | None:
    """Where the process in a directory listens; None if it has not written that down."""
    try:
        return (directory / ADDRESS_FILE).read_text().strip()
    except FileNotFoundError:
        return None


def write_gossip_address(directory: Path, address: str) -> None:
    """Writes down where a process receives gossip."""
    write_whole(directory / GOSSIP_FILE, address.encode())


def check_not_of_another(directory: Path, own: str, others: Mapping[str, str]) -> None:
    """Raises `BadDirectory` for a directory that has one of the files `others`, but not the file `own`: two kinds of
    process in one directory would overwrite each other's addresses."""
    there = next((what for name, what in others.items() if (directory / name).exists()), None)
    if there is not None and not (directory / own).exists():
        raise BadDirectory(f"{directory} is the directory of {there}", hint="choose another --dir")


def make_directory(directory: Path) -> None:
    """Makes a directory and its parents, each synced to disk. Only the owner can use them: they will hold tokens and
    password hashes. Raises `BadDirectory`."""
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
    """The sorted names in a directory. Raises `BadDirectory`."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise BadDirectory(f"{directory} can't be read: {error.strerror}", hint="choose another --dir") from error


def check_not_writable_by_others(directory: Path) -> None:
    """Raises `BadDirectory` (WRITABLE_BY_OTHERS) if another user could replace files in the directory: they decide
    which coordinator is trusted."""
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
    """Replaces a file in one step, also if the machine crashes. Only the owner may read it, whatever the umask. A
    symbolic link of that name is replaced, not followed."""
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
