"""Which files a simulated disk holds: their names, and how they are listed."""

from collections.abc import Iterable

from leasehold.core.catalog.catalog import BucketKey
from leasehold.core.replicas.reconcile import Listing, OnDisk
from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import SegmentId, is_segment_id
from leasehold.limits.statements import BUCKETS_MAX


def by_bucket(files: Iterable[OnDisk]) -> Listing:
    """Makes the listing that a disk with these files gives."""
    found: dict[BucketKey, set[SegmentId]] = {}
    for one in files:
        found.setdefault((one.table, one.bucket), set()).add(one.segment)
    return {key: frozenset(segments) for key, segments in found.items()}


def file_of_record(record: SegmentRecord) -> OnDisk:
    """The file of a segment."""
    return OnDisk(record.table, record.bucket, record.id)


def check_name(one: OnDisk) -> None:
    """Raises `Refused` with code BAD_SEGMENT_NAME for what no file may be called."""
    if one.table < 1 or not 0 <= one.bucket < BUCKETS_MAX or not is_segment_id(one.segment):
        raise Refused(f"{one} names no segment file", code=ErrorCode.BAD_SEGMENT_NAME)
