"""A map of maps that is not all in memory: what changed since the process began lies over a base that never changes.

Segments are what grows with a cluster: of the million keys of a large one nearly all are segment records, and a node
that starts needs few of them soon. So the maps of segments and of replaced segments are `Shelf`s: a persistent map of
the buckets that have changed, over a `Base` that gives the others bucket by bucket on first touch.

Why this is exact: a key that has not changed since the base was made is in the vault as it was then. Before a vault
changes a bucket it has every base keep that bucket as it is (`vault/ondemand.py`), so a base answers the same for ever,
and a view of any age, read on any thread, sees its own revision and nothing of a later one.
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

BucketKey = tuple[ObjectId, BucketNumber]
R = TypeVar("R", SegmentRecord, ReplacedRecord)
R_co = TypeVar("R_co", SegmentRecord, ReplacedRecord, covariant=True)


class Base(Protocol[R_co]):
    """The buckets as they were when it was made; from any thread. Raises `Corrupt` for what is damaged."""

    def get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R_co] | None":
        """The map of one bucket; None rather than an empty one."""
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

    def tables(self) -> list[ObjectId]:
        """None."""
        return []

    def buckets(self, table: ObjectId) -> list[BucketKey]:  # noqa: ARG002
        """None."""
        return []


class Shelf(Mapping[BucketKey, "HashTrieMap[SegmentId, R]"], Generic[R]):  # noqa: PLW1641 no map has a hash
    """Persistent, as `HashTrieMap`: what changes it answers another one. One bucket costs what it holds, the whole
    (`len`, iteration, comparison) costs a walk through the base."""

    __slots__ = ("_base", "_changed")

    def __init__(
        self,
        base: Base[R] | None = None,
        changed: "HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | None] | None" = None,
    ) -> None:
        self._base: Base[R] = Empty() if base is None else base
        self._changed: HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | None] = changed or HashTrieMap()
        """None for a bucket of the base that has become empty."""

    def get(self, key: BucketKey, default: Any = None) -> Any:
        """The map of a bucket, which is never empty."""
        found = self._changed[key] if key in self._changed else self._base.get(key)
        return default if found is None else found

    def mark(self, key: BucketKey) -> object:
        """An object that is the same one for as long as the bucket is: to see whether it has changed, unread."""
        return self._changed.get(key, self._base)

    def __getitem__(self, key: BucketKey) -> "HashTrieMap[SegmentId, R]":
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # pyright: ignore[reportArgumentType] of another type: nothing has it

    def __iter__(self) -> Iterator[BucketKey]:
        if isinstance(self._base, Empty):
            yield from self._changed
            return
        for table in self._base.tables():
            yield from (one for one in self._base.buckets(table) if one not in self._changed)
        yield from (key for key, found in self._changed.items() if found is not None)

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

    def discard(self, key: BucketKey) -> "Shelf[R]":
        """Without this bucket, if it is there."""
        if self._base.get(key) is not None:
            return Shelf(self._base, self._changed.insert(key, None))
        return Shelf(self._base, self._changed.discard(key))

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

    def decoded(self, items: Iterable[tuple[bytes, bytes]]) -> "HashTrieMap[SegmentId, R] | None":
        """The map of one bucket from its keys and values; None rather than an empty one."""
        found = {SegmentId(key.rsplit(b"/", 1)[1].decode()): decode_record(self.kind, value) for key, value in items}
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
