"""A map of maps that is not all in memory: what changed since the process began lies over a base that never changes.

Segments are what grows with a cluster: of the million keys of a large one nearly all are segment records, and a node
that starts needs few of them soon. So the maps of segments and of replaced segments are `Shelf`s: a persistent map of
what has changed, over a `Base` that gives the rest bucket by bucket when somebody asks for it. A change reads nothing:
what it sets lies over a bucket that is still unread, and a bucket becomes one map when somebody asks for it.

Why this is exact: a key that has not changed since the base was made is in the vault as it was then. Before a vault
changes a key it has every base keep what the key has (`vault/ondemand.py`), so a base answers the same for ever, and a
view of any age, read on any thread, sees its own revision and nothing of a later one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core import keys
from leasehold.core.codec import decode_record
from leasehold.core.operations import Change
from leasehold.core.records import ReplacedRecord, SegmentRecord
from leasehold.errors import Corrupt
from leasehold.ids import BucketNumber, LineageHash, ObjectId, Revision, SegmentId
from leasehold.limits import BUCKET_PATCH_KEYS_MAX

BucketKey = tuple[ObjectId, BucketNumber]
R = TypeVar("R", SegmentRecord, ReplacedRecord)
R_co = TypeVar("R_co", SegmentRecord, ReplacedRecord, covariant=True)


class Base(Protocol[R_co]):
    """The buckets as they were when it was made; from any thread. Raises `Corrupt` for what is damaged."""

    def get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R_co] | None":
        """The map of one bucket; None rather than an empty one."""
        ...

    def has(self, bucket: BucketKey) -> bool:
        """Whether it is not empty; costs a look at one key."""
        ...

    def lacks(self, bucket: BucketKey) -> bool:
        """Whether it lies behind all that are there, as those of tables made since do: empty, and costs nothing."""
        ...

    def tables(self) -> list[ObjectId]:
        """The tables that have any, in order; costs as much as there are tables."""
        ...

    def buckets(self, table: ObjectId) -> list[BucketKey]:
        """The buckets of one of them that have any, in order; costs as much as there are of these."""
        ...


class Empty(Generic[R]):
    """Of a catalog that holds everything itself, as a leader's."""

    def get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R] | None":  # noqa: ARG002 it has none
        """None."""
        return None

    def has(self, bucket: BucketKey) -> bool:  # noqa: ARG002
        """False."""
        return False

    def lacks(self, bucket: BucketKey) -> bool:  # noqa: ARG002
        """True."""
        return True

    def tables(self) -> list[ObjectId]:
        """None."""
        return []

    def buckets(self, table: ObjectId) -> list[BucketKey]:  # noqa: ARG002
        """None."""
        return []


class Patch(Generic[R]):
    """What has changed of a bucket of a base that nobody has asked for since; None stands for a key that is gone.

    The map of the whole bucket is made when it is asked for, and kept: on whatever thread, it comes out the same."""

    __slots__ = ("_base", "_bucket", "_changed", "_whole")

    def __init__(self, base: Base[R], bucket: BucketKey, changed: "HashTrieMap[SegmentId, R | None]") -> None:
        self._base = base
        self._bucket = bucket
        self._changed = changed
        self._whole: HashTrieMap[SegmentId, R] | None = None

    def whole(self) -> "HashTrieMap[SegmentId, R]":
        """The bucket; it may be empty."""
        whole = self._whole
        if whole is None:
            whole = self._base.get(self._bucket) or HashTrieMap()
            for segment, record in self._changed.items():
                whole = whole.discard(segment) if record is None else whole.insert(segment, record)
            self._whole = whole
        return whole

    def has_any(self) -> bool:
        """Whether the bucket is not empty; reads it only where what has changed does not tell."""
        if self._whole is None and any(record is not None for record in self._changed.values()):
            return True
        return bool(self.whole())

    def setting(self, segment: SegmentId, record: R | None) -> "Patch[R] | None":
        """With this key too; None where the whole is to be changed instead: it is there, or it is time to make it, so
        that keys which come and go do not add up."""
        if self._whole is not None or len(self._changed) >= BUCKET_PATCH_KEYS_MAX:
            return None
        return Patch(self._base, self._bucket, self._changed.insert(segment, record))


class Shelf(Mapping[BucketKey, "HashTrieMap[SegmentId, R]"], Generic[R]):  # noqa: PLW1641 no map has a hash
    """Persistent, as `HashTrieMap`: what changes it answers another one. One bucket costs what it holds, the whole
    (`len`, iteration, comparison) costs a walk through the base."""

    __slots__ = ("_base", "_changed")

    def __init__(
        self,
        base: Base[R] | None = None,
        changed: "HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] | None" = None,
    ) -> None:
        self._base: Base[R] = Empty() if base is None else base
        self._changed: HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] = changed or HashTrieMap()
        """A bucket of the base that has become empty has an empty map here, others that are empty are not here."""

    def get(self, key: BucketKey, default: Any = None) -> Any:
        """The map of a bucket, which is never empty."""
        found = self._changed.get(key)
        if found is None:
            found = self._base.get(key)
        elif isinstance(found, Patch):
            found = found.whole()
        return found or default

    def mark(self, key: BucketKey) -> object:
        """An object that is the same one for as long as the bucket is: to see whether it has changed, unread."""
        return self._changed.get(key, self._base)

    def __getitem__(self, key: BucketKey) -> "HashTrieMap[SegmentId, R]":
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        found = self._changed.get(key)  # pyright: ignore[reportArgumentType, reportCallIssue] of another type: None
        if found is None:
            return self._base.has(key)  # pyright: ignore[reportArgumentType]
        return found.has_any() if isinstance(found, Patch) else bool(found)

    def __iter__(self) -> Iterator[BucketKey]:
        if isinstance(self._base, Empty):
            yield from self._changed
            return
        for table in self._base.tables():
            yield from (one for one in self._base.buckets(table) if one not in self._changed)
        yield from (key for key in self._changed if key in self)

    def __len__(self) -> int:
        return len(self._changed) if isinstance(self._base, Empty) else sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def items(self) -> Any:
        """As of any map; a leader's, which has no base, goes through it at full speed."""
        return self._changed.items() if isinstance(self._base, Empty) else super().items()

    def values(self) -> Any:
        """Likewise."""
        return self._changed.values() if isinstance(self._base, Empty) else super().values()

    def insert(self, key: BucketKey, value: "HashTrieMap[SegmentId, R]") -> "Shelf[R]":
        """With this map for a bucket."""
        return Shelf(self._base, self._changed.insert(key, value))

    def setting(self, key: BucketKey, segment: SegmentId, record: R | None) -> "Shelf[R]":
        """With this record in a bucket, or without that segment; what was not read stays unread."""
        found = self._changed.get(key)
        if found is None and not self._base.lacks(key):
            found = Patch(self._base, key, HashTrieMap())
        if isinstance(found, Patch):
            patch = found.setting(segment, record)
            if patch is not None:
                return Shelf(self._base, self._changed.insert(key, patch))
            found = found.whole()
        before: HashTrieMap[SegmentId, R] = HashTrieMap() if found is None else found
        after = before.discard(segment) if record is None else before.insert(segment, record)
        if not after and not self._base.has(key):
            return Shelf(self._base, self._changed.discard(key))
        return self.insert(key, after)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shelf) and self._base is other._base and self._changed is other._changed:
            return True
        return super().__eq__(other)

    def __repr__(self) -> str:
        return f"Shelf({dict(self._changed.items())!r} over {self._base!r})"


class Family(msgspec.Struct, Generic[R], frozen=True):
    """The keys of one kind of record that lies in such a map: `<prefix><table>/<bucket>/<segment>`."""

    prefix: bytes
    kind: type[R]

    def bucket_prefix(self, bucket: BucketKey) -> bytes:
        """What the keys of a bucket begin with, without the last `/`."""
        return b"%s%010d/%05d" % (self.prefix, *bucket)

    def bucket_of(self, key: bytes) -> BucketKey:
        """The bucket that a key, or the prefix of a bucket, belongs to. Raises `Corrupt`."""
        try:
            table, number = key[len(self.prefix) :].split(b"/")[:2]
            return ObjectId(int(table)), BucketNumber(int(number))
        except ValueError as error:
            raise Corrupt(f"a key that names no bucket: {key!r}") from error

    def segment_of(self, key: bytes) -> SegmentId:
        """The segment that a key names. Raises `Corrupt`."""
        try:
            return SegmentId(key[key.rindex(b"/") + 1 :].decode())
        except ValueError as error:
            raise Corrupt(f"a key that names no segment: {key!r}") from error

    def decoded(self, items: Iterable[tuple[bytes, bytes]]) -> "HashTrieMap[SegmentId, R] | None":
        """The map of one bucket from its keys and values; None rather than an empty one."""
        found = {self.segment_of(key): decode_record(self.kind, value) for key, value in items}
        return HashTrieMap(found) if found else None


SEGMENTS = Family(keys.SEGMENTS, SegmentRecord)
REPLACED = Family(keys.REPLACED, ReplacedRecord)


def on_demand(key: bytes) -> bool:
    """Whether what lies under a key is read on demand."""
    return key.startswith((keys.SEGMENTS, keys.REPLACED))


def bucket_prefix(key: bytes) -> bytes | None:
    """What the key has in common with all of its bucket, if it lies in such a map."""
    return key[: key.rindex(b"/")] if on_demand(key) else None


class Reopened(msgspec.Struct, frozen=True, kw_only=True):
    """What a process goes on from (`Catalog.reopened`): as `StoredProjection`, with what is read on demand apart."""

    applied: Revision
    lineage: LineageHash
    items: tuple[Change, ...]
    """Every other key with its value, in key order."""
    segments: Base[SegmentRecord]
    replaced: Base[ReplacedRecord]
