"""Reading one segment from whichever replica can serve it, no row lost or doubled (DESIGN section 9).

A batch's mark names the first row after it, so after a fence, a crash or a cut the reader asks another replica from
exactly there. Fenced replicas are asked again later: a fence ends with the next grant.

| state   | event           | next                                           |
| reading | batch           | reading, further on                            |
| reading | last row        | done                                           |
| reading | replica failed  | the next replica at once; after a round, a pause |
| reading | give-up instant | failed: the reason of each replica             |
"""

from typing import TypeAlias

import msgspec

from leasehold.core.messages import BatchMark
from leasehold.core.records import SegmentRecord
from leasehold.ids import NodeId, Revision
from leasehold.limits import SCAN_GIVE_UP_NS, SCAN_PAUSE_NS


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask this node for the rows from `row` on."""

    node: NodeId
    row: int


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """All replicas failed: wait until then, ask again where they are, and go on."""

    until_ns: int


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Every row has been handed on."""


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """No replica has served for too long; what each one said last."""

    reasons: tuple[tuple[NodeId, str], ...]


Move: TypeAlias = Ask | Pause | Done | GiveUp


class SegmentReading:
    """One reader of one segment; `seen` is the newest revision the client knows of."""

    def __init__(self, segment: SegmentRecord, *, seen: Revision, now_ns: int) -> None:
        self._rows = segment.rows
        self._holders = segment.holders
        self._seen = seen
        self._row = 0
        self._turn = 0
        self._failures = 0
        self._tried = 0
        self._reasons: dict[NodeId, str] = {}
        self._since_ns = now_ns
        self._counting = False
        self._spoiled = False

    def move(self, now_ns: int) -> Move:
        """What to do next."""
        if self._row >= self._rows:
            return Done()
        if self._failures and not self._counting:
            # Counted from the first failure: how long the consumer took over the last batch says nothing.
            self._since_ns, self._counting = now_ns, True
        if not self._holders or (self._failures and now_ns - self._since_ns >= SCAN_GIVE_UP_NS):
            return GiveUp(reasons=tuple(sorted(self._reasons.items())))
        if self._tried >= len(self._holders):
            self._tried = 0
            return Pause(until_ns=now_ns + SCAN_PAUSE_NS)
        return Ask(node=self._holders[self._turn % len(self._holders)], row=self._row)

    def received(self, mark: BatchMark, rows: int, now_ns: int) -> bool:
        """Takes a batch of `rows` rows; False if it must be thrown away: it was authorised on too old a view.

        What follows it on the same stream is thrown away too, since rows would be missing: call `failed`, ask again.
        """
        if mark.view_revision < self._seen or self._spoiled:
            self._spoiled = True
            return False
        assert 0 <= rows <= mark.next_row - self._row, "a replica repeats rows"
        assert mark.next_row <= self._rows, "a replica has more rows than the manifest"
        if mark.next_row > self._row:  # without progress, failures go on counting
            self._row = mark.next_row
            self._since_ns, self._counting = now_ns, False
            self._failures = 0
            self._tried = 0
        return True

    def failed(self, node: NodeId, reason: str) -> None:
        """This replica can't go on now; the next one is asked for the same row."""
        self._spoiled = False
        self._reasons[node] = reason
        self._failures += 1
        self._tried += 1
        self._turn += 1

    def moved(self, holders: tuple[NodeId, ...], *, seen: Revision | None = None) -> None:
        """Others hold it now, or are to be asked first: a new round begins. `seen` is what the client knows by now."""
        self._holders = holders
        self._turn = self._tried = 0
        if seen is not None:
            self._seen = max(self._seen, seen)
