"""A new file of a meta storage, filled from rows of a state: under another name, until it is whole."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from leasehold.core.words.records import CheckpointRow
from leasehold.ids import Revision
from leasehold.metastorage.copyable import CopyableDatabase
from leasehold.metastorage.database import DATABASE_LIMITS, DatabaseLimits
from leasehold.metastorage.lock import give_up_lock, take_lock
from leasehold.metastorage.sqlite import SqliteMetaStorage


class LoadedDatabase(CopyableDatabase):
    """A new file that takes a state as it was elsewhere."""

    def load(self, rows: Sequence[CheckpointRow]) -> None:
        """Takes some rows of the state."""
        with self._durable():
            self._connection.executemany(
                self.insert, (self._row(one.key, one.modified, one.value, one.created, one.version) for one in rows)
            )

    def begin_at(self, minimum: Revision) -> None:
        """Makes the revision of the state the oldest one and, unless it has no rows, the newest."""
        with self._durable():
            self._connection.execute("UPDATE state SET minimum = ?, swept = ?", (minimum, minimum))
        self.minimum = self._swept = minimum
        self.newest = Revision(self._connection.execute("SELECT max(revision) FROM kv").fetchone()[0] or 0)

    def fold_whole(self) -> None:
        """Moves all of the write-ahead log into the file, which is then the whole database."""
        with self._explained():
            is_busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not is_busy, "there is only one connection"


class NewDatabase:
    """A file that is being filled."""

    def __init__(self, storage: SqliteMetaStorage) -> None:
        self.storage = storage

    async def load(self, rows: Sequence[CheckpointRow]) -> None:
        """As `LoadedDatabase.load`."""
        await self.storage.ask_of(LoadedDatabase, lambda database: database.load(rows))

    async def begin_at(self, minimum: Revision) -> None:
        """As `LoadedDatabase.begin_at`."""
        await self.storage.ask_of(LoadedDatabase, lambda database: database.begin_at(minimum))

    async def fold(self) -> None:
        """As `LoadedDatabase.fold_whole`."""
        await self.storage.ask_of(LoadedDatabase, lambda database: database.fold_whole())


@asynccontextmanager
async def new_file(
    path: Path, kind: type[LoadedDatabase], *, limits: DatabaseLimits = DATABASE_LIMITS
) -> AsyncGenerator[NewDatabase]:
    """A file that takes the place of whatever is at `path` at the end of the block; after an error all stays as it
    was. Raises `BadDirectory` if another process uses it."""
    lock = take_lock(path)
    try:
        fresh = path.with_name(f"{path.name}.new")
        _remove(fresh)
        try:
            storage = await SqliteMetaStorage.open(fresh, limits=limits, kind=kind)
            try:
                made = NewDatabase(storage)
                yield made
                await made.fold()
            finally:
                await storage.close()
            _remove_logs(path)
            fresh.rename(path)
        finally:
            _remove(fresh)
            fresh.with_name(f"{fresh.name}.lock").unlink(missing_ok=True)
    finally:
        give_up_lock(lock)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_logs(path)


def _remove_logs(path: Path) -> None:
    """Deletes the logs of a database that is to be replaced: without them it is whole or damaged, never another one."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
