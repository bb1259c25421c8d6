"""The file of a SQLite meta storage, with its lock. One thread owns a `Database`; nothing here knows of asyncio.

The newest revision needs no row of its own: compaction keeps all rows at or above MM, and MM is never above it.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeAlias

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change, Compare, KeyValue, Page, RevisionChanges, Txn, TxnResult
from leasehold.core.words.records import LeaderRecord
from leasehold.ids import Revision, Term
from leasehold.limits.metastorage import (
    CHANGE_FRAMING_BYTES,
    CHECKPOINT_COMMITS,
    CHECKPOINT_PAGES_MAX,
    COMPACTION_SLICE_ROWS,
    HISTORY_SAMPLE_ROWS,
    META_STORAGE_BYTES_MAX,
    META_STORAGE_CACHE_BYTES,
    QUICK_CHECK_BYTES_MAX,
    RANGE_PAGE_BYTES_MAX,
    RANGE_VERSIONS_PER_KEY,
    REPLAY_BYTES_MAX,
    REPLAY_REVISIONS_MAX,
)
from leasehold.metastorage.causes import corrupt, explain, result_code, unclear
from leasehold.metastorage.contract import Compacted, FutureRevision, StorageStatus
from leasehold.metastorage.file_kind import is_empty
from leasehold.metastorage.lock import give_up_lock, keep_to_owner, take_lock
from leasehold.metastorage.newest import NewestKeys
from leasehold.metastorage.schema import (
    APPLICATION_ID,
    AT,
    HISTORY_ROWS,
    INSERT,
    NEWEST_BYTES,
    RANGE,
    REPLAY,
    SCHEMA,
    VERSIONS,
)
from leasehold.metastorage.transaction import (
    Writes,
    as_revision,
    check_fence,
    cluster_id,
    election,
    evaluate,
    readable,
    term_of,
)
from leasehold.metastorage.watch import HistoryPart

_Row: TypeAlias = tuple[bytes, bytes, Revision, Revision, int]
"""Key, value, and the revisions at which it was created and written last; how often it was written."""


class DatabaseLimits(NamedTuple):
    """Bounds of what a file is checked, read and tidied by."""

    quick_check_bytes_max: int = QUICK_CHECK_BYTES_MAX
    checkpoint_commits: int = CHECKPOINT_COMMITS
    slice_rows: int = COMPACTION_SLICE_ROWS
    versions_per_key: int = RANGE_VERSIONS_PER_KEY


DATABASE_LIMITS: Final = DatabaseLimits()
ALL_CHECKED: Final = DatabaseLimits(quick_check_bytes_max=META_STORAGE_BYTES_MAX)
"""Also a large file is checked when it is opened."""


class Database:
    """An open file. Raises `BadDirectory` if another process has it or it is of a newer version, and `Corrupt`. Any
    `Indefinite` from it means that what is on disk is not known any more: close it and open it again."""

    application_ids: ClassVar[tuple[int, ...]] = (APPLICATION_ID,)
    """The kinds of file that it opens."""
    schema: ClassVar = SCHEMA
    insert: ClassVar = INSERT
    check: ClassVar = "quick_check"
    synchronous: ClassVar = "FULL"

    def __init__(self, path: Path, *, bytes_max: int, limits: DatabaseLimits = DATABASE_LIMITS) -> None:
        self.path = path
        self._limits = limits
        self.newest = Revision(0)
        self.minimum = Revision(1)
        self._unfolded = 0
        """Durable commits since the last `fold`."""
        self._swept = Revision(0)
        self._latest = NewestKeys(lambda key: self._at(key, self.newest))
        self._committed: list[RevisionChanges] = []
        self._lock = take_lock(path)
        try:
            keep_to_owner(path)
            with self._explained():
                self._connection = sqlite3.connect(path, timeout=0, isolation_level=None)
                try:
                    self._prepare(bytes_max)
                except BaseException:
                    self._connection.close()
                    raise
        except BaseException:
            give_up_lock(self._lock)
            raise

    # ------------------------------------------------------------ writing

    def commit(self, txns: Sequence[Txn]) -> list[TxnResult]:
        """Runs each transaction under its own revision, all in one durable commit. Raises a definite error if surely
        none happened, `Indefinite` otherwise."""
        committed: list[RevisionChanges] = []
        newest = self.newest
        try:
            with self._durable():
                results = [self._run(txn, committed) for txn in txns]
        except BaseException:
            self.newest = newest
            self._latest.clear()
            raise
        self._latest.bound()
        self._committed += committed
        return results

    def take_committed(self) -> list[RevisionChanges]:
        """What became durable since the last call, for the watches."""
        committed, self._committed = self._committed, []
        return committed

    def lead(self, candidate: str) -> Term:
        record, txn = election(self._at(keys.LEADER, self.newest), self._at(keys.CLUSTER, self.newest), candidate)
        (result,) = self.commit((txn,))
        assert result.succeeded, "nobody else writes"
        return record.term

    def leader(self) -> LeaderRecord | None:
        with self._explained():
            found = self._at(keys.LEADER, self.newest)
        return None if found is None else decode_record(LeaderRecord, found.value)

    def compact(self, before: Revision, fence: tuple[Compare, ...] = ()) -> None:
        """Makes `before` the oldest readable revision; `sweep` deletes what that leaves unseen."""
        check_fence(fence, term_of(self._at(keys.LEADER, self.newest)))
        if before > self.newest:
            raise FutureRevision(f"can't compact up to {before}: the newest revision is {self.newest}")
        if before < self.minimum:
            raise Compacted(self.minimum)
        if before > self.minimum:
            with self._durable():
                self._connection.execute("UPDATE state SET minimum = ?", (before,))
            self.minimum = before

    @property
    def sweeping(self) -> bool:
        return self._swept < self.minimum

    def sweep(self) -> None:
        """Deletes the next slice of what compaction left unseen, if there is any. It goes through the revisions between
        the last compaction and this one: each row there makes the older rows of its key unseen, so others are not
        read."""
        if not self.sweeping:
            return
        with self._durable():
            found = self._connection.execute(
                "SELECT revision FROM kv WHERE revision >= ? AND revision < ? ORDER BY revision LIMIT 1 OFFSET ?",
                (self._swept, self.minimum, self._limits.slice_rows),
            ).fetchone()
            if found is None or found[0] + 1 >= self.minimum:
                upto = swept = self.minimum
            else:
                upto, swept = found[0], Revision(found[0] + 1)
            newest_of_each = self._connection.execute(
                "SELECT key, max(revision) FROM kv WHERE revision >= ? AND revision <= ? GROUP BY key",
                (self._swept, upto),
            ).fetchall()
            self._connection.executemany("DELETE FROM kv WHERE key = ? AND revision < ?", newest_of_each)
            # A delete at MM itself stays: a watch from MM on has to deliver it.
            self._connection.execute(
                "DELETE FROM kv WHERE revision >= ? AND revision <= ? AND revision < ? AND value IS NULL",
                (self._swept, upto, self.minimum),
            )
            self._connection.execute("UPDATE state SET swept = ?", (swept,))
        self._swept = swept

    def fold(self) -> None:
        """Moves the write-ahead log into the file if it is time; called when nobody waits for an answer."""
        if self._unfolded >= self._limits.checkpoint_commits:
            with self._explained():
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._unfolded = 0

    # ------------------------------------------------------------ reading

    def get(self, key: bytes, revision: Revision | None) -> KeyValue | None:
        at = readable(revision, self.minimum, self.newest)
        with self._explained():
            return self._at(key, at)

    def page(self, start: bytes, end: bytes, revision: Revision | None, limit: int) -> Page:
        """The first `limit` keys of a range at a revision, fewer if they grow over `RANGE_PAGE_BYTES_MAX`."""
        at = readable(revision, self.minimum, self.newest)
        items: list[KeyValue] = []
        size = 0
        next_start: bytes | None = None
        with self._explained(), closing(self._standing_at(start, end, at, limit)) as rows:
            for row in rows:
                if len(items) == limit or size >= RANGE_PAGE_BYTES_MAX:
                    next_start = items[-1].key + b"\x00"
                    break
                items.append(_key_value(row))
                size += len(row[0]) + len(row[1])
        return Page(revision=at, items=tuple(items), next_start=next_start)

    def replay(self, start: bytes, end: bytes, from_revision: Revision) -> HistoryPart:
        """Whole revisions of a range from `from_revision` on, at most so many that one read is bounded."""
        if from_revision < self.minimum:
            raise Compacted(self.minimum)
        if from_revision > self.newest:
            return HistoryPart(batches=(), covered=self.newest, complete=True)
        covered = min(self.newest, Revision(from_revision + REPLAY_REVISIONS_MAX - 1))
        batches: list[RevisionChanges] = []
        changes: list[Change] = []
        size = 0
        current = Revision(0)
        arguments = from_revision, covered, start, end
        with self._explained(), closing(self._connection.execute(REPLAY, arguments)) as rows:
            for revision, key, value in rows:
                if revision != current:
                    if changes:
                        batches.append(RevisionChanges(current, tuple(changes)))
                        changes = []
                    if size >= REPLAY_BYTES_MAX:
                        covered = current
                        break
                    current = revision
                changes.append(Change(key, value))
                size += len(key) + (0 if value is None else len(value))
        if changes:
            batches.append(RevisionChanges(current, tuple(changes)))
        return HistoryPart(batches=tuple(batches), covered=covered, complete=covered >= self.newest)

    def status(self) -> StorageStatus:
        """Cluster id, LM and MM."""
        with self._explained():
            lineage = self._at(keys.LINEAGE, self.newest)
            cluster = self._at(keys.CLUSTER, self.newest)
        return StorageStatus(
            cluster_id=cluster_id(cluster),
            latest=Revision(0) if lineage is None else lineage.modified,
            minimum=self.minimum,
        )

    def history_bytes(self) -> int:
        """Of the keys and values above MM, with their framing: all rows count as the newest ones, since to read each
        would keep the thread for seconds."""
        with self._explained():
            (rows,) = self._connection.execute(HISTORY_ROWS, (self.minimum,)).fetchone()
            seen, size = self._connection.execute(NEWEST_BYTES, (self.minimum, HISTORY_SAMPLE_ROWS)).fetchone()
        return rows * (CHANGE_FRAMING_BYTES + size // seen) if seen else 0

    def close(self) -> None:
        """Closes the file and gives up the lock."""
        try:
            with self._explained():
                self._connection.close()
        finally:
            give_up_lock(self._lock)

    # ------------------------------------------------------------ inside

    def _prepare(self, bytes_max: int) -> None:
        run = self._connection.execute
        # There is only ever one connection, so the log's index can live in memory and needs no file locks.
        run("PRAGMA locking_mode = EXCLUSIVE")
        empty = is_empty(self._connection, self.path, self.application_ids)
        run("PRAGMA journal_mode = WAL").fetchone()
        run(f"PRAGMA synchronous = {self.synchronous}")
        run(f"PRAGMA cache_size = -{META_STORAGE_CACHE_BYTES // 1024}")
        # `fold` does it between two answers; this is for a few huge commits in a row.
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES_MAX}").fetchone()
        page_bytes = run("PRAGMA page_size").fetchone()[0]
        run(f"PRAGMA max_page_count = {max(1, bytes_max // page_bytes)}").fetchone()
        version = run("PRAGMA user_version").fetchone()[0]
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA user_version = {version}")  # a file that says that it is only to be read fails here, and not later
        run("ROLLBACK")
        if empty:
            with self._durable():
                for statement in self.schema:
                    run(statement)
        elif self.path.stat().st_size <= self._limits.quick_check_bytes_max:
            found = run(f"PRAGMA {self.check}(1)").fetchone()[0]
            if found != "ok":
                raise corrupt(self.path, found)
        state = run("SELECT minimum, swept FROM state").fetchone()
        if state is None:
            raise corrupt(self.path, "its state is missing")
        self.minimum, self._swept = state
        self.newest = Revision(run("SELECT max(revision) FROM kv").fetchone()[0] or 0)

    def _run(self, txn: Txn, committed: list[RevisionChanges]) -> TxnResult:
        revision = Revision(self.newest + 1)
        latest = self._latest.__getitem__
        succeeded, writes = evaluate(txn, latest, revision, term_of(latest(keys.LEADER)))
        if not writes:
            return TxnResult(succeeded=succeeded, revision=self.newest)
        self._connection.executemany(self.insert, self._rows(revision, writes))
        committed.append(as_revision(revision, writes))
        return TxnResult(succeeded=succeeded, revision=revision)

    def _rows(self, revision: Revision, writes: Writes) -> list[tuple[object, ...]]:
        """The rows of the newest revision, which the caller inserts."""
        self._latest.write(writes)
        self.newest = revision
        return [
            self._row(key, revision, None, 0, 0)
            if entry is None
            else self._row(key, revision, entry.value, entry.created, entry.version)
            for key, entry in writes.items()
        ]

    def _row(self, key: bytes, revision: int, value: bytes | None, created: int, version: int) -> tuple[object, ...]:
        """The values of `insert`."""
        return key, revision, value, created, version

    def _standing_at(self, start: bytes, end: bytes, at: Revision, count: int) -> Generator[_Row]:
        """The keys of a range at a revision, in order, of which the caller takes about `count`.

        Most keys have few versions, and reading all of these is quickest. Where there are more than
        `limits.versions_per_key` of each, RANGE steps from key to key."""
        key, found, looked = start, None, 0
        most = (count + 1) * self._limits.versions_per_key
        with closing(self._connection.execute(VERSIONS, (start, end, most))) as rows:
            for row in rows:
                if row[0] != key:
                    if found is not None:
                        yield found
                    key, found = row[0], None
                if row[3] <= at:
                    found = None if row[1] is None else row
                looked += 1
        if looked < most:
            if found is not None:
                yield found
            return
        # From this key on: not all its versions may have been seen.
        with closing(self._connection.execute(RANGE, (key, end, at))) as rows:
            yield from rows

    def _at(self, key: bytes, revision: Revision) -> KeyValue | None:
        row = self._connection.execute(AT, (key, revision)).fetchone()
        return None if row is None or row[1] is None else _key_value(row)

    @contextmanager
    def _durable(self) -> Generator[None]:
        """One SQLite transaction: what leaves it with a definite error surely did not happen."""
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            yield
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise explain(self.path, error) from error
            raise
        try:
            execute("COMMIT")
        except sqlite3.Error as error:
            if result_code(error) != sqlite3.SQLITE_FULL:
                # The commit mark may have reached the disk: a restart could still find it.
                raise unclear(self.path, error) from error
            self._roll_back()
            raise explain(self.path, error) from error
        self._unfolded += 1

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise unclear(self.path, error) from error

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(self.path, error) from error
        except UnicodeDecodeError as error:  # Python makes no error of words that quote a damaged schema
            raise corrupt(self.path, "its schema is no text") from error


def _key_value(row: _Row) -> KeyValue:
    key, value, created, modified, version = row
    return KeyValue(key=key, value=value, created=created, modified=modified, version=version)
