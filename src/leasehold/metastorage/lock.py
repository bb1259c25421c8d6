"""The exclusive lock beside a meta storage's file: whoever has it is the only process that leads."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory


def lock_of(path: Path) -> Path:
    """The lock file of a meta storage's file. It stays when the meta storage is replaced by another."""
    return path.with_name(path.name + ".lock")


def take_lock(path: Path) -> int:
    """Takes the lock beside the file until `give_up_lock`; answers its descriptor. Raises `BadDirectory`."""
    lock_path = lock_of(path)
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadDirectory(
            f"can't open {lock_path}: {error.strerror}", hint=f"make sure that {path.parent} exists and can be written"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise BadDirectory(
            f"{path} is in use by process {holder}",
            hint=f"stop process {holder}, or use another directory; the lock is {lock_path}",
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise BadDirectory(f"can't lock {lock_path}: {error.strerror}", hint="use a local file system") from error
    return descriptor


@contextmanager
def unused(path: Path) -> Generator[None]:
    """No process begins to use the file meanwhile. The lock is neither made nor written. Raises `BadDirectory`, with
    code LOCKED while a process uses it."""
    lock_path = lock_of(path)
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # it is a copy
        return
    except OSError as error:
        raise BadDirectory(f"can't open {lock_path}: {error.strerror}", hint="check its owner and mode") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise BadDirectory(
                f"{path} is in use by process {holder}", code=ErrorCode.LOCKED, hint=f"stop process {holder} first"
            ) from error
        yield
    finally:
        os.close(descriptor)


def keep_to_owner(path: Path) -> None:
    """Makes the file if it is missing. Takes rights of other users on it and its log away, since it holds password
    hashes. Raises `BadDirectory`."""
    try:
        # The log takes the mode of the file.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            one = path.with_name(name)
            if one.exists() and (mode := one.stat().st_mode) & 0o077:
                one.chmod(mode & 0o700)
    except OSError as error:
        raise BadDirectory(
            f"{path} can't be kept to its owner: {error.strerror}", hint="check the file's owner and rights"
        ) from error


def give_up_lock(descriptor: int) -> None:
    """Frees the lock and closes its descriptor."""
    # A forked child may hold a copy of the descriptor; the lock itself goes now.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
