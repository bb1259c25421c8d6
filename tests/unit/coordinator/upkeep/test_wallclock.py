"""The clock of a leader's statements and housekeeping: what it believes of the wall clock, and what it says of it."""

import logging

from leasehold.coordinator.upkeep.wallclock import BelievedClock
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.records import HorizonRecord
from leasehold.testing.leases.ground import SETTINGS
from tests.unit.core.data.test_horizons import table

DAY_US = 86_400_000_000
NOW_US = 20_000 * DAY_US
TTL_US = 10_000_000


class Clock:
    """A machine's."""

    def __init__(self):
        self.passed_us = 0
        self.ahead_us = 0

    def now_ns(self):
        return self.passed_us * 1_000

    def wall_us(self):
        return NOW_US + self.passed_us + self.ahead_us


class Writer:
    """What the clock needs of it."""

    def __init__(self):
        horizon = HorizonRecord(table=1, horizon_us=NOW_US - TTL_US)
        self.catalog = Catalog(settings=SETTINGS).changed([table(1), put(keys.horizon(1), horizon)])


def test_a_step_is_refused_and_told_once_and_so_is_its_end(caplog):
    caplog.set_level(logging.WARNING)
    clock = Clock()
    believed = BelievedClock(clock, Writer())
    clock.ahead_us = 40 * DAY_US
    for _ in range(3):
        assert believed.wall_us() == NOW_US
    assert believed.ahead_ns == 40 * DAY_US * 1_000
    clock.ahead_us = 0
    assert believed.wall_us() == NOW_US
    assert believed.ahead_ns == 0
    first, last = [one.getMessage() for one in caplog.records]
    assert "ahead by 40d" in first
    assert "clock_step" in first
    assert "trusted again" in last


def test_a_leader_that_is_elected_while_the_clock_is_wrong_holds_it_against_the_horizons():
    clock = Clock()
    clock.ahead_us = 40 * DAY_US
    believed = BelievedClock(clock, Writer())
    assert believed.wall_us() == NOW_US
    clock.ahead_us = 0
    assert believed.wall_us() == NOW_US
