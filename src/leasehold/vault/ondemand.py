"""The bases of a vault (`core.catalog.shelf`): buckets of segments read from the file when somebody asks, on any
thread.

One connection of its own, which only reads, under one lock: with a write-ahead log it waits for no writer. Every
bucket is as it was when its base was made. For that, whoever changes the file has all bases `keep` the keys as they are
before the change is committed; what is read under the lock is the file as committed, so a key that may have changed is
one that was kept.
"""

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Generic

from rpds import HashTrieMap

from leasehold.core.catalog.shelf import REPLACED, SEGMENTS, BucketKey, Family, R, Shelf, segment_of
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, LeaseholdError, Refused
from leasehold.ids import ObjectId, SegmentId
from leasehold.vault.causes import SQLITE_ERRORS
from leasehold.vault.limits import VaultLimits
from leasehold.vault.rows import verified

_BUCKET: Final = "SELECT key, value, hash FROM projection WHERE key >= ? AND key < ? ORDER BY key"
_ITEM: Final = "SELECT key, value, hash FROM projection WHERE key = ?"
_LAST: Final = "SELECT key FROM projection WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
_NEXT: Final = "SELECT key FROM projection WHERE key >= ? AND key < ? ORDER BY key LIMIT 1"


class Reader:
    """The connection, and the bases that live. `on_error` makes our error of one of SQLite's, and remembers it."""

    def __init__(self, path: Path, on_error: Callable[[Exception], LeaseholdError], limits: VaultLimits) -> None:
        self.path = path
        self.limits = limits
        self.lock: Final = threading.Lock()
        """Held while the file is read here, so whoever must be alone with it takes it."""
        self._on_error = on_error
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self._bases: weakref.WeakSet[FileBase[SegmentRecord] | FileBase[ReplacedRecord]] = weakref.WeakSet()

    def made(self) -> tuple[Shelf[SegmentRecord], Shelf[ReplacedRecord]]:
        """On new bases, of the file as it is now; by whoever writes it, so that it does not change meanwhile."""
        segments, replaced = FileBase(self, SEGMENTS), FileBase(self, REPLACED)
        self._bases.add(segments)
        self._bases.add(replaced)
        return Shelf(segments), Shelf(replaced)

    def keep(self, changed: Iterable[bytes]) -> None:
        """Has every base remember what these keys have, before they change; by whoever writes the file."""
        bases = list(self._bases)
        for key in changed:
            for base in bases:
                if key.startswith(base.family.prefix):
                    base.keep(key)

    def select(self, statement: str, bounds: tuple[bytes, ...]) -> list[tuple[bytes, bytes, bytes]]:
        """What a statement finds in the file, by whoever holds the lock."""
        if self._closed:
            raise Refused(f"the vault {self.path} is closed", code=ErrorCode.CLOSED)
        try:
            if self._database is None:
                self._database = sqlite3.connect(
                    f"{self.path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
                )
            return self._database.execute(statement, bounds).fetchall()
        except SQLITE_ERRORS as error:
            raise self._on_error(error) from error

    def failed(self, error: LeaseholdError) -> LeaseholdError:
        """Tells the vault of damage that was found here."""
        return self._on_error(error)

    def close(self) -> None:
        """Idempotent; a base that is asked later refuses."""
        with self.lock:
            database, self._database = self._database, None
            self._closed = True
            if database is not None:
                database.close()


class FileBase(Generic[R]):
    """Implements `core.catalog.shelf.Base`; made by a `Reader`."""

    def __init__(self, reader: Reader, family: Family[R]) -> None:
        self.family = family
        self._reader = reader
        self._last = self._found_last()
        """What lies behind it is of tables made since: nothing is kept of them, so those that come and go add up to
        nothing."""
        self._before: dict[BucketKey, dict[SegmentId, R | None]] = {}
        """Of buckets that changed since, what the keys that did had before: at most `patch_keys_max` of each."""
        self._kept: dict[BucketKey, HashTrieMap[SegmentId, R] | None] = {}
        """The others that changed since, as they were."""
        self._read: dict[BucketKey, HashTrieMap[SegmentId, R] | None] = {}
        """What could be read again; the newest `buckets_cached_max`."""

    def get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R] | None":
        """The map of one bucket; None rather than an empty one."""
        for known in (self._read, self._kept):
            # One step of the interpreter each, and what they hold of a bucket never changes: no lock is needed.
            found = known.get(bucket)
            if found is not None:
                return found
        if self.lacks(bucket):
            return None
        with self._reader.lock:
            return self._get(bucket)

    def has(self, bucket: BucketKey) -> bool:
        """Whether it is not empty."""
        if self.lacks(bucket):
            return False
        with self._reader.lock:
            return self._has(bucket)

    def lacks(self, bucket: BucketKey) -> bool:
        """Whether it lies behind all that are there."""
        return self._last is None or bucket > self._last

    def keep(self, key: bytes) -> None:
        """Remembers what a key has: it changes soon."""
        bucket = self.family.bucket_of(key)
        if bucket in self._kept or self.lacks(bucket):
            return
        with self._reader.lock:
            before = self._before.setdefault(bucket, {})
            if bucket in self._read or len(before) >= self._reader.limits.patch_keys_max:
                self._kept[bucket] = self._get(bucket)
                self._read.pop(bucket, None)
                del self._before[bucket]
            elif (segment := segment_of(key)) not in before:
                before[segment] = (self._rows(_ITEM, (key,)) or {}).get(segment)

    def tables(self) -> list[ObjectId]:
        """The tables that have any, in order."""
        prefix = self.family.prefix
        with self._reader.lock:
            found = {table for table, _ in self._steps(prefix, lambda one: b"%s%010d" % (prefix, one[0]))}
            changed = {table for table, _ in (*self._kept, *self._before)}
            return sorted(table for table in found | changed if table not in changed or self._buckets(table))

    def buckets(self, table: ObjectId) -> list[BucketKey]:
        """The buckets of one of them that have any, in order."""
        with self._reader.lock:
            return self._buckets(table)

    def _buckets(self, table: ObjectId) -> list[BucketKey]:
        prefix = b"%s%010d/" % (self.family.prefix, table)
        changed = {one for one in (*self._kept, *self._before) if one[0] == table}
        found = set(self._steps(prefix, self.family.bucket_prefix)).difference(changed)
        return sorted(found.union(one for one in changed if self._has(one)))

    def _steps(self, prefix: bytes, group: Callable[[BucketKey], bytes]) -> Iterator[BucketKey]:
        """The first bucket of each group in the file, by one look for each; a group has a prefix of keys."""
        if self._last is None:
            return
        start, end = prefix, min(prefix[:-1] + b"0", self._bounds(self._last)[1])
        while found := self._reader.select(_NEXT, (start, end)):
            bucket = self.family.bucket_of(found[0][0])
            yield bucket
            # `0` is what follows `/`, so this is behind all keys of the group.
            start = group(bucket) + b"0"

    def _found_last(self) -> BucketKey | None:
        prefix = self.family.prefix
        with self._reader.lock:
            found = self._reader.select(_LAST, (prefix, prefix[:-1] + b"0"))
        return self.family.bucket_of(found[0][0]) if found else None

    def _has(self, bucket: BucketKey) -> bool:
        for known in (self._kept, self._read):
            if bucket in known:
                return known[bucket] is not None
        before = self._before.get(bucket)
        if before is None:
            return bool(self._reader.select(_NEXT, self._bounds(bucket)))
        return any(record is not None for record in before.values()) or self._get(bucket) is not None

    def _get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R] | None":
        for known in (self._kept, self._read):
            if bucket in known:
                return known[bucket]
        found = self._rows(_BUCKET, self._bounds(bucket)) or HashTrieMap()
        for segment, record in self._before.get(bucket, {}).items():
            found = found.discard(segment) if record is None else found.insert(segment, record)
        while len(self._read) >= self._reader.limits.buckets_cached_max:
            del self._read[next(iter(self._read))]
        self._read[bucket] = found or None
        return self._read[bucket]

    def _bounds(self, bucket: BucketKey) -> tuple[bytes, bytes]:
        prefix = self.family.bucket_prefix(bucket)
        return prefix + b"/", prefix + b"0"

    def _rows(self, statement: str, bounds: tuple[bytes, ...]) -> "HashTrieMap[SegmentId, R] | None":
        """What the file has of one bucket; None for nothing."""
        rows = self._reader.select(statement, bounds)
        try:
            return self.family.decoded((key, value) for key, value, _ in verified(rows, self._reader.path))
        except Corrupt as error:
            raise self._reader.failed(error) from error
