"""How far a leader believes its wall clock: rows that have expired never come back."""

import msgspec
import pytest

from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.plan import put
from leasehold.core.plans.properties import NO_HORIZON_US
from leasehold.core.records import HorizonRecord
from leasehold.core.wallclock import WallClock, shown_by_horizons
from leasehold.limits import CLOCK_DOWNTIME_MAX_NS, CLOCK_STEP_NS, SECOND_NS
from leasehold.testing.leases.ground import SETTINGS
from tests.unit.coordinator.test_horizons import table

DAY_US = 86_400_000_000
SECOND_US = 1_000_000
NOW_US = 20_000 * DAY_US
BEGAN_NS = 77 * SECOND_NS
DOWNTIME_US = CLOCK_DOWNTIME_MAX_NS // 1_000
STEP_US = CLOCK_STEP_NS // 1_000


class Clock:
    """A leader's, elected `downtime_us` after the last horizon was moved; None where there is no horizon."""

    def __init__(self, downtime_us=0):
        self.settings = SETTINGS
        self.passed_us = 0
        self.clock = WallClock(None if downtime_us is None else NOW_US - downtime_us, BEGAN_NS)

    def after(self, seconds, *, ahead_us=0):
        """What is believed so much later, relative to the true time, while the wall clock is ahead by `ahead_us`."""
        self.passed_us += seconds * SECOND_US
        true_us = NOW_US + self.passed_us
        believed = self.clock.believe(true_us + ahead_us, BEGAN_NS + self.passed_us * 1_000, self.settings)
        return believed - true_us


def test_a_clock_that_jumps_ahead_and_back_moves_nothing():
    """+40 days for 14 seconds, as it was seen: every row of a table with a TTL of 30 days was gone."""
    clock = Clock()
    assert clock.after(100) == 0
    for _ in range(14):
        assert clock.after(1, ahead_us=40 * DAY_US) == 0
        assert clock.clock.ahead_us == 40 * DAY_US
    assert clock.after(1) == 0
    assert clock.clock.ahead_us == 0


def test_small_steps_are_followed_and_do_not_add_up():
    clock = Clock()
    assert clock.after(0) == 0
    assert clock.after(1, ahead_us=STEP_US // 2) == STEP_US // 2
    assert clock.after(1, ahead_us=STEP_US) == STEP_US
    assert clock.after(1, ahead_us=2 * STEP_US) == 0, "the bound is on all of them together"
    assert clock.after(1, ahead_us=-DAY_US) == -DAY_US, "horizons never go back, so this moves none"


def test_drift_is_no_step():
    clock = Clock()
    clock.after(0)
    year = 365 * 86_400
    ahead = year * SECOND_US * SETTINGS.drift_ppm // 1_000_000
    assert clock.after(year, ahead_us=ahead) == ahead


def test_a_person_who_raises_the_setting_confirms_a_step_for_good():
    clock = Clock()
    clock.after(0)
    assert clock.after(1, ahead_us=40 * DAY_US) == 0
    clock.settings = msgspec.structs.replace(SETTINGS, clock_step_ns=41 * DAY_US * 1_000)
    assert clock.after(1, ahead_us=40 * DAY_US) == 40 * DAY_US
    clock.settings = SETTINGS
    assert clock.after(1, ahead_us=40 * DAY_US) == 40 * DAY_US
    assert clock.after(1, ahead_us=80 * DAY_US) == 40 * DAY_US, "the next step is another one"


@pytest.mark.parametrize("downtime_us", [None, 0, DAY_US, DOWNTIME_US])
def test_a_new_leader_believes_its_clock_after_a_downtime_within_the_bound(downtime_us):
    clock = Clock(downtime_us)
    assert clock.after(0) == 0
    assert clock.after(1, ahead_us=DAY_US) == 0, "from there on steps are bounded as ever"


def test_a_new_leader_whose_clock_is_far_ahead_goes_on_from_the_horizons_until_it_is_told():
    clock = Clock(DOWNTIME_US + SECOND_US)
    assert clock.after(0) == -DOWNTIME_US - SECOND_US
    assert clock.after(3600, ahead_us=DAY_US) == -DOWNTIME_US - SECOND_US
    clock.settings = msgspec.structs.replace(SETTINGS, clock_step_ns=CLOCK_DOWNTIME_MAX_NS + 10 * SECOND_NS)
    assert clock.after(1) == 0


def test_a_clock_that_was_not_set_yet_is_followed_once_it_is():
    """A machine without a battery begins in 1970, until it hears the time."""
    clock = Clock(DAY_US)
    assert clock.after(0, ahead_us=-NOW_US) == -NOW_US
    assert clock.clock.ahead_us == 0
    assert clock.after(30) == 0
    assert clock.after(1, ahead_us=40 * DAY_US) == 0


def test_the_horizons_tell_when_a_leader_last_moved_them():
    ttl_us = 10 * SECOND_US
    hidden = HorizonRecord(table=3, horizon_us=NO_HORIZON_US, hidden_us=NOW_US)
    horizons = [HorizonRecord(table=1, horizon_us=NOW_US - ttl_us), HorizonRecord(table=2, horizon_us=NOW_US), hidden]
    catalog = Catalog().changed(
        [table(1), table(2), table(3), *(put(keys.horizon(one.table), one) for one in horizons)]
    )
    assert shown_by_horizons(catalog) == NOW_US, "the earliest: a TTL that was made longer tells too much"
    assert shown_by_horizons(Catalog().changed([table(1)])) is None
