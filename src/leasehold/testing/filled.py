"""Where the segments of a node's catalog are, for who has no vault or wants to see all of it."""

from collections.abc import Callable, Mapping

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.shelf import BucketKey, Holding, R, Shelf
from leasehold.core.catalog.stored_shelf import StoredBucket, StoredShelf
from leasehold.core.data.manifest import StoredSegment
from leasehold.core.words.operations import Change
from leasehold.ids import SegmentId


def filled(view: Catalog, items: Mapping[bytes, bytes]) -> Catalog:
    """What `view` and these items of a vault say together; the vault has applied no more than the view shows."""
    if view.segments.is_whole:
        return view
    held = Holding()
    held.taking(Change(key, value) for key, value in items.items())
    segments, replaced = _over(view.segments, held.segments), _over(view.replaced, held.replaced)
    return msgspec.structs.replace(view, segments=Shelf(), replaced=Shelf()).holding(segments, replaced)


def _over(recent: Shelf[R], stored: Shelf[R]) -> Shelf[R]:
    assert isinstance(recent, StoredShelf), "of a node's catalog"
    for key, segment, record in recent.recent():
        stored = stored.setting(key, segment, record)
    return stored


class CatalogManifest:
    """Implements `core.data.manifest.Manifest` on a catalog that holds its segments: the newest when it is asked."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog

    def segment(self, bucket: BucketKey, segment: SegmentId) -> StoredSegment:
        now = self._catalog()
        return StoredSegment(now.revision, now.segments.one(bucket, segment), now.replaced.one(bucket, segment))

    def bucket(self, bucket: BucketKey) -> StoredBucket:
        now = self._catalog()
        return StoredBucket(now.revision, now.segments.get(bucket, {}), now.replaced.get(bucket, {}))
