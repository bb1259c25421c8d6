"""Where a restored state goes: a port, and the file of a coordinator that shares its meta storage with nobody."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, Txn
from leasehold.core.words.records import CheckpointRow, LeaderRecord
from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.metastorage.lock import give_up_lock, take_lock
from leasehold.metastorage.new_file import LoadedDatabase, new_file
from leasehold.metastorage.sqlite import FILE_NAME


class MetaStorageExists(Refused):
    """A meta storage is restored, or moved, only to where there is none."""

    default_code = ErrorCode.META_STORAGE_EXISTS


class RestoredState(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with the rows of a state at `revision`."""

    revision: Revision
    size_bytes: int
    """About how much the rows take."""
    leader: LeaderRecord
    changes: tuple[Change, ...]
    """Of the revision after it; none where there is none."""


class RestoreTarget(Protocol):
    """An empty place for a meta storage."""

    async def check(self, size_bytes: int) -> None:
        """Raises `MetaStorageExists` if it is not empty, `BadDirectory` if a coordinator uses it, and `Refused` where
        there is no room for so many bytes. Writes nothing."""
        ...

    async def write(self, state: RestoredState, pages: Iterable[tuple[CheckpointRow, ...]]) -> None:
        """Takes the rows of the watched range, and then makes all of it a meta storage at once. Before that, and if
        `pages` raises, no coordinator finds anything there. Raises as `check`."""
        ...


class FileTarget:
    """The directory of a coordinator; `prepare` makes it where it is missing."""

    def __init__(self, directory: Path, prepare: Callable[[], None]) -> None:
        self.path: Final = directory / FILE_NAME
        self.prepare: Final = prepare

    async def check(self, size_bytes: int) -> None:
        del size_bytes  # a full disk is noticed by the write that finds it full
        self.check_unused()
        if not self.is_empty():
            raise self.taken()

    async def write(self, state: RestoredState, pages: Iterable[tuple[CheckpointRow, ...]]) -> None:
        self.prepare()
        async with new_file(self.path, LoadedDatabase) as made:
            if not self.is_empty():
                raise self.taken()
            for rows in pages:
                await made.load(rows)
            await made.load([CheckpointRow(keys.LEADER, encode(state.leader), state.revision, state.revision, 1)])
            await made.begin_at(state.revision)
            if state.changes:
                await made.storage.txn(Txn(then=state.changes))
        sync_folder(self.path.parent)

    def check_unused(self) -> None:
        """Raises `BadDirectory` while a coordinator runs."""
        if self.path.with_name(f"{FILE_NAME}.lock").exists():
            give_up_lock(take_lock(self.path))

    def is_empty(self) -> bool:
        """Whether there is neither a file nor the log of one."""
        return not any(map(os.path.lexists, self._files()))  # a link to a disk that is not mounted counts

    def taken(self) -> MetaStorageExists:
        """The error for a directory that is not empty."""
        names = ", ".join(path.name for path in self._files() if os.path.lexists(path))
        return MetaStorageExists(
            f"there is a meta storage in {self.path.parent} already: {names}",
            hint="choose another --dir; if its meta storage is not needed, move all of the directory away",
        )

    def _files(self) -> tuple[Path, ...]:
        return self.path, self.path.with_name(f"{FILE_NAME}-wal")
