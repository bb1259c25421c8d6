"""A map of maps whose buckets are read when somebody asks for them.

Segments are what grows with a cluster: of the million keys of a large one nearly all are segment records, and a process
that starts needs few of them soon. So the maps of segments and of replaced segments are `Shelf`s: a persistent map of
buckets, of which some are unread. A node's lie over a `Base`, its vault, which gives a bucket when it is asked for; a
leader has read the keys and values of all, and decodes those of a bucket then (`Held`). A change reads nothing: what it
sets lies over a bucket that is still unread (`Patch`), and a bucket becomes one map when somebody asks for it.

Why this is exact: a key that has not changed since the base was made is in the vault as it was then. Before a vault
changes a key it has every base keep what the key has (`vault/ondemand.py`), so a base answers the same for ever, and a
view of any age, read on any thread, sees its own revision and nothing of a later one. What is held never changes.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change, KeyValue
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.errors import Corrupt
from leasehold.ids import BucketNumber, LineageHash, ObjectId, Revision, SegmentId
from leasehold.limits.vault import BUCKET_PATCH_KEYS_MAX

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


class Held(Generic[R]):
    """One bucket as it was read, by the values of its keys: decoded when it is asked for, on whatever thread."""

    __slots__ = ("_family", "_found")

    def __init__(self, family: "Family[R]", values: dict[SegmentId, bytes]) -> None:
        self._family = family
        self._found: dict[SegmentId, bytes] | HashTrieMap[SegmentId, R] = values
        """At least one. The values go once they are decoded, by a single assignment."""

    @property
    def names(self) -> Collection[SegmentId]:
        """Its segments, of which it decodes none."""
        return self._found

    def get(self, bucket: BucketKey) -> "HashTrieMap[SegmentId, R]":  # noqa: ARG002 it has one only
        """All of it."""
        found = self._found
        if isinstance(found, dict):
            decoded = {name: decode_record(self._family.kind, value) for name, value in found.items()}
            found = self._found = HashTrieMap(decoded)
        return found

    def one(self, segment: SegmentId) -> R | None:
        """One record; what is decoded for that is not kept."""
        value = self._found.get(segment)
        return decode_record(self._family.kind, value) if isinstance(value, bytes) else value

    def passing(self, but: Container[SegmentId]) -> Iterator[R]:
        """The records of all `but` these; what is decoded for that is not kept."""
        found = self._found
        for name in found:
            if name not in but:
                value = found[name]
                yield decode_record(self._family.kind, value) if isinstance(value, bytes) else value


class Patch(Generic[R]):
    """What has changed of a bucket that nobody has asked for since; None stands for a key that is gone.

    The map of the whole bucket is made when it is asked for, and kept: on whatever thread, it comes out the same."""

    __slots__ = ("_base", "_bucket", "_changed", "_count", "_whole")

    def __init__(
        self,
        base: Base[R] | Held[R],
        bucket: BucketKey,
        changed: "HashTrieMap[SegmentId, R | None]",
        count: int | None = None,
    ) -> None:
        self._base = base
        self._bucket = bucket
        self._changed = changed
        self._count = count
        """How many segments there are; None where only reading the bucket tells."""
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
        if self._count is None and self._whole is None and any(one is not None for one in self._changed.values()):
            return True
        return self.count() > 0

    def count(self) -> int:
        """How many segments it has."""
        return len(self.whole()) if self._count is None else self._count

    def names(self) -> Collection[SegmentId]:
        """Which they are."""
        if self._whole is not None or not isinstance(self._base, Held):
            return self.whole()
        kept = {one for one in self._base.names if one not in self._changed}
        return kept.union(one for one, record in self._changed.items() if record is not None)

    def one(self, segment: SegmentId) -> R | None:
        """One of its records, without asking for all of it where that can be left."""
        if self._whole is None and segment in self._changed:
            return self._changed[segment]
        if self._whole is None and isinstance(self._base, Held):
            return self._base.one(segment)
        return self.whole().get(segment)

    def passing(self) -> Iterator[R]:
        """Its records, without asking for all of it where that can be left."""
        if self._whole is not None or not isinstance(self._base, Held):
            yield from self.whole().values()
        else:
            yield from self._base.passing(self._changed)
            yield from (record for record in self._changed.values() if record is not None)

    def setting(self, segment: SegmentId, record: R | None) -> "Patch[R] | None":
        """With this key too; None where the whole is to be changed instead: it is there, or it is time to make it, so
        that keys which come and go do not add up."""
        if self._whole is not None or len(self._changed) >= BUCKET_PATCH_KEYS_MAX:
            return None
        count = self._count
        if count is not None and isinstance(self._base, Held):
            before = self._changed[segment] is not None if segment in self._changed else segment in self._base.names
            count += (record is not None) - before
        return Patch(self._base, self._bucket, self._changed.insert(segment, record), count)


class Shelf(Mapping[BucketKey, "HashTrieMap[SegmentId, R]"], Generic[R]):  # noqa: PLW1641 no map has a hash
    """Persistent, as `HashTrieMap`: what changes it answers another one. One bucket costs what it holds, the whole
    (`len`, iteration, comparison) costs a walk through all buckets."""

    __slots__ = ("_base", "_changed")

    def __init__(
        self,
        base: Base[R] | None = None,
        changed: "HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] | None" = None,
    ) -> None:
        self._base: Base[R] = Empty() if base is None else base
        self._changed: HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] = changed or HashTrieMap()
        """A bucket of the base that has become empty has an empty map here, others that are empty are not here."""

    @classmethod
    def held(cls, family: "Family[R]", values: Mapping[BucketKey, dict[SegmentId, bytes]]) -> "Shelf[R]":
        """Of buckets that were read, by their values, which nobody else changes; none is empty."""
        none: HashTrieMap[SegmentId, R | None] = HashTrieMap()
        unread = {key: Patch(Held(family, some), key, none, len(some)) for key, some in values.items()}
        return cls(None, HashTrieMap(unread))

    def get(self, key: BucketKey, default: Any = None) -> Any:
        """The map of a bucket, which is never empty."""
        found = self._changed.get(key)
        if found is None:
            found = self._base.get(key)
        elif isinstance(found, Patch):
            found = found.whole()
        return found or default

    def count(self, key: BucketKey) -> int:
        """How many segments a bucket has; a leader decodes none for it."""
        found = self._changed.get(key)
        return found.count() if isinstance(found, Patch) else len(self.get(key, ()))

    def names(self, key: BucketKey) -> Collection[SegmentId]:
        """Which segments a bucket has; a leader decodes none for it."""
        found = self._changed.get(key)
        return found.names() if isinstance(found, Patch) else self.get(key, ())

    def passing(self, key: BucketKey) -> Iterable[R]:
        """The records of a bucket, for who looks at each once: what a leader has not decoded stays so."""
        found = self._changed.get(key)
        return found.passing() if isinstance(found, Patch) else self.get(key, {}).values()

    def one(self, key: BucketKey, segment: SegmentId) -> R | None:
        """One record of a bucket, of which a leader decodes no other."""
        found = self._changed.get(key)
        return found.one(segment) if isinstance(found, Patch) else self.get(key, {}).get(segment)

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
        return self.beside(())

    def beside(self, tables: Container[ObjectId]) -> Iterator[BucketKey]:
        """The buckets of all tables but these."""
        for table in self._base.tables():
            if table not in tables:
                yield from (one for one in self._base.buckets(table) if one not in self._changed)
        yield from (key for key in self._changed if key[0] not in tables and key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

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
                if isinstance(self._base, Empty) and not patch.has_any():  # what it held goes with it
                    return Shelf(self._base, self._changed.discard(key))
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

    def decoded(self, items: Iterable[tuple[bytes, bytes]]) -> "HashTrieMap[SegmentId, R] | None":
        """The map of one bucket from its keys and values; None rather than an empty one."""
        found = {segment_of(key): decode_record(self.kind, value) for key, value in items}
        return HashTrieMap(found) if found else None


SEGMENTS = Family(keys.SEGMENTS, SegmentRecord)
REPLACED = Family(keys.REPLACED, ReplacedRecord)


_ON_DEMAND = (keys.SEGMENTS, keys.REPLACED)


def on_demand(key: bytes) -> bool:
    """Whether what lies under a key is read on demand."""
    return key.startswith(_ON_DEMAND)


def segment_of(key: bytes, cut: int = -1) -> SegmentId:
    """The segment that a key names, behind its last `/`, which is at `cut`. Raises `Corrupt`."""
    try:
        return SegmentId(key[(key.rindex(b"/") if cut < 0 else cut) + 1 :].decode())
    except ValueError as error:
        raise Corrupt(f"a key that names no segment: {key!r}") from error


class Holding:
    """Takes the keys and values of a catalog as they are read, part by part."""

    def __init__(self) -> None:
        self._segments: dict[BucketKey, dict[SegmentId, bytes]] = {}
        self._replaced: dict[BucketKey, dict[SegmentId, bytes]] = {}

    def taking(self, items: Iterable[Change | KeyValue]) -> list[Change]:
        """Takes what is read on demand; answers the rest of these items, which have values all. Raises `Corrupt` for a
        key that names no bucket."""
        rest: list[Change] = []
        prefix, values = b"", dict[SegmentId, bytes]()
        for item in items:
            key, value = item.key, item.value
            assert value is not None, "what is read is there"
            if not key.startswith(_ON_DEMAND):
                rest.append(Change(key, value))
                continue
            cut = key.rindex(b"/")
            if key[:cut] != prefix:
                prefix = key[:cut]
                family, held = (
                    (SEGMENTS, self._segments) if key.startswith(keys.SEGMENTS) else (REPLACED, self._replaced)
                )
                values = held.setdefault(family.bucket_of(prefix), {})
            values[segment_of(key, cut)] = value
        return rest

    @property
    def segments(self) -> Shelf[SegmentRecord]:
        """The manifest; nothing is taken after that."""
        return Shelf.held(SEGMENTS, self._segments)

    @property
    def replaced(self) -> Shelf[ReplacedRecord]:
        """What was replaced, likewise."""
        return Shelf.held(REPLACED, self._replaced)


class Reopened(msgspec.Struct, frozen=True, kw_only=True):
    """What a process goes on from (`Catalog.reopened`): as `StoredProjection`, with what is read on demand apart."""

    applied: Revision
    lineage: LineageHash
    items: tuple[Change, ...]
    """Every other key with its value, in key order."""
    segments: Shelf[SegmentRecord]
    replaced: Shelf[ReplacedRecord]
