"""The segments in a vault, read from its file when they are needed, on any thread (`core/data/manifest.py`).

A connection of its own reads under one lock; with a write-ahead log it waits for no writer. Each call is one
transaction, which reads the applied revision too.

A node often reads a bucket again of which little has changed. So the records of the buckets that were read last are
kept with the hashes of their rows, and only rows with another hash are decoded.
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from leasehold.core.catalog.shelf import REPLACED, SEGMENTS, BucketKey, Family, R, segment_of
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.data.manifest import StoredSegment
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.digest import digest_bytes
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, LeaseholdError, Refused
from leasehold.ids import SegmentId
from leasehold.vault.causes import SQLITE_ERRORS
from leasehold.vault.format import stored_applied
from leasehold.vault.limits import VaultLimits
from leasehold.vault.rows import verified

_BUCKET: Final = "SELECT key, value, hash FROM projection WHERE key >= ? AND key < ? ORDER BY key"
_HASHES: Final = "SELECT key, hash FROM projection WHERE key >= ? AND key < ? ORDER BY key"
_ITEM: Final = "SELECT key, value, hash FROM projection WHERE key = ?"


class FileManifest:
    """Implements `core.data.manifest.Manifest`. `on_error` makes our error of one of SQLite's, and remembers it."""

    def __init__(self, path: Path, on_error: Callable[[Exception], LeaseholdError], limits: VaultLimits) -> None:
        self.lock: Final = threading.Lock()
        """Held while the file is read here."""
        self._path = path
        self._on_error = on_error
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self._known: dict[bytes, dict[bytes, tuple[bytes, SegmentRecord | ReplacedRecord]]] = {}
        """The buckets read last, by the prefix of their keys: each key with the hash of its row and its record."""
        self._known_max = limits.buckets_cached_max

    def segment(self, bucket: BucketKey, segment: SegmentId) -> StoredSegment:
        with self._reading() as database:
            applied, _ = stored_applied(database, self._path)
            return StoredSegment(
                applied.revision,
                self._record(database, SegmentRecord, keys.segment(*bucket, segment)),
                self._record(database, ReplacedRecord, keys.replaced(*bucket, segment)),
            )

    def bucket(self, bucket: BucketKey) -> StoredBucket:
        with self._reading() as database:
            applied, _ = stored_applied(database, self._path)
            return StoredBucket(
                applied.revision, self._records(database, SEGMENTS, bucket), self._records(database, REPLACED, bucket)
            )

    def close(self) -> None:
        """Refuses all later calls; idempotent."""
        with self.lock:
            database, self._database = self._database, None
            self._closed = True
            if database is not None:
                database.close()

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self.lock:
            if self._closed:
                raise Refused(f"the vault {self._path} is closed", code=ErrorCode.CLOSED)
            try:
                if self._database is None:
                    self._database = sqlite3.connect(
                        f"{self._path.absolute().as_uri()}?mode=ro",
                        uri=True,
                        isolation_level=None,
                        check_same_thread=False,
                    )
                self._database.execute("BEGIN")
                try:
                    yield self._database
                finally:
                    self._database.execute("COMMIT")
            except (*SQLITE_ERRORS, Corrupt) as error:
                raise self._on_error(error) from error

    def _record(self, database: sqlite3.Connection, kind: type[R], key: bytes) -> R | None:
        found = self._rows(database, kind, _ITEM, (key,)).values()
        return next((record for _, record in found), None)

    def _records(self, database: sqlite3.Connection, family: Family[R], bucket: BucketKey) -> dict[SegmentId, R]:
        prefix = family.bucket_prefix(bucket)
        bounds = (prefix + b"/", prefix + b"0")  # `0` is what follows `/`
        known: Any = self._known.pop(prefix, None)
        if known is None:
            rows = self._rows(database, family.kind, _BUCKET, bounds)
        else:
            rows: dict[bytes, tuple[bytes, R]] = {}
            for key, hashed in database.execute(_HASHES, bounds).fetchall():
                before = known.get(key)
                if before is not None and before[0] == hashed:
                    rows[key] = before
                else:
                    rows |= self._rows(database, family.kind, _ITEM, (key,))
        if rows:
            self._known[prefix] = rows
        if len(self._known) > self._known_max:
            del self._known[next(iter(self._known))]
        return {segment_of(key): record for key, (_, record) in rows.items()}

    def _rows(
        self, database: sqlite3.Connection, kind: type[R], statement: str, bounds: tuple[bytes, ...]
    ) -> dict[bytes, tuple[bytes, R]]:
        rows = database.execute(statement, bounds).fetchall()
        return {
            key: (digest_bytes(counted), decode_record(kind, value))
            for key, value, counted in verified(rows, self._path)
        }
