"""Setting aside what a directory holds before its vault begins anew: the node forgets it, a person can read it yet.

    D/before-adopt.new/      being filled; what a crash left of it is removed by the next one
    D/before-adopt-<n>/      a copy of the vault, and the files of `segments` and `trash` under a second name each

It is whole once it has its number, and standalone mode works in it as in any node's directory. A segment file never
changes, so a link to it takes no space; it takes what the file takes from when the node has deleted its own name on.
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
"""What is in `staging` was never anybody's rows."""


def set_aside(directory: Path) -> Path:
    """Under the directory's lock, its vault open and not written meanwhile; the folder lies on the disk on return.

    Raises `Refused` with code TOO_MANY_RESETS, `BadDirectory` with code OTHER_DISK, or NOT_SET_ASIDE where the disk or
    the file system refuses; nothing that was there has changed then.
    """
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
    """The same tree again, its names on the disk, each file one with that in `source`."""
    target.mkdir(mode=0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _link(Path(entry.path), target / entry.name)
            else:
                os.link(entry.path, target / entry.name, follow_symlinks=False)
    sync_folder(target)
