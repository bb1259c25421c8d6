"""How long a statement may take, by the oracle's own reckoning (docs/design.md, "Schema changes").

It is computed from the history of the settings and from real time, never from what the code under test says of itself.
"""

from typing import Final, NamedTuple

from leasehold.core.words import keys
from leasehold.core.words.records import LargestLeaseRecord, SettingsRecord
from leasehold.ids import Revision
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.history import Committed, Elected
from leasehold.testing.oracle import Oracle

MILLION: Final = 1_000_000
SLACK_NS: Final = 400 * MILLISECOND_NS
"""For transactions, round trips and scheduling."""
EXPIRY_NS: Final = 4_100 * MILLISECOND_NS
"""From the loss of a leader to the next one: its record seen unchanged for 3.6 s, looked at every half second."""
HEARD_NS: Final = 100 * MILLISECOND_NS
"""How long after a commit its leader, undisturbed, grants by it."""
TENTH_NS: Final = 100 * MILLISECOND_NS


class OutstandingLease(NamedTuple):
    """Leases that may still run: how long a barrier can wait for one given at the last instant, and that instant."""

    wait_ns: int
    given_until_ns: int


class Bounds:
    """The oracle's memory of all leases; it takes each revision and each election, in order."""

    def __init__(self) -> None:
        self._settings: SettingsRecord | None = None
        self._longest_ns = 0
        self._older: list[OutstandingLease] = []
        self._elected: list[tuple[int, int]] = []

    def take(self, oracle: Oracle, news: Committed | Elected) -> None:
        """Takes a change of the settings, or an election: a new leader counts the largest lease as outstanding."""
        if isinstance(news, Elected):
            began_ns = oracle.elections[news.term][0]
            if self._settings is not None:
                wait_ns = self._wait_ns(self._settings, self._largest_ns(oracle, news.newest))
                self._older.append(OutstandingLease(wait_ns, began_ns))
                self._elected.append((began_ns, wait_ns))
            return
        for settings in news.written(SettingsRecord):
            if self._settings is not None:
                self._older.append(OutstandingLease(self._wait_ns(self._settings), news.real_ns))
            self._settings = settings
            self._longest_ns = max(self._longest_ns, settings.lease_duration_ns)

    def under_one_leader_ns(self, oracle: Oracle, at_ns: int) -> int | None:
        """The bound of a statement whose first transaction is committed now, at `at_ns`; None before any settings.

        Its own settings, if it sets any, and later ones don't count: a node with these has applied the statement.
        """
        if self._settings is None:
            return None
        waits = [self._wait_ns(self._settings)]
        for wait_ns, until_ns in self._older:
            heard_ns = until_ns + HEARD_NS + oracle.disturbances.lasted_ns(until_ns, at_ns)
            waits.append(wait_ns - max(0, at_ns - heard_ns))
        return max(waits) + SLACK_NS

    def allowed_ns(self, oracle: Oracle, bound_ns: int, from_ns: int, to_ns: int) -> int:
        """The bound plus what happened to leaders in a span of time: for each change of leader its loss and one full
        wait, and the disturbed time."""
        changes_ns = [EXPIRY_NS + wait_ns for at_ns, wait_ns in self._elected if from_ns <= at_ns <= to_ns]
        setbacks_ns = oracle.disturbances.setbacks(from_ns, to_ns) * EXPIRY_NS
        return bound_ns + sum(changes_ns) + setbacks_ns + oracle.disturbances.lasted_ns(from_ns, to_ns)

    def next_change_ns(self) -> int:
        """What a lost leader without a successor adds to the bound."""
        return EXPIRY_NS + (0 if self._settings is None else self._wait_ns(self._settings, self._longest_ns))

    def told_at_most_ns(self, bound_ns: int, from_ns: int, to_ns: int) -> int:
        """The largest bound in a receipt, in whole tenths: a later leader may have said more than the first."""
        later_ns = [wait_ns + SLACK_NS for at_ns, wait_ns in self._elected if from_ns <= at_ns <= to_ns]
        if later_ns and self._settings is not None:  # it may have taken the statement up under newer settings
            later_ns.append(self._wait_ns(self._settings) + SLACK_NS)
        return -(-max(bound_ns, *later_ns, 0) // TENTH_NS) * TENTH_NS

    def _largest_ns(self, oracle: Oracle, newest: Revision) -> int:
        """What a new leader finds, and never more than was ever set."""
        found = oracle.history.record_at(newest, keys.LARGEST_LEASE)
        return min(found.duration_ns, self._longest_ns) if isinstance(found, LargestLeaseRecord) else 0

    @staticmethod
    def _wait_ns(settings: SettingsRecord, duration_ns: int = 0) -> int:
        slow, fast = MILLION - settings.drift_ppm, MILLION + settings.drift_ppm
        longest_ns = max(duration_ns, settings.lease_duration_ns)
        counted_ns = -(-longest_ns * fast // slow) + settings.lease_margin_ns
        return -(-counted_ns * MILLION // slow)
