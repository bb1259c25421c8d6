"""A replica in a SQLite file: that of an embedded meta storage, with the position in the log beside it."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import ClassVar, Final
from zlib import crc32

from leasehold.core.log.entry import BEGINNING
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import RevisionChanges, Txn
from leasehold.core.words.records import CheckpointChunk, LogBody, LogCheckpoint, LogPosition
from leasehold.errors import Corrupt
from leasehold.ids import EntryId, Revision, Term
from leasehold.metastorage.causes import corrupt
from leasehold.metastorage.copyable import state_at
from leasehold.metastorage.database import DATABASE_LIMITS, DatabaseLimits
from leasehold.metastorage.new_file import LoadedDatabase, new_file
from leasehold.metastorage.schema import (
    COUNT_ADDED,
    COUNT_NO_MORE_BY_ROW,
    COUNTED,
    IS_WHOLE,
    OBJECTS,
    REPLICA_APPLICATION_ID,
    REPLICA_INSERT,
    REPLICA_OBJECTS,
    REPLICA_SCHEMA,
)
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.metastorage.transaction import TransactionDraft, decide, written


class ReplicaDatabase(LoadedDatabase):
    """The file. A commit is not synced: what a crash of the machine takes from its end is read from the log again."""

    application_ids: ClassVar = (REPLICA_APPLICATION_ID,)
    schema: ClassVar = REPLICA_SCHEMA
    insert: ClassVar = REPLICA_INSERT
    check: ClassVar = "integrity_check"
    synchronous: ClassVar = "NORMAL"
    log_id: EntryId = BEGINNING.id
    position: LogPosition = BEGINNING
    _added = _added_sum = 0
    """Rows of the entry that is being applied."""

    def _prepare(self, bytes_max: int) -> None:
        self._connection.create_function("row_sum", 5, _row_sum, deterministic=True)
        super()._prepare(bytes_max)
        row = self._connection.execute("SELECT log_id, position, sum FROM replica").fetchone()
        if row is None:
            return  # it is being built
        self._connection.execute(COUNT_NO_MORE_BY_ROW)
        objects = self._connection.execute(OBJECTS).fetchall()  # an error would keep a cursor, and that the lock
        if frozenset(sql for (sql,) in objects) != REPLICA_OBJECTS:
            raise corrupt(self.path, "its tables are not those of a replica")
        (is_whole,) = self._connection.execute(IS_WHOLE).fetchone()
        if not is_whole or row[2] != _place_sum(row[0], row[1], self.minimum):
            raise corrupt(self.path, "a checksum is wrong")
        self.log_id, self.position = EntryId(row[0]), decode_record(LogPosition, row[1])

    def begin(self, log_id: EntryId, position: LogPosition, minimum: Revision) -> None:
        """Completes a new file."""
        self.begin_at(minimum)
        with self._durable():
            for statement in COUNTED:
                self._connection.execute(statement)
            place = encode(position)
            self._connection.execute(
                "INSERT INTO replica VALUES (?, ?, ?)", (log_id, place, _place_sum(log_id, place, minimum))
            )
        self.log_id, self.position = log_id, position

    def draft(self, txns: Sequence[Txn], term: Term) -> TransactionDraft:
        """Changes nothing; what it reads is kept for the entry that comes next, which mostly is this one."""
        with self._explained():
            return decide(txns, self._latest.__getitem__, self.newest, term)

    def apply(self, position: LogPosition, bodies: Sequence[LogBody]) -> None:
        newest = self.newest
        # The entries after a checkpoint may hold revisions, and a compaction, that it has already.
        fresh = [one for body in bodies for one in body.transactions if one.revision > newest]
        minimum = max(self.minimum, *(body.minimum or self.minimum for body in bodies))
        self._added, self._added_sum = 0, 0
        try:
            with self._durable():
                latest, rows = self._latest.__getitem__, list[tuple[object, ...]]()
                for one in fresh:
                    rows += self._rows(one.revision, written(one, latest))
                self._connection.executemany(self.insert, rows)
                self._connection.execute(COUNT_ADDED, (self._added, self._added_sum))
                if minimum > self.minimum:
                    self._connection.execute("UPDATE state SET minimum = ?", (minimum,))
                place = encode(position)
                self._connection.execute(
                    "UPDATE replica SET position = ?, sum = ?", (place, _place_sum(self.log_id, place, minimum))
                )
        except BaseException:
            self.newest = newest
            self._latest.clear()
            raise
        self._latest.bound()
        self.position, self.minimum = position, minimum
        self._committed += [RevisionChanges(one.revision, one.changes) for one in fresh]

    def _row(self, key: bytes, revision: int, value: bytes | None, created: int, version: int) -> tuple[object, ...]:
        row = key, revision, value, created, version
        total = _row_sum(*row)
        self._added += 1
        self._added_sum += total
        return *row, total


class SqliteReplica:
    """Implements `Replica`."""

    def __init__(self, storage: SqliteMetaStorage, log_id: EntryId, position: LogPosition) -> None:
        self.log_id = log_id
        self.position = position
        self._storage: Final = storage
        self.get = storage.get
        self.range = storage.range
        self.watch = storage.watch
        self.status = storage.status
        self.close = storage.close

    async def draft(self, txns: Sequence[Txn], term: Term) -> TransactionDraft:
        return await self._storage.ask_of(ReplicaDatabase, lambda database: database.draft(txns, term))

    async def apply(self, position: LogPosition, bodies: Sequence[LogBody]) -> None:
        await self._storage.ask_of(ReplicaDatabase, lambda database: database.apply(position, bodies))
        self.position = position

    async def chunks(self, minimum: Revision) -> AsyncGenerator[CheckpointChunk, None]:
        async for rows in state_at(self._storage, minimum):
            yield CheckpointChunk(rows=rows)


class SqliteReplicaPlace:
    """A coordinator's directory."""

    def __init__(self, directory: Path, *, limits: DatabaseLimits = DATABASE_LIMITS) -> None:
        self._path = directory / FILE_NAME
        self.limits = limits

    async def open(self) -> SqliteReplica | None:
        if not self._path.exists():
            return None
        try:
            storage = await SqliteMetaStorage.open(self._path, limits=self.limits, kind=ReplicaDatabase)
        except Corrupt:
            return None
        log_id, position = await storage.ask_of(ReplicaDatabase, lambda database: (database.log_id, database.position))
        return SqliteReplica(storage, log_id, position)

    async def build(
        self, log_id: EntryId, checkpoint: LogCheckpoint | None, chunks: AsyncIterator[CheckpointChunk]
    ) -> SqliteReplica:
        position, minimum = (
            (BEGINNING, Revision(1)) if checkpoint is None else (checkpoint.position, checkpoint.minimum)
        )
        async with new_file(self._path, ReplicaDatabase, limits=self.limits) as made:
            async for chunk in chunks:
                await made.load(chunk.rows)
            await made.storage.ask_of(ReplicaDatabase, lambda database: database.begin(log_id, position, minimum))
        opened = await self.open()
        assert opened is not None, "it was just built"
        return opened


def _row_sum(key: object, revision: object, value: object, created: object, version: object) -> int:
    """The checksum of a row; -1 for what is no row of ours."""
    if not isinstance(key, bytes) or not isinstance(value, bytes | None):
        return -1
    numbers = f"{revision} {value is None} {created} {version} {len(key)} ".encode()
    return crc32(value or b"", crc32(key, crc32(numbers)))


def _place_sum(log_id: str, position: bytes, minimum: Revision) -> int:
    return crc32(position, crc32(f"{log_id} {minimum} ".encode()))
