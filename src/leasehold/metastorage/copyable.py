"""Reads all of a meta storage that another one needs to go on in its place: the state at MM, and each revision after
it."""

import hashlib
from collections.abc import AsyncGenerator
from functools import partial

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.records import CheckpointChunk, CheckpointRow
from leasehold.errors import Corrupt
from leasehold.ids import Revision
from leasehold.limits.log import CHECKPOINT_CHUNK_BYTES, CHECKPOINT_ROWS_MAX
from leasehold.limits.metastorage import CHANGE_FRAMING_BYTES
from leasehold.metastorage.contract import Compacted
from leasehold.metastorage.database import Database
from leasehold.metastorage.schema import COUNT, ROWS_AFTER, STATE_AT
from leasehold.metastorage.sqlite import SqliteMetaStorage


class CopyableDatabase(Database):
    """A file that can be read row by row, with the revisions of each row."""

    def state(self, after: bytes, minimum: Revision) -> tuple[CheckpointRow, ...]:
        """The next rows of the state at `minimum`, none at its end."""
        if self.minimum > minimum:
            raise Compacted(self.minimum)
        rows: list[CheckpointRow] = []
        size = 0
        with self._explained():
            for key, value, created, modified, version in self._connection.execute(
                STATE_AT, (after, minimum, CHECKPOINT_ROWS_MAX)
            ):
                size += _bytes_of(key, value)
                if rows and size > CHECKPOINT_CHUNK_BYTES:
                    break
                rows.append(CheckpointRow(key, value, created, modified, version))
        return tuple(rows)

    def revisions(self, after: Revision, upto: Revision) -> tuple[CheckpointRow, ...]:
        """The rows of the next whole revisions after `after`, in their order; none once `upto` is reached."""
        rows: list[CheckpointRow] = []
        size = 0
        with self._explained():
            for key, value, created, modified, version in self._connection.execute(ROWS_AFTER, (after, upto)):
                if size > CHECKPOINT_CHUNK_BYTES and modified != rows[-1].modified:
                    break
                size += _bytes_of(key, value)
                rows.append(CheckpointRow(key, value, created, modified, version))
        return tuple(rows)

    def about_rows(self) -> int:
        """How many rows there are, with those that compaction has yet to delete."""
        with self._explained():
            return self._connection.execute(COUNT).fetchone()[0]


class StoredContent:
    """What moves from an open file: the state at `minimum`, and the revisions after it up to `newest`."""

    def __init__(self, storage: SqliteMetaStorage, minimum: Revision, newest: Revision) -> None:
        self.storage = storage
        self.minimum = minimum
        self.newest = newest

    async def state(self) -> AsyncGenerator[tuple[CheckpointRow, ...]]:
        """In key order."""
        async for rows in state_at(self.storage, self.minimum):
            yield rows

    async def history(self) -> AsyncGenerator[tuple[CheckpointRow, ...]]:
        """Whole revisions, in order. Raises `Corrupt` if one is missing."""
        after = self.minimum
        while rows := await self._revisions(after):
            for row in rows:
                if row.modified > after + 1:
                    raise Corrupt(
                        f"revision {after + 1} of this meta storage is missing", hint="restore a backup instead"
                    )
                after = row.modified
            yield rows

    async def about_rows(self) -> int:
        """How many rows there are at most."""
        return await self.storage.ask_of(CopyableDatabase, lambda database: database.about_rows())

    async def digest(self) -> bytes:
        """Of each row that nodes can see, with its revisions: two meta storages with one digest say the same, at each
        revision that can be read."""
        digest = hashlib.sha256()
        for pages in (self.state(), self.history()):
            async for rows in pages:
                for row in rows:
                    if keys.WATCH_START <= row.key < keys.WATCH_END:
                        digest.update(hashlib.sha256(encode(CheckpointChunk(rows=(row,)))).digest())
        return digest.digest()

    async def _revisions(self, after: Revision) -> tuple[CheckpointRow, ...]:
        return await self.storage.ask_of(CopyableDatabase, lambda database: database.revisions(after, self.newest))


async def state_at(storage: SqliteMetaStorage, minimum: Revision) -> AsyncGenerator[tuple[CheckpointRow, ...]]:
    """The rows of the state at `minimum`, in key order and in parts of a bounded size."""
    after = b""
    while rows := await storage.ask_of(CopyableDatabase, partial(CopyableDatabase.state, after=after, minimum=minimum)):
        yield rows
        after = rows[-1].key


def _bytes_of(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"") + CHANGE_FRAMING_BYTES
