"""The wall clock of a leader, believed within bounds (`core/data/wallclock.py`)."""

import logging

from leasehold.coordinator.writer import Writer
from leasehold.core.data.wallclock import WallClock, shown_by_horizons
from leasehold.core.words.durations import render_duration
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)


class BelievedClock:
    """The clock of one leader, for the expiry of rows."""

    def __init__(self, clock: Clock, writer: Writer) -> None:
        self._clock = clock
        self._writer = writer
        self._wall = WallClock(shown_by_horizons(writer.catalog), clock.now_ns())
        self._was_ahead = False
        self.wall_us()

    @property
    def ahead_ns(self) -> int:
        """How far the wall clock is ahead of what is believed; 0 unless its step was refused."""
        return self._wall.ahead_us * 1_000

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def wall_us(self) -> int:
        believed_us = self._wall.believe(self._clock.wall_us(), self._clock.now_ns(), self._writer.catalog)
        is_ahead = self._wall.ahead_us > 0
        if is_ahead and not self._was_ahead:
            log.error(
                "the wall clock of this machine is ahead by %s, more than clock_step: rows expire by measured time."
                " hint: correct the clock; if it is right, ALTER CLUSTER SET clock_step to more than that for a minute",
                render_duration(self.ahead_ns // SECOND_NS * SECOND_NS),
            )
        elif self._was_ahead and not is_ahead:
            log.warning("the wall clock of this machine is trusted again")
        self._was_ahead = is_ahead
        return believed_us
