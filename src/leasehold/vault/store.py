"""The vault: a node's durable local state in one SQLite file, `vault.db` (docs/design.md, "Identity", INV-REC-1).

- One process (`DirectoryLock`), one database thread that writes, WAL. Identity writes commit with synchronous=FULL and
  are then moved from the log into the file itself, so that a damaged log can't take the identity back. The projection
  follows every VAULT_SYNCS_PER_CHECKPOINT syncs, or later while another program reads the file.
  Projection writes commit with synchronous=NORMAL: they survive the process at once, the machine from the next `sync`.
- Projection, applied revision and lineage change in one transaction (`vault/format.py`). Whatever is damaged, lost or
  mixed up is found, and an identity that was lost is never taken for a first start.
- A small vault is checked whole when it is opened. Of a large one only what every start needs is read and checked
  then. Segments are read when they are needed (`vault/manifest.py`), each row checked by its own hash, and `verify`
  checks the whole in small steps while the node works.
- The file is made under another name, synced and renamed. So a `vault.db` that is empty or does not open is damage,
  never a first start, and no new identity is taken in its place.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from traceback import clear_frames
from typing import Final, TypeVar

import msgspec

from leasehold.core.recovery.staging import Staged, check_same
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, RevisionChanges, StoredProjection
from leasehold.core.words.records import IdentityRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, LeaseholdError, Refused
from leasehold.ids import LineageHash, Revision
from leasehold.limits.units import SECOND_NS
from leasehold.limits.vault import VAULT_CACHE_BYTES, VAULT_LOG_PAGES, VAULT_SYNCS_PER_CHECKPOINT
from leasehold.vault import format as file_format
from leasehold.vault import leap, rows
from leasehold.vault.causes import SQLITE_ERRORS, DiskFull, disk, explain, is_disk_full, result_code
from leasehold.vault.format import FILE_NAME, AppliedMark, check_structure, content_hash, pragma, read_content
from leasehold.vault.limits import VAULT_LIMITS, VaultLimits
from leasehold.vault.lock import DirectoryLock
from leasehold.vault.logfile import log_kept
from leasehold.vault.manifest import FileManifest

T = TypeVar("T")

log = logging.getLogger(__name__)

NORMAL: Final = 1
FULL: Final = 2

__all__ = ["FILE_NAME", "FULL", "NORMAL", "SqliteVault"]


class SqliteVault:
    """Implements `wire.ports.Vault`; made by `open`."""

    def __init__(self, directory: Path, lock: DirectoryLock, limits: VaultLimits) -> None:
        self._path = directory / FILE_NAME
        self._lock = lock
        self._limits = limits
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vault")
        self._database: sqlite3.Connection | None = None
        self.manifest: Final = FileManifest(self._path, self._failed, limits)
        self._applied = AppliedMark()
        self._durable = 0
        self._syncs = 0
        """Since the log was emptied."""
        self._staged = Staged()
        self._scrub = rows.Scrub()
        self._fault: LeaseholdError | None = None
        """The first error; nothing is done after it."""
        self._closed = False
        self.on_full: Callable[[], None] = lambda: None
        """Called for each write that found no space and waits."""
        self.on_disk_error: Callable[[], None] = lambda: None
        """Called on any thread for an error of the disk, after which this process has to end."""
        self._checking: sqlite3.Connection | None = None
        """On a thread of its own, the whole file for as long as that takes."""

    @classmethod
    async def open(cls, directory: Path, *, limits: VaultLimits = VAULT_LIMITS) -> "SqliteVault":
        """Opens the vault in `directory`, or makes a new one. A file of up to `limits.whole_bytes_max` bytes is
        checked whole. Raises `BadDirectory` (code LOCKED: in use; NEWER_VERSION, OLDER_VERSION: of another version of
        this program) and `Corrupt`."""
        vault = cls(directory, DirectoryLock(directory), limits)
        try:
            await vault._run(vault._open)
        except BaseException:
            await vault.close()
            raise
        return vault

    async def identity(self) -> IdentityRecord | None:
        return await self._run(lambda database: file_format.read_identity(database, self._path, self._applied))

    async def write_identity(self, record: IdentityRecord) -> None:
        await self._run(lambda database: self._write_identity(database, record))

    async def begin_anew(self, record: IdentityRecord) -> None:
        await self._run(lambda database: self._write_identity(database, record, anew=True))

    async def coordinators(self) -> tuple[str, ...]:
        content = await self._run(lambda database: read_content(database, self._path, "coordinators"))
        return msgspec.msgpack.decode(content, type=tuple[str, ...]) if content else ()

    async def write_coordinators(self, addresses: tuple[str, ...]) -> None:
        content = msgspec.msgpack.encode(addresses)
        await self._run(
            lambda database: database.execute(
                "UPDATE coordinators SET content = ?, sha256 = ?", (content, content_hash("coordinators", content))
            )
        )

    async def projection(self) -> StoredProjection:
        return await self._run(lambda database: self._stored(rows.read_all(database, self._path, self._applied)))

    async def reopened(self) -> StoredProjection:
        return await self._run(lambda database: self._stored(rows.read_eager(database, self._path, self._applied)))

    async def verify(self, rows_max: int) -> bool:
        """As `Vault.verify`; at the end the file's structure is checked too. If an identity write interrupts that, the
        answer is False, and the check starts over."""
        done = await self._run(
            lambda database: rows.check_some(database, self._path, self._applied, self._scrub, rows_max)
        )
        # On a thread and a connection of its own, so that writes go on: it takes as long as the file is large.
        return done and await asyncio.get_running_loop().run_in_executor(None, self._check_structure)

    async def apply(self, batches: Sequence[RevisionChanges], lineage: LineageHash) -> None:
        await self._run(lambda database: self._apply(database, tuple(batches), lineage))

    async def stage(self, items: Sequence[Change], *, first: bool) -> None:
        await self._run(lambda database: self._stage(database, tuple(items), first=first))

    async def leap(self, revision: Revision, lineage: LineageHash, digest: bytes) -> tuple[Change, ...]:
        return await self._run(lambda database: self._leap(database, revision, lineage, digest))

    async def sync(self) -> Revision:

        def write(database: sqlite3.Connection) -> Revision:
            if self._durable < self._applied.revision:
                # A commit with FULL syncs the log, and with it all commits before it.
                with self._fully_synchronous():
                    database.execute("UPDATE applied SET durable = revision")
                self._durable = self._applied.revision
                self._syncs += 1
                if self._syncs >= VAULT_SYNCS_PER_CHECKPOINT:
                    # From here on damage of the log can't take back what is durable.
                    self._checkpoint(0)
            return Revision(self._durable)

        return await self._run(write)

    async def close(self) -> None:
        """Closes the file and releases the directory; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._interrupt_check()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()
        self._lock.release()

    # ------------------------------------------------------------ on the database thread

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` once there is space for it. A write that finds the disk full changes nothing, so it is repeated
        until there is space."""
        is_full = False
        while True:
            if self._closed:
                raise Refused(f"the vault {self._path} is closed", code=ErrorCode.CLOSED)
            try:
                done = await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)
            except DiskFull:
                if not is_full:
                    log.warning("no space is left for the vault %s: waiting until space is available", self._path)
                is_full = True
                self.on_full()
                await asyncio.sleep(self._limits.full_retry_ns / SECOND_NS)
            else:
                if is_full:
                    log.info("space is available for the vault %s again", self._path)
                return done

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._fault is not None:
            raise self._fault
        try:
            return work(self._database or self._connect())
        except (*SQLITE_ERRORS, OSError, Corrupt) as error:
            if is_disk_full(error):
                raise DiskFull from error  # its transaction has been rolled back
            # After another failed write or sync nothing is to be trusted before it is opened and checked anew.
            fault = self._failed(error)
            # A cursor that a frame of the error still holds would keep the file open, and close it at any time later.
            clear_frames(error.__traceback__)
            self._close()
            raise fault from error

    def _failed(self, error: Exception) -> LeaseholdError:
        """Notes the error, made ours, of a call here or of a reader on another thread. It ends this process."""
        if isinstance(error, LeaseholdError):
            fault = error
        else:
            assert isinstance(error, (*SQLITE_ERRORS, OSError)), "nothing else is caught"
            fault = explain(self._path, error)
        if self._fault is None:
            self._fault = fault
            if fault.code == ErrorCode.DISK:
                self.on_disk_error()
        return fault

    def _open(self, database: sqlite3.Connection) -> None:
        """Checks what is there, cheapest first."""
        file_format.check_version(database, self._path)
        file_format.keep_to_owner(self._path)
        whole = self._path.stat().st_size <= self._limits.whole_bytes_max
        if whole:
            check_structure(database, self._path, "quick_check")
        self._applied, self._durable = file_format.stored_applied(database, self._path)
        file_format.read_identity(database, self._path, self._applied)
        if whole:
            rows.check_all(database, self._path, self._applied)

    def _check_structure(self) -> bool:
        """False if it was interrupted."""
        if self._closed:
            return False
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as database:
                self._checking = database
                check_structure(database, self._path, "integrity_check")
        except (*SQLITE_ERRORS, Corrupt) as error:
            if isinstance(error, sqlite3.Error) and result_code(error) == sqlite3.SQLITE_INTERRUPT:
                return False
            raise self._failed(error) from error
        finally:
            self._checking = None
        return True

    def _interrupt_check(self) -> None:
        """As long as it reads, the log can't be emptied."""
        checking = self._checking
        if checking is not None:
            with suppress(sqlite3.ProgrammingError):  # it has ended just now
                checking.interrupt()

    def _connect(self) -> sqlite3.Connection:
        if not file_format.is_there(self._path):
            file_format.create(self._path)
        # Never creates a file: what is not there any more must not be taken for new.
        database = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        self._database = database
        database.execute(f"PRAGMA synchronous = {NORMAL}")
        database.execute(f"PRAGMA busy_timeout = {self._limits.busy_wait_ms}")
        database.execute(f"PRAGMA cache_size = -{VAULT_CACHE_BYTES // 1024}")
        database.execute(f"PRAGMA wal_autocheckpoint = {VAULT_LOG_PAGES}")
        return database

    def _close(self) -> None:
        database, self._database = self._database, None
        if self._fault is None:
            self._fault = disk(self._path, "it was closed")
        self.manifest.close()
        if database is not None:
            # Closing writes too, and may fail on the same disk; what counts has been synced before.
            with suppress(*SQLITE_ERRORS), log_kept(self._path, damaged=isinstance(self._fault, Corrupt)):
                database.close()

    def _write_identity(self, database: sqlite3.Connection, record: IdentityRecord, *, anew: bool = False) -> None:
        content = encode(record)
        hashed = content_hash("identity", content)
        applied = AppliedMark(identity=hashed) if anew else msgspec.structs.replace(self._applied, identity=hashed)
        with self._fully_synchronous():
            with self._transaction():
                if anew:
                    leap.forget(database)
                    database.execute("DELETE FROM projection")
                    database.execute("UPDATE applied SET durable = 0")
                database.execute("UPDATE identity SET content = ?, sha256 = ?", (content, hashed))
                applied.write(database)
            self._applied = applied
            # SQLite takes a log with a damaged frame as one that ends there, which would take the identity back.
            self._interrupt_check()
            self._checkpoint(self._limits.busy_wait_ms)
        self._durable = self._applied.revision
        if anew:
            self._staged = Staged()
            self._scrub = rows.Scrub()

    def _stored(self, items: tuple[Change, ...]) -> StoredProjection:
        return StoredProjection(applied=self._applied.revision, lineage=self._applied.lineage, items=items)

    def _apply(self, database: sqlite3.Connection, batches: tuple[RevisionChanges, ...], lineage: LineageHash) -> None:
        if not batches:
            raise Refused("nothing to apply: at least one revision is needed", code=ErrorCode.NOT_ASCENDING)
        revision = self._applied.revision
        for batch in batches:
            if batch.revision <= revision:
                raise Refused(f"revision {batch.revision} comes after {revision}", code=ErrorCode.NOT_ASCENDING)
            revision = batch.revision
        changes = {change.key: change.value for batch in batches for change in batch.changes}
        with self._transaction():
            with leap.following(database, self._staged.last, changes):
                applied = rows.put(database, self._applied, changes, self._scrub)
            applied = msgspec.structs.replace(applied, revision=revision, lineage=lineage)
            applied.write(database)
        self._applied = applied

    def _stage(self, database: sqlite3.Connection, items: tuple[Change, ...], *, first: bool) -> None:
        before = Staged() if first else self._staged
        staged, counted = before.adding(items)
        with self._transaction():
            leap.stage(database, before.last, items, counted, first=first)
        self._staged = staged

    def _leap(
        self, database: sqlite3.Connection, revision: Revision, lineage: LineageHash, digest: bytes
    ) -> tuple[Change, ...]:
        held = self._applied.revision, self._applied.lineage
        self._staged.check_leap(held, (revision, lineage), digest)
        staged = self._staged
        applied = msgspec.structs.replace(
            self._applied, revision=revision, lineage=lineage, digest=staged.digest, eager=staged.eager
        )
        with self._transaction():
            changes = leap.differences(database, staged.last)
            if revision == held[0]:
                check_same(changes)
            leap.replace(database)
            applied.write(database)
        self._applied = applied
        self._staged = Staged()
        self._scrub = rows.Scrub()
        return changes

    @contextmanager
    def _transaction(self) -> Generator[None]:
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
    def _fully_synchronous(self) -> Generator[None]:
        """Statements inside, each its own transaction, commit with synchronous=FULL."""
        assert self._database is not None
        self._database.execute(f"PRAGMA synchronous = {FULL}")
        assert pragma(self._database, "synchronous") == FULL, "SQLite ignores a setting it does not like"
        try:
            yield
        finally:
            self._database.execute(f"PRAGMA synchronous = {NORMAL}")

    def _checkpoint(self, wait_ms: int) -> None:
        """Moves the log into the file and empties it. If another program still reads the file after `wait_ms`, the next
        sync tries again."""
        assert self._database is not None
        self._database.execute(f"PRAGMA busy_timeout = {wait_ms}")
        # A reader would keep it from emptying the log.
        with self.manifest.lock:
            (busy, _log, _moved) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._database.execute(f"PRAGMA busy_timeout = {self._limits.busy_wait_ms}")
        if busy and self._syncs < VAULT_SYNCS_PER_CHECKPOINT:
            log.info("another reader of the vault %s keeps its log from being emptied; trying again later", self._path)
        self._syncs = VAULT_SYNCS_PER_CHECKPOINT if busy else 0
