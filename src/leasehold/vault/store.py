"""The vault: a node's durable local state in one SQLite file, `vault.db` (DESIGN sections 5 and 6, INV-REC-1).

- One process (`DirectoryLock`), one database thread, WAL. Identity writes commit with synchronous=FULL and are then
  moved from the log into the file itself, so that a damaged log can't take the identity back. Projection writes
  commit with synchronous=NORMAL: they survive the process at once, the machine from the next `sync` on.
- Projection, applied revision and lineage change in one transaction. That row also holds a digest, the XOR of the
  hashes of all items, and a seal, the hash of the row: whatever is damaged, lost or mixed up is found.
- The file is made under another name, synced and renamed. So a `vault.db` that is empty or does not open is damage,
  never a first start, and no new identity is taken in its place.
"""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from leasehold.core.codec import decode_record, encode
from leasehold.core.lineage import GENESIS
from leasehold.core.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.records import Allocated, Claiming, IdentityRecord, Joining, Record
from leasehold.errors import BadDirectory, Corrupt, OutcomeUnknown, Refused
from leasehold.ids import LineageHash, Revision
from leasehold.limits import FORMAT_VERSION
from leasehold.vault.lock import DirectoryLock

T = TypeVar("T")

FILE_NAME: Final = "vault.db"
APPLICATION_ID: Final = 0x4C484F4C
"""`LHOL` in the file's header: it is ours."""
NORMAL: Final = 1
FULL: Final = 2

_SCHEMA: Final = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE identity (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE coordinators (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL, sha256 BLOB NOT NULL);
CREATE TABLE projection (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE applied (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, durable INTEGER NOT NULL,
                      lineage BLOB NOT NULL, digest BLOB NOT NULL, seal BLOB NOT NULL);
"""


class _Applied:
    """The `applied` row as it stands in the file."""

    def __init__(self, revision: int, lineage: bytes, digest: int) -> None:
        self.revision = revision
        self.lineage = lineage
        self.digest = digest

    @property
    def digest_bytes(self) -> bytes:
        return self.digest.to_bytes(32)

    @property
    def seal(self) -> bytes:
        return hashlib.sha256(self.revision.to_bytes(8) + self.lineage + self.digest_bytes).digest()


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _item_digest(key: bytes, value: bytes) -> int:
    return int.from_bytes(hashlib.sha256(len(key).to_bytes(4) + key + value).digest())


class SqliteVault:
    """Implements `wire.ports.Vault`; made by `open`."""

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._path = directory / FILE_NAME
        self._lock = lock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vault")
        self._database: sqlite3.Connection | None = None
        self._applied = _Applied(0, GENESIS, 0)
        self._durable = 0
        self._broken = False
        self._closed = False

    @classmethod
    async def open(cls, directory: Path) -> "SqliteVault":
        """Opens the vault in `directory`, or makes a new one where there is none.

        Raises `BadDirectory` (code LOCKED: in use; NEWER_VERSION: of a newer version of this program) and `Corrupt`.
        """
        vault = cls(directory, DirectoryLock(directory))
        try:
            await vault._run(vault._open)
        except BaseException:
            await vault.close()
            raise
        return vault

    async def identity(self) -> IdentityRecord | None:
        """The identity record, or None on a new vault. Raises `Corrupt`."""
        return await self._run(self._read_identity)

    async def write_identity(self, record: IdentityRecord) -> None:
        """Replaces the identity record; synced to disk when this returns."""
        content = encode(record)

        def write(database: sqlite3.Connection) -> None:
            with self._synchronous(FULL):
                database.execute("UPDATE identity SET content = ?, sha256 = ?", (content, _sha256(content)))
                # SQLite takes a log with a damaged frame as one that ends there, which would take the identity back.
                self._checkpoint()
            self._durable = self._applied.revision

        await self._run(write)

    async def coordinators(self) -> tuple[str, ...]:
        """The last known coordinator addresses."""

        content = await self._run(lambda database: self._read_content(database, "coordinators"))
        return msgspec.msgpack.decode(content, type=tuple[str, ...]) if content else ()

    async def write_coordinators(self, addresses: tuple[str, ...]) -> None:
        """Replaces them; as durable as `apply`."""
        content = msgspec.msgpack.encode(addresses)
        await self._run(
            lambda database: database.execute(
                "UPDATE coordinators SET content = ?, sha256 = ?", (content, _sha256(content))
            )
        )

    async def projection(self) -> StoredProjection:
        """The whole projection as of its applied revision, every item verified. Raises `Corrupt`."""
        return await self._run(self._read_projection)

    async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
        """Applies whole revisions in one transaction; `Refused` with code NOT_ASCENDING changes nothing."""
        await self._run(lambda database: self._apply(database, tuple(batches), lineage))

    async def sync(self) -> Revision:
        """Makes what was applied survive the machine; answers the durable applied revision."""

        def write(database: sqlite3.Connection) -> Revision:
            if self._durable < self._applied.revision:
                # A commit with FULL syncs the log, and with it all commits before it.
                with self._synchronous(FULL):
                    database.execute("UPDATE applied SET durable = revision")
                self._durable = self._applied.revision
            return Revision(self._durable)

        return await self._run(write)

    async def close(self) -> None:
        """Closes the file and gives the directory free; idempotent."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()
        self._lock.release()

    async def synchronous(self, level: int = NORMAL) -> int:
        """What SQLite says of its `synchronous` setting while a write at `level` runs: 1 is NORMAL, 2 is FULL."""

        def read(_database: sqlite3.Connection) -> int:
            with self._synchronous(level):
                return self._pragma("synchronous")

        return await self._run(read)

    # ------------------------------------------------------------ on the database thread

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise Refused(f"the vault {self._path} is closed", code="CLOSED")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._broken:
            raise self._disk("it failed before")
        try:
            if self._database is None:
                self._database = self._connect()
            return work(self._database)
        except sqlite3.DatabaseError as error:
            # After a failed write or sync nothing is to be trusted before it is opened and checked anew.
            self._close()
            # What SQLite does not blame on the disk, in statements that are always the same, is damage.
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise self._disk(str(error)) from error
            raise self._corrupt(str(error)) from error

    def _open(self, database: sqlite3.Connection) -> None:
        """Checks what is there, cheapest first."""
        version = self._pragma("user_version")
        if version > FORMAT_VERSION:
            raise BadDirectory(
                f"the vault {self._path} has format {version}, newer than {FORMAT_VERSION}",
                code="NEWER_VERSION",
                hint="Start this node with the newer version of the program that wrote it.",
            )
        if self._pragma("application_id") != APPLICATION_ID or version < 1:
            raise self._corrupt("it is a database, but not a vault")
        finding = database.execute("PRAGMA quick_check(1)").fetchone()
        if finding != ("ok",):
            raise self._corrupt(str(finding))
        self._read_identity(database)
        row = database.execute("SELECT revision, durable, lineage, digest, seal FROM applied").fetchone()
        if row is None or tuple(type(column) for column in row) != (int, int, bytes, bytes, bytes):
            raise self._corrupt("its applied revision can't be read")
        revision, durable, lineage, digest, seal = row
        self._applied = _Applied(revision, lineage, int.from_bytes(digest))
        if self._applied.seal != seal:
            raise self._corrupt("its applied revision does not match its checksum")
        self._durable = min(durable, revision)

    def _connect(self) -> sqlite3.Connection:
        directory = self._path.parent
        for rest in directory.glob(f"{FILE_NAME}.new*"):
            rest.unlink()
        if not self._path.exists():
            if any(directory.glob(f"{FILE_NAME}-*")):
                raise self._corrupt("its log is there, the file is not")
            self._create(directory / f"{FILE_NAME}.new")
        elif self._path.stat().st_size == 0:
            raise self._corrupt("it is empty")
        # Never creates a file: what is not there any more must not be taken for new.
        database = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        self._database = database
        database.execute(f"PRAGMA synchronous = {NORMAL}")
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        return database

    def _create(self, path: Path) -> None:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            database.executescript(_SCHEMA)
            fresh = _Applied(0, GENESIS, 0)
            database.execute(
                "INSERT INTO applied VALUES (1, 0, 0, ?, ?, ?)", (fresh.lineage, fresh.digest_bytes, fresh.seal)
            )
            for table in ("identity", "coordinators"):
                database.execute(f"INSERT INTO {table} VALUES (1, ?, ?)", (b"", _sha256(b"")))  # noqa: S608 literals
        finally:
            # The last connection to close moves the log into the file and removes it.
            database.close()
        _sync_path(path)
        path.rename(self._path)
        _sync_path(self._path.parent)

    def _close(self, _database: sqlite3.Connection | None = None) -> None:
        database, self._database = self._database, None
        self._broken = True
        if database is not None:
            # Closing writes too, and may fail on the same disk; what counts has been synced before.
            with suppress(sqlite3.DatabaseError):
                database.close()

    def _read_identity(self, database: sqlite3.Connection) -> IdentityRecord | None:
        content = self._read_content(database, "identity")
        if not content:
            return None
        record = decode_record(Record, content)
        if not isinstance(record, Claiming | Allocated | Joining):
            raise self._corrupt(f"a {type(record).__name__} stands where the identity belongs")
        return record

    def _read_content(self, database: sqlite3.Connection, table: Literal["identity", "coordinators"]) -> bytes:
        """The content of a table of one row; empty until it is first written. A missing row is damage too."""
        row = database.execute(f"SELECT content, sha256 FROM {table}").fetchone()  # noqa: S608 one of two literals
        if row is None or not isinstance(row[0], bytes) or _sha256(row[0]) != row[1]:
            raise self._corrupt(f"the {table} record does not match its checksum")
        return row[0]

    def _read_projection(self, database: sqlite3.Connection) -> StoredProjection:
        items: list[Change] = []
        digest = 0
        for key, value in database.execute("SELECT key, value FROM projection ORDER BY key"):
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                raise self._corrupt("an item of the projection can't be read")
            items.append(Change(key, value))
            digest ^= _item_digest(key, value)
        if digest != self._applied.digest:
            raise self._corrupt("the projection does not match its checksum")
        return StoredProjection(
            applied=Revision(self._applied.revision), lineage=LineageHash(self._applied.lineage), items=tuple(items)
        )

    def _apply(self, database: sqlite3.Connection, batches: tuple[RevisionChanges, ...], lineage: LineageHash) -> None:
        if not batches:
            raise Refused("nothing to apply: at least one revision is needed", code="NOT_ASCENDING")
        revision, digest = self._applied.revision, self._applied.digest
        for batch in batches:
            if batch.revision <= revision:
                raise Refused(f"revision {batch.revision} comes after {revision}", code="NOT_ASCENDING")
            revision = batch.revision
        with self._transaction():
            for batch in batches:
                for change in batch.changes:
                    digest ^= _put(database, change)
            applied = _Applied(revision, lineage, digest)
            database.execute(
                "UPDATE applied SET revision = ?, lineage = ?, digest = ?, seal = ?",
                (revision, lineage, applied.digest_bytes, applied.seal),
            )
        self._applied = applied

    @contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        assert self._database is not None
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _synchronous(self, level: int) -> Generator[None, None, None]:
        """Statements inside, each its own transaction, commit at `level`; proven by reading it back."""
        assert self._database is not None
        self._database.execute(f"PRAGMA synchronous = {level}")
        assert self._pragma("synchronous") == level, "SQLite ignores a setting it does not like"
        try:
            yield
        finally:
            self._database.execute(f"PRAGMA synchronous = {NORMAL}")

    def _checkpoint(self) -> None:
        assert self._database is not None
        (busy, _log, _moved) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, "this is the only connection"

    def _pragma(self, name: str) -> int:
        assert self._database is not None
        (value,) = self._database.execute(f"PRAGMA {name}").fetchone()
        return value

    def _corrupt(self, why: str) -> Corrupt:
        return Corrupt(
            f"the vault {self._path} is damaged: {why}",
            hint=f"Restore the latest copy of {self._path.parent}, or move it away and start a new node with --name.",
        )

    def _disk(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the vault {self._path} can't be written or read: {why}",
            code="DISK",
            hint="Check the disk (space, health, mode), then start this node again.",
        )


def _put(database: sqlite3.Connection, change: Change) -> int:
    """Writes one change; answers by what the digest changes."""
    digest = 0
    row = database.execute("SELECT value FROM projection WHERE key = ?", (change.key,)).fetchone()
    if row is not None:
        digest ^= _item_digest(change.key, row[0])
    if change.value is None:
        database.execute("DELETE FROM projection WHERE key = ?", (change.key,))
    else:
        digest ^= _item_digest(change.key, change.value)
        database.execute("INSERT OR REPLACE INTO projection VALUES (?, ?)", (change.key, change.value))
    return digest


def _sync_path(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
