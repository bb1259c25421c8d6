"""Leadership: which coordinator leads, by one record that its holder beats and everybody else watches.

The record says term, holder, beat and duration. The **reign** of a holder lasts until the instant at which it sent its
last successful beat plus the duration, on its own clock. After that it is over for good, whatever answers still come. A
**challenger** counts from the answer to its first read of a record. It takes the record by compare-and-swap, with the
next term, once it has seen it unchanged for as long as the fastest clock may need for the duration that the slowest
one counts, plus a margin. What it read had been written by then, so the beat had been sent before. So the reign has
ended in real time before the challenger's swap is even sent. A swap that loses against a beat in flight changes
nothing.

A beat without an answer is sent again at once, with the same content. Any of the tries may be the one that happened, so
its time counts from the first. Finding the very record that the beat wanted to write means that it happened.

The duration is a setting of the cluster, which a candidate reads when it takes the record. A term keeps the duration
that its election wrote. A beat with a shorter one would let a challenger take the record before the end that the holder
already counts on.

Beats are compare-and-swaps of the record alone. Every append compares the copy of it that only elections write, so
beats under way never fail an append.

| challenger | event                                  | next       |
| watching   | the record is new or has changed       | watching, its count begins anew |
| watching   | none is there, or its holder resigned  | due now    |
| watching   | its holder resigned for another one    | due when that one had time to take it |
| watching   | unchanged for long enough              | due        |

| reign   | event                                            | next                  |
| running | a beat was acknowledged, or found, in time       | running, later end    |
| running | a beat was not answered                          | running, the same beat is due now |
| running | its end passes                                   | over                  |
| any     | the record is another's                          | over                  |
"""

from typing import NamedTuple

import msgspec

from leasehold.core.lease.drift import outlast_ns
from leasehold.core.words.records import LeaderRecord
from leasehold.ids import Generation, Term


class LeadershipTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How often a leader beats, and what a challenger adds to its wait."""

    beat_every_ns: int
    margin_ns: int
    drift_ppm: int
    courtesy_ns: int
    """How long a challenger lets the successor go first that a record names."""


class Standing(NamedTuple):
    """The leader record as it was read, and the version of its key."""

    record: LeaderRecord
    version: int


class SentBeat(NamedTuple):
    """A beat under way, and when it was sent first."""

    record: LeaderRecord
    first_ns: int


class Challenger:
    """A candidate that does not lead."""

    def __init__(self, timing: LeadershipTiming, name: str) -> None:
        self._timing = timing
        self._name = name
        self._seen: Standing | None = None
        self._since_ns = 0

    def due_ns(self, standing: Standing | None, now_ns: int) -> int:
        """When this record may be taken; `now_ns` was read after the answer with it."""
        if standing is None or (not standing.record.holder and standing.record.successor in {"", self._name}):
            self._seen = None
            return now_ns
        if self._seen is None or self._seen.version != standing.version:
            self._seen, self._since_ns = standing, now_ns
        if not standing.record.holder:
            return self._since_ns + self._timing.courtesy_ns
        # The holder's own duration counts, not ours: it may have been started with other settings.
        wait_ns = outlast_ns(standing.record.duration_ns, self._timing.drift_ppm) + self._timing.margin_ns
        return self._since_ns + wait_ns


class Reign:
    """One holder's time, from the instant at which it sent the transaction that elected it."""

    def __init__(self, standing: Standing, *, sent_ns: int, timing: LeadershipTiming) -> None:
        self._timing = timing
        self._standing = standing
        self._ends_ns = sent_ns + standing.record.duration_ns
        self._beat_at_ns = sent_ns + timing.beat_every_ns
        self._sent: SentBeat | None = None
        self._over = False

    @property
    def term(self) -> Term:
        """Higher than every term before it."""
        return self._standing.record.term

    @property
    def standing(self) -> Standing:
        """The record as this holder last wrote it, as far as it knows."""
        return self._standing

    @property
    def ends_ns(self) -> int:
        """When it is over, on the holder's clock, unless a beat succeeds first."""
        return self._ends_ns

    @property
    def beat_at_ns(self) -> int:
        """When the next beat is due."""
        return self._beat_at_ns

    def leads(self, now_ns: int) -> bool:
        """Whether it still runs; after its end it never runs again."""
        self._over = self._over or now_ns >= self._ends_ns
        return not self._over

    def next_beat(self, now_ns: int) -> LeaderRecord:
        """What the next beat writes over `standing`; the same again while it has no answer."""
        if self._sent is None:
            record = self._standing.record
            self._sent = SentBeat(msgspec.structs.replace(record, beat=record.beat + 1), now_ns)
        return self._sent.record

    def beaten(self, standing: Standing, now_ns: int) -> bool:
        """The last beat is known to have happened; whether the reign goes on."""
        assert self._sent is not None
        assert standing.record == self._sent.record
        if not self.leads(now_ns):
            return False
        self._standing = standing
        self._ends_ns = self._sent.first_ns + standing.record.duration_ns
        self._beat_at_ns = self._sent.first_ns + self._timing.beat_every_ns
        self._sent = None
        return True

    def found(self, standing: Standing | None, now_ns: int) -> bool:
        """The record, read after a beat that got no answer, or that the store declined; whether the reign goes on. If
        it does, `awaits_answer` says whether to send the same beat again."""
        if standing is not None and self._sent is not None and standing.record == self._sent.record:
            return self.beaten(standing, now_ns)
        if standing is None or standing.version != self._standing.version:
            self.end()
        return self.leads(now_ns)

    @property
    def awaits_answer(self) -> bool:
        """Whether a beat was sent of which nothing is known."""
        return self._sent is not None

    def end(self) -> None:
        """It resigned, or the record is another's."""
        self._over = True


def first_record(standing: Standing | None, *, generation: Generation, holder: str, duration_ns: int) -> LeaderRecord:
    """The record that a challenger writes to take over from `standing`."""
    assert holder, "an empty holder means that the last one resigned"
    return LeaderRecord(
        generation=generation,
        term=Term(1 if standing is None else standing.record.term + 1),
        holder=holder,
        beat=0,
        duration_ns=duration_ns,
    )


def resigned(standing: Standing, successor: str = "") -> LeaderRecord:
    """The last record of a holder, which any candidate may take at once; with a `successor`, the others let it go
    first."""
    return msgspec.structs.replace(standing.record, holder="", duration_ns=0, successor=successor)
