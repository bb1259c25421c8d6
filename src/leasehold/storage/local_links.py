"""Hard links to segment files, for readers on this machine: one folder for each open, in `local` of the directory.

A folder is taken away by one rename: from then on nothing can be opened, or linked, under its path. What is in it is
deleted later. Node and reader both do that, each for itself.
"""

import os
import shutil
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from leasehold.core.replicas.reconcile import OnDisk
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Refused
from leasehold.storage.files import SUFFIX, SegmentFiles

FOLDER: Final = "local"
PROOF: Final = "proof"
_GONE: Final = "gone"
PROOF_BYTES: Final = 32
"""Of the proof: 128 bits in hex."""


class LocalLinks:
    """Implements `core.local.links.LinksFiles`, from any thread. Removes at its start what an earlier process left, and
    writes nothing before a reader asks."""

    def __init__(self, files: SegmentFiles, proof: str) -> None:
        self._files = files
        self._root = files.root / FOLDER
        self._proof = proof.encode()
        assert len(self._proof) == PROOF_BYTES
        for old in (self._root, *files.root.glob(f"{FOLDER}.*")):
            shutil.rmtree(old, ignore_errors=True)
        self._lock = threading.Lock()
        self._begun = False

    def prove(self) -> str:
        path = self._root.absolute() / PROOF
        with self._lock:
            if not self._begun:
                with suppress(OSError):  # the disk takes no files now: then nothing is opened locally
                    for folder in (self._root, self._root / _GONE):
                        folder.mkdir(mode=0o700, exist_ok=True)
                    # Readable for this user alone, as the files are.
                    proof = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                    with os.fdopen(proof, "wb") as file:
                        file.write(self._proof)
                    self._begun = True
        return str(path)

    def is_proof(self, content: bytes) -> bool:
        return self._begun and content == self._proof

    async def link(self, request: str, groups: Sequence[Sequence[OnDisk]]) -> str:
        folder = self._root.absolute() / request
        try:
            folder.mkdir(mode=0o700)
            for number, group in enumerate(groups):
                of_group = folder / str(number)
                of_group.mkdir(mode=0o700)
                for one in group:
                    source = self._files.path_text(one.table, one.bucket, one.segment)
                    os.link(source, f"{of_group}/{one.segment}{SUFFIX}", follow_symlinks=False)
        except OSError as error:
            raise Refused(
                f"no links to the files of this node can be made: {error.strerror}",
                code=ErrorCode.NO_LINKS,
                hint="the rows can be read over Flight",
            ) from error
        return str(folder)

    def take_away(self, request: str) -> None:
        take_away(self._root / request)

    async def delete(self) -> None:
        delete(self._root)


def take_away(folder: Path) -> None:
    """Takes the folder of an open from its path, if it is there. Raises `Definite` with code DISK_ERROR."""
    gone = folder.parent / _GONE
    try:
        if folder.exists():
            gone.mkdir(mode=0o700, exist_ok=True)
            with _opened(gone) as directory, suppress(FileNotFoundError):  # the other side was first
                os.rename(folder, folder.name, dst_dir_fd=directory)
    except OSError as error:
        raise Definite(
            f"{folder} can't be taken away: {error.strerror}",
            code=ErrorCode.DISK_ERROR,
            hint="check the disk and the permissions of this path",
        ) from error


def delete(root: Path) -> None:
    """Deletes what was taken away; what can't be deleted now is deleted later."""
    with suppress(FileNotFoundError, NotADirectoryError), _opened(root / _GONE) as directory:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
        for one in names:
            shutil.rmtree(one, ignore_errors=True, dir_fd=directory)


@contextmanager
def _opened(gone: Path) -> Generator[int]:
    """The folder itself. A reader has its path from a node, and must not move or delete anything elsewhere, where a
    link in its place may lead."""
    directory = os.open(gone, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield directory
    finally:
        os.close(directory)
