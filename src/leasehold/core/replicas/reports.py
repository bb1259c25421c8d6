"""Reports of nodes about their files: what follows for the manifest."""

from typing import TypeAlias

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.replicas.dropped import cleaned
from leasehold.core.replicas.replication import after_fetch, after_loss
from leasehold.core.words import keys
from leasehold.core.words.messages import SegmentsHeld, SegmentsMissing, TableCleaned
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.ids import SegmentId

Report: TypeAlias = SegmentsHeld | SegmentsMissing | TableCleaned
"""A node's report on its disk."""


def after_report(message: Report, catalog: Catalog) -> tuple[tuple[Change, ...], tuple[SegmentId, ...]]:
    """The changes that follow from a report, and the segments that the node lacks but stays the only holder of."""
    match message:
        case TableCleaned():
            return cleaned(catalog, message.table, (message.node,)), ()
        case SegmentsHeld() | SegmentsMissing():
            return _after_segments(message, catalog)


def _after_segments(
    message: SegmentsHeld | SegmentsMissing, catalog: Catalog
) -> tuple[tuple[Change, ...], tuple[SegmentId, ...]]:
    bucket = catalog.buckets.get((message.table, message.bucket))
    if bucket is None:
        return (), ()
    segments = catalog.segments.get((message.table, message.bucket), {})
    match message:
        case SegmentsHeld():
            after, changed = after_fetch(bucket, segments, message.node, message.segments)
            return _written(bucket, after, changed), ()
        case SegmentsMissing():
            after, changed, alone = after_loss(bucket, segments, message.node, message.segments, catalog=catalog)
            return _written(bucket, after, changed), tuple(alone)


def _written(bucket: BucketRecord, after: BucketRecord, changed: "list[SegmentRecord]") -> tuple[Change, ...]:
    changes = [put(keys.segment(bucket.table, bucket.bucket, one.id), one) for one in changed]
    if after != bucket:
        changes.append(put(keys.bucket(bucket.table, bucket.bucket), after))
    return tuple(changes)
