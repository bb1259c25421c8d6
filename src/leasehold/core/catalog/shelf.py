"""A map of maps whose records are decoded when somebody asks for them.

Nearly all keys of a large cluster are segment records, and a process that starts needs few of them soon. So the maps of
segments and of replaced segments are `Shelf`s: persistent maps of buckets. What was read of a bucket is held as bytes
(`Held`) and decoded when the bucket is asked for. A change lies over a bucket that is still bytes (`Patch`), until
somebody asks for the whole bucket.

What is decoded is kept by a single assignment: two threads that ask at once decode twice and find the same. The
segments of a node stay in its vault: its catalog has a `StoredShelf` instead (`core/catalog/stored_shelf.py`).
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change, KeyValue
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.errors import Corrupt
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.limits.vault import BUCKET_PATCH_KEYS_MAX

BucketKey = tuple[ObjectId, BucketNumber]
_EMPTY: "HashTrieMap[SegmentId, Any]" = HashTrieMap()
R = TypeVar("R", SegmentRecord, ReplacedRecord)


class Held(Generic[R]):
    """One bucket as it was read, by the values of its keys; not empty."""

    __slots__ = ("_family", "_found")

    def __init__(self, family: "Family[R]", values: dict[SegmentId, bytes]) -> None:
        self._family = family
        self._found: dict[SegmentId, bytes] | HashTrieMap[SegmentId, R] = values

    @property
    def names(self) -> Collection[SegmentId]:
        """Its segments; decodes none."""
        return self._found

    def whole(self) -> "HashTrieMap[SegmentId, R]":
        found = self._found
        if isinstance(found, dict):
            decoded = {name: decode_record(self._family.kind, value) for name, value in found.items()}
            found = self._found = HashTrieMap(decoded)
        return found

    def one(self, segment: SegmentId) -> R | None:
        """One record; decodes no other, and keeps nothing decoded."""
        value = self._found.get(segment)
        return decode_record(self._family.kind, value) if isinstance(value, bytes) else value

    def passing(self, but: Container[SegmentId]) -> Iterator[R]:
        """The records of all `but` these; keeps nothing decoded."""
        found = self._found
        for name in found:
            if name not in but:
                value = found[name]
                yield decode_record(self._family.kind, value) if isinstance(value, bytes) else value


class Patch(Generic[R]):
    """A bucket that was read, and what has changed of it since; None stands for a key that is gone."""

    __slots__ = ("_changed", "_count", "_held", "_whole")

    def __init__(self, held: Held[R], changed: "HashTrieMap[SegmentId, R | None]", count: int) -> None:
        self._held = held
        self._changed = changed
        self._count = count
        self._whole: HashTrieMap[SegmentId, R] | None = None

    def whole(self) -> "HashTrieMap[SegmentId, R]":
        """The bucket, which may be empty; kept once it was made."""
        whole = self._whole
        if whole is None:
            whole = self._held.whole()
            for segment, record in self._changed.items():
                whole = whole.discard(segment) if record is None else whole.insert(segment, record)
            self._whole = whole
        return whole

    def __len__(self) -> int:
        return self._count

    def names(self) -> Collection[SegmentId]:
        if self._whole is not None:
            return self._whole
        kept = {one for one in self._held.names if one not in self._changed}
        return kept.union(one for one, record in self._changed.items() if record is not None)

    def one(self, segment: SegmentId) -> R | None:
        """One of its records; decodes no other."""
        if self._whole is not None:
            return self._whole.get(segment)
        return self._changed[segment] if segment in self._changed else self._held.one(segment)

    def passing(self) -> Iterator[R]:
        """Its records; keeps nothing decoded."""
        if self._whole is not None:
            yield from self._whole.values()
        else:
            yield from self._held.passing(self._changed)
            yield from (record for record in self._changed.values() if record is not None)

    def setting(self, segment: SegmentId, record: R | None) -> "Patch[R] | None":
        """With this key too; None where the whole is to be changed instead: it is there, or too many keys changed."""
        if self._whole is not None or len(self._changed) >= BUCKET_PATCH_KEYS_MAX:
            return None
        before = self._changed[segment] is not None if segment in self._changed else segment in self._held.names
        count = self._count + (record is not None) - before
        return Patch(self._held, self._changed.insert(segment, record), count)


class Shelf(Mapping[BucketKey, "HashTrieMap[SegmentId, R]"], Generic[R]):  # noqa: PLW1641 no map has a hash
    """Persistent, as `HashTrieMap`: what changes it answers another one. No bucket of it is empty."""

    __slots__ = ("_held",)

    is_whole = True
    """Whether all segments are here."""

    def __init__(self, buckets: "HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] | None" = None) -> None:
        self._held: HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]] = buckets or HashTrieMap()

    @classmethod
    def held(cls, family: "Family[R]", values: Mapping[BucketKey, dict[SegmentId, bytes]]) -> "Shelf[R]":
        """Of buckets that were read, none of them empty, by their values."""
        none: HashTrieMap[SegmentId, R | None] = HashTrieMap()
        return Shelf(HashTrieMap({key: Patch(Held(family, some), none, len(some)) for key, some in values.items()}))

    @property
    def _buckets(self) -> "HashTrieMap[BucketKey, HashTrieMap[SegmentId, R] | Patch[R]]":
        return self._held

    def get(self, key: BucketKey, default: Any = None) -> Any:
        """The map of a bucket, which is never empty."""
        found = self._buckets.get(key)
        if found is None:
            return default
        return found.whole() if isinstance(found, Patch) else found

    def count(self, key: BucketKey) -> int:
        """How many segments a bucket has; decodes none."""
        return len(self._buckets.get(key, _EMPTY))

    def names(self, key: BucketKey) -> Collection[SegmentId]:
        """Which segments a bucket has; decodes none."""
        found = self._buckets.get(key, _EMPTY)
        return found.names() if isinstance(found, Patch) else found

    def passing(self, key: BucketKey) -> Iterable[R]:
        """The records of a bucket; keeps nothing decoded."""
        found = self._buckets.get(key, _EMPTY)
        return found.passing() if isinstance(found, Patch) else found.values()

    def one(self, key: BucketKey, segment: SegmentId) -> R | None:
        """One record of a bucket; decodes no other."""
        found = self._buckets.get(key, _EMPTY)
        return found.one(segment) if isinstance(found, Patch) else found.get(segment)

    def mark(self, key: BucketKey) -> object:
        """An object that stays the same one until the bucket changes."""
        return self._buckets.get(key)

    def over(self, key: BucketKey, segment: SegmentId, stored: R | None) -> R | None:  # noqa: ARG002 all is here
        """One record of a bucket, of which a vault holds `stored`."""
        return self.one(key, segment)

    def trimmed(self, durable: "Shelf[R]") -> "Shelf[R]":  # noqa: ARG002
        """Without the changes in `durable`, which a vault holds; this shelf has no vault."""
        return self

    def __getitem__(self, key: BucketKey) -> "HashTrieMap[SegmentId, R]":
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._buckets

    def __iter__(self) -> Iterator[BucketKey]:
        return iter(self._buckets)

    def __len__(self) -> int:
        return len(self._buckets)

    def setting(self, key: BucketKey, segment: SegmentId, record: R | None) -> "Shelf[R]":
        """With this record in a bucket, or without that segment; decodes nothing of what is there."""
        found = self._buckets.get(key)
        after = found.setting(segment, record) if isinstance(found, Patch) else None
        if after is None:
            before: HashTrieMap[SegmentId, R] = self.get(key) or HashTrieMap()
            after = before.discard(segment) if record is None else before.insert(segment, record)
        return Shelf(self._buckets.insert(key, after) if len(after) else self._buckets.discard(key))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shelf) and self._buckets is other._buckets:
            return True
        return super().__eq__(other)

    def __repr__(self) -> str:
        return f"Shelf({dict(self.items())!r})"


class Family(msgspec.Struct, Generic[R], frozen=True):
    """The keys of one kind of record that lies in such a map: `<prefix><table>/<bucket>/<segment>`."""

    prefix: bytes
    kind: type[R]

    def bucket_prefix(self, bucket: BucketKey) -> bytes:
        """What the keys of a bucket begin with, without the last `/`."""
        return b"%s%010d/%05d" % (self.prefix, *bucket)

    def table_range(self, table: ObjectId) -> tuple[bytes, bytes]:
        """Where the keys of a table begin, and what comes after them."""
        return b"%s%010d/" % (self.prefix, table), b"%s%010d0" % (self.prefix, table)

    def bucket_of(self, key: bytes) -> BucketKey:
        """The bucket that a key, or the prefix of a bucket, belongs to. Raises `Corrupt`."""
        try:
            table, number = key[len(self.prefix) :].split(b"/")[:2]
            return ObjectId(int(table)), BucketNumber(int(number))
        except ValueError as error:
            raise Corrupt(f"a key that names no bucket: {key!r}") from error


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
        """Takes what is read on demand; answers the rest. Raises `Corrupt` for a key that names no bucket."""
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
        return Shelf.held(REPLACED, self._replaced)
