"""The segments of a node's catalog: they stay in its vault, and are read beside a view in a step of their own.

A catalog is a value, so nothing that decides on one reads a disk. A node's catalog holds only the changes of segments
that the vault may lack (`StoredShelf`). A step that decides on a segment reads the vault first
(`core/data/manifest.py`), and lays over the result what the view remembers.

The result is exact for the view unless the vault had applied a later revision. Let the vault have applied A when it was
read, and the view show V. A `StoredShelf` forgets only what was durable before (`trimmed`), so it remembers each key
that changed after some P <= A. If A <= V, a key of which it remembers a change is at V what it remembers. Any other key
has not changed between P and V, so it is at V as it was at A. A > V only after a leap, or for a view that was taken a
while ago: then the reader takes a newer view.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, NoReturn

from rpds import HashTrieMap

from leasehold.core.catalog.shelf import BucketKey, R, Shelf
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.ids import Revision, SegmentId


class StoredBucket(NamedTuple):
    """What a vault holds of one bucket."""

    applied: Revision
    """By the vault when it was read."""
    segments: Mapping[SegmentId, SegmentRecord]
    replaced: Mapping[SegmentId, ReplacedRecord]


class NotHere(AssertionError):
    """Segments were asked of a catalog that does not hold them: the caller should have asked the vault."""


class _Change(NamedTuple, Generic[R]):
    number: int
    record: R | None


class StoredShelf(Shelf[R]):
    """The segments of a catalog whose segments lie in a vault: the changes that the vault may lack.

    Asking it for a bucket raises `NotHere`. It numbers its changes, to tell which of them are durable.
    """

    __slots__ = ("_marks", "_number", "_origin", "_recent")

    is_whole = False

    def __init__(
        self,
        number: int = 0,
        recent: "HashTrieMap[BucketKey, HashTrieMap[SegmentId, _Change[R]]] | None" = None,
        marks: "HashTrieMap[BucketKey, object] | None" = None,
        origin: object = None,
    ) -> None:
        super().__init__()
        self._number = number
        """How many changes there were."""
        self._recent: HashTrieMap[BucketKey, HashTrieMap[SegmentId, _Change[R]]] = recent or HashTrieMap()
        """The latest change of each key that may not be durable yet; no map is empty."""
        self._marks: HashTrieMap[BucketKey, object] = marks or HashTrieMap()
        """An object for the latest change of each bucket that has changed: the same only as itself."""
        self._origin = origin or object()
        """The mark of the others."""

    @property
    def _buckets(self) -> NoReturn:
        raise NotHere("the segments of a node are in its vault")

    def setting(self, key: BucketKey, segment: SegmentId, record: R | None) -> "StoredShelf[R]":
        number = self._number + 1
        changes = (self._recent.get(key) or HashTrieMap()).insert(segment, _Change(number, record))
        recent, marks = self._recent.insert(key, changes), self._marks.insert(key, object())
        return StoredShelf(number, recent, marks, self._origin)

    def mark(self, key: BucketKey) -> object:
        return self._marks.get(key, self._origin)

    def over(self, key: BucketKey, segment: SegmentId, stored: R | None) -> R | None:
        changes = self._recent.get(key)
        change = None if changes is None else changes.get(segment)
        return stored if change is None else change.record

    def recent(self) -> Iterator[tuple[BucketKey, SegmentId, R | None]]:
        """The changes that the vault may lack; None for a key that is gone."""
        for key, changes in self._recent.items():
            yield from ((key, segment, change.record) for segment, change in changes.items())

    def trimmed(self, durable: Shelf[R]) -> Shelf[R]:
        """Without the changes in `durable`, an earlier state of this shelf, which the vault holds."""
        assert isinstance(durable, StoredShelf), "of a node's catalog"
        assert durable._origin is self._origin, "a leap comes after all that was shown before it"
        recent = self._recent
        for key, changes in self._recent.items():
            late = changes
            for segment, change in changes.items():
                if change.number <= durable._number:
                    late = late.discard(segment)
            if len(late) < len(changes):
                recent = recent.insert(key, late) if len(late) else recent.discard(key)
        if recent is self._recent:
            return self
        return StoredShelf(self._number, recent, self._marks, self._origin)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None

    def __repr__(self) -> str:
        return f"StoredShelf({dict(self._recent.items())!r})"
