"""How far the leader believes its wall clock when it lets rows expire.

Theory of operation. Rows that have expired never come back, so a wall clock that steps ahead for a moment would cost
all rows of a table with a TTL. The leader therefore measures real time with the clock that it counts leases by, from
an **anchor**: an instant at which it believed the wall clock. The wall clock may be ahead of that by the drift of the
measuring clock and by the setting `clock_step`. A larger step is refused: rows go on expiring by the measured time
until the wall clock is back, or until a person raises `clock_step`.

A new leader can't measure what passed before it. It takes the time that the horizons in the meta storage tell, and
anchors at its wall clock if the two differ by at most CLOCK_DOWNTIME_MAX_NS, or by `clock_step` if that is more.

| state    | the wall clock                               | believed                          | next     |
| none     | is nearer to the horizons than that bound    | the wall clock                    | anchored |
| none     | is behind (a machine without a battery)      | the wall clock: nothing expires   | none     |
| none     | is ahead                                     | the horizons and what passed since | none    |
| anchored | is ahead by at most `clock_step`             | the wall clock                    | anchored |
| anchored | is ahead by more                             | the anchor and what passed since  | anchored |
"""

from leasehold.core.catalog import Catalog
from leasehold.core.drift import MILLION
from leasehold.core.records import SettingsRecord
from leasehold.limits import CLOCK_DOWNTIME_MAX_NS, CLOCK_STEP_NS


def shown_by_horizons(catalog: Catalog) -> int | None:
    """The earliest time, in microseconds since 1970 UTC, by which the horizons of all tables lie where they do."""
    found = [
        catalog.horizons[table].horizon_us + ttl_ns // 1_000
        for table, ttl_ns in catalog.expiring.items()
        if table in catalog.horizons
    ]
    # One below zero is of a table that never had a horizon.
    return min((one for one in found if one > 0), default=None)


class WallClock:
    """Of one leader. `known_us` is what the horizons tell at its election, None if there are none."""

    def __init__(self, known_us: int | None, now_ns: int) -> None:
        self._base_us = known_us
        self._since_ns = now_ns
        self._anchored = False
        self.ahead_us = 0
        """How far the wall clock is ahead of what is believed: 0 unless a step was refused."""

    def believe(self, wall_us: int, now_ns: int, settings: SettingsRecord) -> int:
        """The time by which rows expire now, in microseconds since 1970 UTC."""
        self.ahead_us = 0
        if self._base_us is None:
            self._anchor(wall_us, now_ns)
            return wall_us
        passed_us = (now_ns - self._since_ns) // 1_000
        measured_us = self._base_us + passed_us
        drift_us = passed_us * settings.drift_ppm // MILLION
        step_ns = settings.clock_step_ns if self._anchored else max(settings.clock_step_ns, CLOCK_DOWNTIME_MAX_NS)
        if wall_us > measured_us + drift_us + step_ns // 1_000:
            self.ahead_us = wall_us - measured_us
            return measured_us
        if self._anchored:
            # By a step that only a raised setting allows: believed from here on, also when that is lowered again.
            is_new = wall_us > measured_us + drift_us + CLOCK_STEP_NS // 1_000
        else:
            is_new = wall_us >= measured_us - step_ns // 1_000
        if is_new:
            self._anchor(wall_us, now_ns)
        return wall_us

    def _anchor(self, wall_us: int, now_ns: int) -> None:
        self._base_us, self._since_ns, self._anchored = wall_us, now_ns, True
