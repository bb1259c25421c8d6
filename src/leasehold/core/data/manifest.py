"""The port by which steps read the segments that a vault holds, to decide on them (`core/catalog/stored_shelf.py`)."""

from typing import Final, NamedTuple, Protocol

from leasehold.core.catalog.shelf import BucketKey
from leasehold.core.catalog.stored_shelf import StoredBucket
from leasehold.core.words.records import ReplacedRecord, SegmentRecord
from leasehold.ids import Revision, SegmentId


class StoredSegment(NamedTuple):
    """What a vault holds of one segment."""

    applied: Revision
    """By the vault when it was read."""
    segment: SegmentRecord | None
    replaced: ReplacedRecord | None


NOTHING_STORED: Final = StoredSegment(Revision(0), None, None)
"""Where there is no vault."""


class Manifest(Protocol):
    """The segments in a vault, read from its disk on any thread until the vault is closed.

    Raises `Corrupt` for damage, which ends the vault, and `Refused` with code CLOSED.
    """

    def segment(self, bucket: BucketKey, segment: SegmentId) -> StoredSegment: ...

    def bucket(self, bucket: BucketKey) -> StoredBucket: ...
