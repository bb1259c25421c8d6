"""Resetting a node's directory: its vault and files are moved aside, and its next start gets a new id.

    D/vault.db-reset            the marker: names the folder that a running reset fills; written first, removed last
    D/before-reset-<n>/         the vault, the segments, the trash, and what was being written

The vault is moved first. From then on nothing starts here before the reset is finished: `check_no_reset` refuses it,
and the marker itself counts as a log without its vault, which is damage. So no process takes a new id beside segments
of the old one. A reset that was interrupted is finished by running it again. The serve log stays.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Corrupt, NotFound, Refused, typed
from leasehold.limits.node_disk import RESET_MARKER_BYTES_MAX, RESETS_MAX
from leasehold.storage.files import SegmentFiles
from leasehold.storage.mounts import FOLDERS, check_one_mount
from leasehold.vault.lock import DirectoryLock
from leasehold.vault.store import FILE_NAME

MARKER: Final = f"{FILE_NAME}-reset"
FOLDER: Final = "before-reset-"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a reset has moved, and where."""

    folder: Path
    names: tuple[str, ...]


def check_no_reset(directory: Path) -> None:
    """Raises `BadDirectory` with code RESET_UNFINISHED if a reset of this directory was interrupted."""
    if _is_marked(directory):
        raise BadDirectory(
            f"a reset of {directory} was interrupted",
            code=ErrorCode.RESET_UNFINISHED,
            hint=f"finish it with `leasehold node reset --dir {typed(directory)}`",
        )


def check_node_directory(directory: Path) -> None:
    """Raises `NotFound` with code NO_NODE for a directory that holds neither a vault nor a file named as a segment.
    Other programs have folders called `staging` or `trash` too."""
    if not _is_marked(directory) and not _vault_files(directory) and not _has_segments(directory):
        raise NotFound(
            f"there is no node in {directory}", code=ErrorCode.NO_NODE, hint="name the directory of one node with --dir"
        )


def check_vault_or_new(directory: Path) -> None:
    """Raises `Corrupt` with code NO_VAULT for a directory that has files of a node but no vault. A first start would
    delete them, and they may be the only copies."""
    if os.path.lexists(directory / FILE_NAME):
        return
    found = next((name for name in FOLDERS if _holds_anything(directory / name)), None)
    if found is None:
        return
    raise Corrupt(
        f"{directory / found} is not empty, and there is no vault in {directory}",
        code=ErrorCode.NO_VAULT,
        hint=f"restore the vault, then `leasehold node adopt --dir {typed(directory)}`, or begin anew with"
        f" `leasehold node reset --dir {typed(directory)}`"
        if _has_segments(directory)
        else f"choose another --dir, or move {directory / found} elsewhere if it was a node's",
    )


def reset(directory: Path) -> Moved:
    """Moves a node's vault and segments into a folder of their own, durably.

    Raises `NotFound` for a directory without a node, `BadDirectory`: LOCKED while a process runs there, OTHER_DISK
    before any change if a folder can't be moved, RESET_UNFINISHED if the disk refuses.
    """
    check_node_directory(directory)
    check_one_mount(directory)
    lock = DirectoryLock(directory)
    try:
        folder = _marked(directory)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(directory)
        for name in _present(directory):
            _move(directory / name, folder / name)
        sync_folder(folder)
        sync_folder(directory)
        (directory / MARKER).unlink()
        sync_folder(directory)
        return Moved(folder=folder, names=tuple(sorted(path.name for path in folder.iterdir())))
    except OSError as error:
        raise BadDirectory(
            f"{error.filename or directory}: {error.strerror}; the reset is not finished",
            code=ErrorCode.RESET_UNFINISHED,
            hint="check the disk and the permissions there, then run the same command again",
        ) from error
    finally:
        lock.release()


def next_folder(directory: Path, prefix: str) -> Path:
    """The first `<prefix><n>` that does not exist. Raises `Refused` with code TOO_MANY_RESETS after RESETS_MAX."""
    used = {path.name for path in directory.glob(f"{prefix}*")}
    name = next((name for number in range(1, RESETS_MAX + 1) if (name := f"{prefix}{number}") not in used), None)
    if name is None:
        raise Refused(
            f"{directory} already holds {RESETS_MAX} {prefix}* folders",
            code=ErrorCode.TOO_MANY_RESETS,
            hint=f"delete the {prefix}* folders that are not needed",
        )
    return directory / name


def _is_marked(directory: Path) -> bool:
    """Whether a reset has begun and not ended. Raises `BadDirectory` if the directory can't be read."""
    try:
        return (directory / MARKER).exists()
    except OSError as error:
        raise BadDirectory(
            f"can't use the directory {directory}: {error.strerror}",
            code=ErrorCode.NO_ACCESS,
            hint="check its owner and mode",
        ) from error


def _present(directory: Path) -> list[str]:
    """The names to move: the vault before its log, both before all others."""
    return [*_vault_files(directory), *(name for name in FOLDERS if os.path.lexists(directory / name))]


def _vault_files(directory: Path) -> list[str]:
    logs = sorted(path.name for path in directory.glob(f"{FILE_NAME}[-.]*") if not path.name.startswith(MARKER))
    return [name for name in (FILE_NAME, *logs) if os.path.lexists(directory / name)]


def _has_segments(directory: Path) -> bool:
    return next(SegmentFiles(directory).listing(), None) is not None


def _holds_anything(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is not None
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BadDirectory(
            f"{folder}: {error.strerror}", code=ErrorCode.NO_ACCESS, hint="check its owner and mode"
        ) from error


def _marked(directory: Path) -> Path:
    """The folder of the interrupted reset, or of a new one; the marker is durable then."""
    marker = directory / MARKER
    if marker.exists():
        return directory / _read(marker)
    name = next_folder(directory, FOLDER).name
    # Complete before it has its name: a truncated marker would name another folder.
    scratch = marker.with_name(f"{MARKER}.new")
    with scratch.open("wb") as file:
        file.write(name.encode())
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(marker)
    sync_folder(directory)
    return directory / name


def _read(marker: Path) -> str:
    with marker.open("rb") as file:
        name = file.read(RESET_MARKER_BYTES_MAX).decode("ascii", "replace")
    if not name.startswith(FOLDER) or not name.removeprefix(FOLDER).isdigit():
        raise BadDirectory(
            f"{marker} names no folder: {name!r}",
            code=ErrorCode.CORRUPT,
            hint=f"write {FOLDER}N into it, with the number of the folder that the reset had begun to fill",
        )
    return name


def _move(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise Refused(
            f"{target} already exists, and {source} too",
            code=ErrorCode.RESET_UNFINISHED,
            hint="something was written here during the reset: move one of them elsewhere, then run it again",
        )
    source.rename(target)
