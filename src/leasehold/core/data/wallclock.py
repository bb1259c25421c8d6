"""How far the leader believes its wall clock when it lets rows expire.

Theory of operation. A wall clock that steps ahead for a moment would cost all rows of a table with a TTL, since expired
rows never come back. So the leader measures real time with the clock that it counts leases by, from an **anchor**: a
time at an instant of that clock. At each reading the anchor moves on by the time that has passed.

- A wall clock that is behind the anchor takes the anchor back with it: a later step ahead counts from there. Horizons
  stay where they are.
- A wall clock that is ahead by at most the setting `clock_step` is believed. The anchor follows it only by the drift
  that the measuring clock may have had since the last reading. So the steps count together, and the drift of a long
  uptime makes no room for a step.
- A larger step is refused: rows expire by the measured time until the wall clock is back, or until a person raises
  `clock_step`. Lowering `clock_step` makes what is believed the anchor.

A new leader can't measure what passed before it. Its anchor is **estimated**: the time that the horizons in the meta
storage tell, or that of a new table's horizon if it is earlier. The first wall clock within the downtime bound of that
(CLOCK_DOWNTIME_MAX_NS, or `clock_step` if that is more) becomes the anchor, **measured** from there. Without a table
that has a TTL no horizon can move, so each reading is believed then.

| anchor    | the wall clock                               | believed       | anchor afterwards             |
| any       | no table has a TTL                           | the wall clock | measured, the wall clock      |
| none      | no horizon tells a time                      | the wall clock | measured, the wall clock      |
| estimated | within the downtime bound                    | the wall clock | measured, the wall clock      |
| estimated | further behind (a machine without a battery) | the wall clock | estimated                     |
| estimated | further ahead                                | the anchor     | estimated                     |
| measured  | behind                                       | the wall clock | measured, the wall clock      |
| measured  | ahead by at most `clock_step` and the drift  | the wall clock | measured, nearer by the drift |
| measured  | further ahead                                | the anchor     | measured                      |
"""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.drift import MILLION
from leasehold.limits.upkeep import CLOCK_DOWNTIME_MAX_NS


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
        self._anchor_us = known_us
        self._known_us = known_us or 0
        self._since_ns = now_ns
        self._is_measured = False
        self._step_ns = 0
        self._unconfirmed_us = 0
        """How far what is believed is ahead of the anchor."""
        self.ahead_us = 0
        """How far the wall clock is ahead of what is believed: 0 unless a step was refused."""

    def believe(self, wall_us: int, now_ns: int, catalog: Catalog) -> int:
        """The time by which rows expire now, in microseconds since 1970 UTC."""
        settings = catalog.settings
        assert settings is not None, "a cluster that is led has settings"
        passed_us = (now_ns - self._since_ns) // 1_000
        self._since_ns += passed_us * 1_000
        confirmed_us = self._unconfirmed_us if settings.clock_step_ns < self._step_ns else 0
        self._step_ns = settings.clock_step_ns
        self._unconfirmed_us = self.ahead_us = 0
        if self._anchor_us is None or not catalog.expiring:
            self._measure_from(wall_us)
            return wall_us
        self._anchor_us += passed_us + confirmed_us
        if not self._is_measured:
            self._estimate_again(catalog)
        drift_us = passed_us * settings.drift_ppm // MILLION
        bound_ns = settings.clock_step_ns if self._is_measured else max(settings.clock_step_ns, CLOCK_DOWNTIME_MAX_NS)
        if wall_us > self._anchor_us + drift_us + bound_ns // 1_000:
            self.ahead_us = wall_us - self._anchor_us
            return self._anchor_us
        if self._is_measured:
            self._anchor_us = min(wall_us, self._anchor_us + drift_us)
            self._unconfirmed_us = wall_us - self._anchor_us
        elif wall_us >= self._anchor_us - bound_ns // 1_000:
            self._measure_from(wall_us)
        return wall_us

    def _measure_from(self, wall_us: int) -> None:
        self._anchor_us, self._is_measured = wall_us, True

    def _estimate_again(self, catalog: Catalog) -> None:
        """A horizon earlier than all those of the election is of a new table: its rows must not be hidden either."""
        known_us = shown_by_horizons(catalog)
        if known_us is not None and known_us < self._known_us:
            self._anchor_us = self._known_us = known_us
