"""Progress of a recovery, for people: how far it is, and a guess of how long the rest takes."""

import msgspec

from leasehold.core.words.messages import NodeRecovery
from leasehold.ids import Revision
from leasehold.limits.recovery import FETCH_STALLED_NS, RECOVERY_LEFT_MAX_NS
from leasehold.limits.units import SECOND_NS


class _Pace(msgspec.Struct, frozen=True):
    """When a count began, and where it stood."""

    began_ns: int
    began_at: int = 0

    def left_ns(self, done: int, total: int, now_ns: int) -> int | None:
        """How long the rest takes at the rate so far; None without one."""
        if done >= total:
            return 0
        made = done - self.began_at
        if made <= 0 or now_ns <= self.began_ns:
            return None
        left_ns = (total - done) * (now_ns - self.began_ns) // made
        return left_ns if left_ns <= RECOVERY_LEFT_MAX_NS else None


class Tally:
    """Counts of one process. It shows the case that a recovery took first, unless a leap follows."""

    def __init__(self, applied: Revision, now_ns: int) -> None:
        self._case = "a"
        self._why = "not connected yet"
        self._on_its_way = False
        self.keys = self._keys_total = 0
        """Taken of the newest snapshot."""
        self.missing = 0
        """Segments that are still to be fetched."""
        self._kept = self._fetched = self._evicted = 0
        self._pace = self._fetch_pace = _Pace(now_ns, applied)
        self._fetched_ns = now_ns
        """When the last segment came, or the first one was missed."""

    def replaying(self, case: str, why: str, durable: Revision, now_ns: int) -> None:
        if not self._on_its_way or self._case != "c":
            self._case, self._why = case, why
        self._on_its_way = True
        self._pace = _Pace(now_ns, durable)

    def leaping(self, why: str, now_ns: int) -> None:
        self._case, self._why = "c", why
        self._on_its_way = True
        self.begin_snapshot(0, now_ns)

    def arrived(self) -> None:
        self._on_its_way = False

    def begin_snapshot(self, keys: int, now_ns: int) -> None:
        """A snapshot of about `keys` keys comes; an earlier one is void."""
        self.keys, self._keys_total = 0, keys
        self._pace = _Pace(now_ns)

    def take(self, keys: int) -> None:
        """The vault has taken `keys` keys more."""
        self.keys += keys

    def compare(self, kept: int, missing: int, now_ns: int) -> None:
        """The disk was compared: it has `kept` of its segments, and lacks `missing`."""
        self._kept, self.missing = kept, missing
        self._begin_fetching(now_ns)

    def count(self, fetched: int, evicted: int, missing: int | None, now_ns: int) -> None:
        """Counts segments; `missing` is how many are missing now, if that is known."""
        if not self.missing and missing:
            self._begin_fetching(now_ns)
        if fetched:
            self._fetched_ns = now_ns
        self._fetched += fetched
        self._evicted += evicted
        self.missing = max(0, self.missing - fetched) if missing is None else missing

    def _begin_fetching(self, now_ns: int) -> None:
        self._fetch_pace, self._fetched_ns = _Pace(now_ns, self._fetched), now_ns

    def progress(
        self, applied: Revision, target: Revision, now_ns: int, *, leaping: bool, replaying: bool
    ) -> NodeRecovery:
        """The counts so far, and a guess of the time left."""
        if leaping:
            left_ns = self._pace.left_ns(self.keys, max(self._keys_total, self.keys + 1), now_ns)
        elif replaying and applied < target:
            left_ns = self._pace.left_ns(applied, target, now_ns)
        elif self.missing and now_ns >= self._fetched_ns + FETCH_STALLED_NS:
            left_ns = None
        else:
            left_ns = self._fetch_pace.left_ns(self._fetched, self._fetched + self.missing, now_ns)
        return NodeRecovery(
            case=self._case,
            why=self._why,
            applied=applied,
            target=target,
            keys=self.keys,
            keys_total=max(self.keys, self._keys_total),
            segments_kept=self._kept,
            segments_fetched=self._fetched,
            segments_missing=self.missing,
            segments_evicted=self._evicted,
            left_ns=left_ns,
        )


def in_words(told: NodeRecovery) -> str:
    """All of it, as `case b: revisions 3 to 9 are kept; revision 5 of 9; 7 segments kept; about 3 s left`."""
    if not told.case:  # nothing has begun
        return f"{told.why}; {left_in_words(told)}"
    parts = (
        f"case {told.case}: {told.why}",
        f"revision {told.applied} of {told.target}",
        f"{told.keys} of {told.keys_total} keys" if told.keys_total else "",
        segments_in_words(told),
        left_in_words(told),
    )
    return "; ".join(part for part in parts if part)


def segments_in_words(told: NodeRecovery) -> str:
    """As `24 segments kept, 480 fetched, 3 to fetch, 12 evicted`; empty where there is none."""
    counts = (
        (told.segments_kept, "kept"),
        (told.segments_fetched, "fetched"),
        (told.segments_missing, "to fetch"),
        (told.segments_evicted, "evicted"),
    )
    parts = [(count, what) for count, what in counts if count]
    if not parts:
        return ""
    count, what = parts[0]
    first = f"{count:,} segment{'' if count == 1 else 's'} {what}"
    return ", ".join((first, *(f"{count:,} {what}" for count, what in parts[1:])))


def left_in_words(told: NodeRecovery) -> str:
    """As `about 3 s left`, in whole seconds rounded up; empty where nothing is left, or there is no guess."""
    return f"about {-(-told.left_ns // SECOND_NS)} s left" if told.left_ns else ""
