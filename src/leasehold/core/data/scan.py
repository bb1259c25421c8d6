"""Reading segments from whichever replica can serve them, no row lost or doubled (docs/design.md, "Data").

Small segments of a bucket that the same nodes hold are read together, as if they were one with the rows of all.

A batch's mark names the first row after it, so after a fence, a crash or a cut the reader asks another replica from
exactly there. While a replica is silent another one is asked as well, from the same row (`core/data/hedging.py`).
Fenced replicas are asked again later: a fence ends with the next grant.

| state   | event              | next                                              |
| reading | batch              | reading, further on; other replicas are overtaken |
| reading | batch that is old  | thrown away; the same row is asked for again      |
| reading | last row           | done                                              |
| reading | replica is silent  | another one is asked as well                      |
| reading | replica failed     | the next replica at once; after a round, a pause  |
| reading | give-up instant    | failed                                            |
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from leasehold.core.data.hedging import HedgeStep, Hedging
from leasehold.core.words.messages import BatchMark
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import BucketNumber, NodeId, ObjectId, Revision
from leasehold.limits.clients import SCAN_DISCARDS_MAX, SCAN_PAUSE_NS, SCAN_TOGETHER_BYTES_MAX
from leasehold.limits.flight import SEGMENTS_PER_SCAN_MAX


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions at or after which a batch must have been released to be handed out.

    Batches lie in buffers between the node and the program that reads. A client that has heard of revision R hands out
    nothing that was released on a view older than R, so INV-SERVE-1 holds up to the reader.
    """

    newest: Revision
    """The newest that the client has heard of."""
    least: Revision
    """Enough where revisions arrive faster than batches: the newest that a statement of this client returned, or that
    the client knew when it asked."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Every row has been handed on."""


Move: TypeAlias = HedgeStep | Done


Together: TypeAlias = tuple[SegmentRecord, ...]
"""Segments of one bucket that are read by one call: one, or several small ones, in the order of their plan."""


def together(segments: Iterable[SegmentRecord]) -> Iterator[Together]:
    """Which segments of a plan are read together."""
    found: list[SegmentRecord] = []
    size_bytes = 0
    for one in segments:
        fits = size_bytes + one.size_bytes <= SCAN_TOGETHER_BYTES_MAX and len(found) < SEGMENTS_PER_SCAN_MAX
        if found and not (fits and _place(found[0]) == _place(one)):
            yield tuple(found)
            found, size_bytes = [], 0
        found.append(one)
        size_bytes += one.size_bytes
    if found:
        yield tuple(found)


def _place(segment: SegmentRecord) -> tuple[ObjectId, BucketNumber, frozenset[NodeId]]:
    return segment.table, segment.bucket, frozenset(segment.holders)


def as_one(segments: Together) -> SegmentRecord:
    """A record of the first with the rows and bytes of all."""
    rows, size_bytes = sum(one.rows for one in segments), sum(one.size_bytes for one in segments)
    return msgspec.structs.replace(segments[0], rows=rows, size_bytes=size_bytes)


class SegmentReading:
    """One reader of one segment, or of several as one."""

    def __init__(self, segment: SegmentRecord, *, give_up_ns: int) -> None:
        self._rows = segment.rows
        self.hedging = Hedging(segment.holders, give_up_ns=give_up_ns, pause_ns=SCAN_PAUSE_NS)
        """Takes the failures, ends and moves of replicas."""
        self._discards = 0
        self.row = 0
        """The first one that was not handed on: where a replica that is asked now begins."""

    def move(self, now_ns: int, *, delay_ns: int, may_hedge: bool) -> Move:
        if self.row >= self._rows:
            return Done()
        return self.hedging.move(now_ns, delay_ns=delay_ns, may_hedge=may_hedge)

    def received(
        self, node: NodeId, mark: BatchMark, rows: int, now_ns: int, needed: Needed
    ) -> tuple[NodeId, ...] | None:
        """Takes a batch of `rows` rows, and answers which replicas it overtook. None if it is thrown away, since it was
        authorised on too old a view; so is then all that follows on its stream.
        """
        if not self.hedging.is_asked(node):
            return None
        least = needed.newest if self._discards < SCAN_DISCARDS_MAX else needed.least
        if mark.view_revision < least:
            self._discards += 1
            self.hedging.ended(node)
            return None
        assert 0 <= rows <= mark.next_row - self.row, "a replica repeats rows"
        assert mark.next_row <= self._rows, "a replica has more rows than the manifest"
        progress = mark.next_row > self.row
        if progress:
            self.row = mark.next_row
            self._discards = 0
        return self.hedging.heard(node, now_ns, progress=progress)
