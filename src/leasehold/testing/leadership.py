"""Leadership: which coordinator leads, by one record that its holder beats and everybody else watches.

Theory of operation (docs/design.md, "Meta storage"). The record says term, holder, beat and duration. The **reign** of
a holder lasts until the instant at which it sent its last successful beat plus the duration, on its own clock; past
that it is over for good, whatever answers still come. A **challenger** counts from the answer to its first read of a
record, and takes it by compare-and-swap, with the next term, once it has seen it unchanged for as long as the fastest
clock may need for the duration that the slowest one counts, plus a margin. What it read had been written by then, so
the beat had been sent before: the reign has ended in real time before the challenger's swap is even sent. A swap that
loses against a beat in flight changes nothing.

Beats are compare-and-swaps of the record alone; every other transaction of a leader compares the key that only
elections write (`keys.TERM`), so that beats under way never fail a transaction.

| challenger | event                                  | next       |
| watching   | the record is new or has changed       | watching, its count begins anew |
| watching   | none is there, or its holder resigned  | due now    |
| watching   | unchanged for long enough              | due        |

| reign   | event                           | next                  |
| running | a beat was acknowledged in time | running, later end    |
| running | its end passes                  | over                  |
| any     | the record is another's         | over                  |
"""

import msgspec

from leasehold.core.lease.drift import outlast_ns
from leasehold.core.words.records import LeaderRecord
from leasehold.ids import Generation, Revision, Term


class LeadershipTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How long a beat is good for, how often it is renewed, and what a challenger adds to its wait."""

    duration_ns: int
    beat_every_ns: int
    margin_ns: int
    drift_ppm: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The leader record as it was read, and the revision that wrote it."""

    record: LeaderRecord
    modified: Revision


class Challenger:
    """A candidate that does not lead."""

    def __init__(self, timing: LeadershipTiming) -> None:
        self._timing = timing
        self._seen: Standing | None = None
        self._since_ns = 0

    def due_ns(self, standing: Standing | None, now_ns: int) -> int:
        """When this very record may be taken; `now_ns` was read after the answer that brought it."""
        if standing is None or not standing.record.holder:
            self._seen = None
            return now_ns
        if self._seen is None or self._seen.modified != standing.modified:
            self._seen, self._since_ns = standing, now_ns
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
        """Whether it still runs; once it has not, it never does again."""
        self._over = self._over or now_ns >= self._ends_ns
        return not self._over

    def next_record(self) -> LeaderRecord:
        """What the next beat writes, comparing `standing.modified`."""
        record = self._standing.record
        return msgspec.structs.replace(record, beat=record.beat + 1, duration_ns=self._timing.duration_ns)

    def beaten(self, standing: Standing, *, sent_ns: int, now_ns: int) -> bool:
        """A beat that was sent at `sent_ns` is known to have happened; whether the reign goes on."""
        assert standing.record.term == self.term
        if not self.leads(now_ns):
            return False
        self._standing = standing
        self._ends_ns = max(self._ends_ns, sent_ns + standing.record.duration_ns)
        self._beat_at_ns = sent_ns + self._timing.beat_every_ns
        return True

    def unanswered(self, now_ns: int) -> None:
        """Nothing is known of the last beat: the next one is due after the usual pause, on what is read then."""
        self._beat_at_ns = now_ns + self._timing.beat_every_ns

    def noted(self, standing: Standing) -> None:
        """The record as it was read after a beat that was not answered; still this holder's."""
        assert standing.record.term == self.term
        self._standing = standing

    def end(self) -> None:
        """It resigned, or the record is another's."""
        self._over = True


def first_record(
    standing: Standing | None, *, generation: Generation, holder: str, timing: LeadershipTiming
) -> LeaderRecord:
    """What a challenger writes when its time has come, comparing what it saw."""
    assert holder, "an empty holder means that the last one resigned"
    return LeaderRecord(
        generation=generation,
        term=Term(1 if standing is None else standing.record.term + 1),
        holder=holder,
        beat=0,
        duration_ns=timing.duration_ns,
    )


def resigned(standing: Standing) -> LeaderRecord:
    """What a holder writes last: anyone may take it at once."""
    return msgspec.structs.replace(standing.record, holder="", duration_ns=0)
