"""Setting aside the contents of a directory before its vault begins anew, so that a person can still read them.

    D/before-adopt.new/      being filled; the next call removes what a crash has left of it
    D/before-adopt-<n>/      complete: a copy of the vault, and hard links to the files of `segments` and `trash`

Standalone mode works in it as in any node's directory. The links take no space until the node deletes its own files.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory
from leasehold.node.directory.reset import next_folder
from leasehold.storage.mounts import check_one_mount
from leasehold.vault.copy import copy_vault

FOLDER: Final = "before-adopt-"
SCRATCH: Final = "before-adopt.new"
LINKED: Final = ("segments", "trash")
"""Not `staging`: those files were never complete."""


def set_aside(directory: Path) -> Path:
    """Returns the new folder, durable. The caller holds the directory's lock, and does not write to its open vault.
    Raises `Refused` (TOO_MANY_RESETS) or `BadDirectory` (OTHER_DISK, NOT_SET_ASIDE); then nothing has changed."""
    check_one_mount(directory)
    folder, scratch = next_folder(directory, FOLDER), directory / SCRATCH
    try:
        if os.path.lexists(scratch):
            shutil.rmtree(scratch)
        scratch.mkdir(mode=0o700)
        for name in LINKED:
            if (directory / name).exists():
                _link(directory / name, scratch / name)
        copy_vault(directory, scratch)
        sync_folder(scratch)
        scratch.rename(folder)
        sync_folder(directory)
    except OSError as error:
        raise BadDirectory(
            f"{error.filename or directory}: {error.strerror or error}; nothing was adopted",
            code=ErrorCode.NOT_SET_ASIDE,
            hint="check the disk and the permissions there, then run the same command again",
        ) from error
    return folder


def _link(source: Path, target: Path) -> None:
    """Copies a tree by hard links, durably."""
    target.mkdir(mode=0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _link(Path(entry.path), target / entry.name)
            else:
                os.link(entry.path, target / entry.name, follow_symlinks=False)
    sync_folder(target)
