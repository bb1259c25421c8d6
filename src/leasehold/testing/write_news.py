"""What an oracle gets from the clients that write."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from leasehold.core.words.messages import FieldFilter, StreamBatch
from leasehold.ids import ObjectId, SegmentId, TransactionId


class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A client is about to commit these new rows in a write transaction."""

    transaction: TransactionId
    table: ObjectId
    rows: Counter[str]
    segments: Mapping[SegmentId, Counter[str]]
    """What the client has put into each segment: new rows, and rows that it keeps of those that it replaces."""
    where: tuple[FieldFilter, ...] | None = None
    """Unless None: the new rows take the place of those that fulfil all of these."""
    replaces: frozenset[SegmentId] = frozenset()
    kept: int = 0
    """How many rows of the replaced segments it keeps."""
    batch: StreamBatch | None = None
    """Which batch of a streaming query the rows are."""


class WriteEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A client knows for sure whether a write transaction is committed."""

    transaction: TransactionId
    committed: bool
