"""How far a leader believes its wall clock: rows that have expired never come back."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.data.horizons import horizons
from leasehold.core.data.wallclock import WallClock, shown_by_horizons
from leasehold.core.ddl.plans.properties import NO_HORIZON_US
from leasehold.core.words import keys
from leasehold.core.words.records import HorizonRecord
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import CLOCK_DOWNTIME_MAX_NS, CLOCK_STEP_NS
from leasehold.testing.leases.ground import SETTINGS
from tests.few import examples
from tests.unit.core.data.test_horizons import table

DAY_US = 86_400_000_000
SECOND_US = 1_000_000
NOW_US = 20_000 * DAY_US
BEGAN_NS = 77 * SECOND_NS
TTL_US = 10 * SECOND_US
YEAR_S = 365 * 86_400
DOWNTIME_US = CLOCK_DOWNTIME_MAX_NS // 1_000
STEP_US = CLOCK_STEP_NS // 1_000


class Clock:
    """A leader's, elected `downtime_us` after the last horizon was moved; None where there is no horizon."""

    def __init__(self, downtime_us=0, *, expiring=True):
        self.catalog = Catalog(settings=SETTINGS).changed([table(1)] if expiring else [])
        if downtime_us is not None:
            self.catalog = self.catalog.changed(horizons([1], self.catalog, NOW_US - downtime_us))
        self.passed_us = 0
        self.elect()

    def elect(self):
        self.clock = WallClock(shown_by_horizons(self.catalog), BEGAN_NS + self.passed_us * 1_000)

    def set_step(self, step_ns):
        settings = msgspec.structs.replace(SETTINGS, clock_step_ns=step_ns)
        self.catalog = msgspec.structs.replace(self.catalog, settings=settings)

    def create_table(self):
        self.catalog = self.catalog.changed([table(2)])

    def hidden_by(self, number):
        """The time that the horizon of the table tells, relative to the true time."""
        return self.catalog.horizons[number].horizon_us + TTL_US - NOW_US - self.passed_us

    def after(self, seconds, *, ahead_us=0):
        """What is believed so much later, relative to the true time, while the wall clock is ahead by `ahead_us`.

        Then the leader moves the horizons.
        """
        self.passed_us += seconds * SECOND_US
        true_us = NOW_US + self.passed_us
        believed = self.clock.believe(true_us + ahead_us, BEGAN_NS + self.passed_us * 1_000, self.catalog)
        self.catalog = self.catalog.changed(horizons(sorted(self.catalog.expiring), self.catalog, believed))
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
    assert 0 <= clock.after(1, ahead_us=2 * STEP_US) < SECOND_US, "the bound is on all of them together"
    assert clock.after(1, ahead_us=-DAY_US) == -DAY_US, "horizons never go back, so this moves none"


def test_drift_is_no_step():
    clock = Clock()
    clock.after(0)
    ahead = YEAR_S * SECOND_US * SETTINGS.drift_ppm // 1_000_000
    assert clock.after(YEAR_S, ahead_us=ahead) == ahead


def test_a_long_uptime_makes_no_room_for_a_step():
    clock = Clock()
    for seconds in (0, YEAR_S, 5):
        assert clock.after(seconds) == 0
    assert clock.after(5, ahead_us=DAY_US) == 0


@pytest.mark.parametrize("downtime_us", [None, -DOWNTIME_US], ids=["no horizons", "horizons"])
def test_a_clock_that_was_ahead_at_the_election_is_not_believed_again_once_it_was_set_right(downtime_us):
    clock = Clock(downtime_us)
    ahead = 40 * DAY_US if downtime_us is None else DOWNTIME_US
    assert clock.after(0, ahead_us=ahead) == ahead
    assert clock.after(1) == 0
    clock.create_table()
    assert clock.after(3600, ahead_us=ahead) == 0
    assert clock.clock.ahead_us == ahead


def test_a_confirmed_step_that_was_taken_back_is_not_believed_again():
    clock = Clock()
    clock.after(0)
    clock.set_step(41 * DAY_US * 1_000)
    assert clock.after(1, ahead_us=40 * DAY_US) == 40 * DAY_US
    clock.set_step(CLOCK_STEP_NS)
    assert clock.after(1) == 0
    assert clock.after(1, ahead_us=40 * DAY_US) == 0


def test_steps_count_together_under_a_raised_setting_too():
    clock = Clock()
    clock.after(0)
    clock.set_step(DAY_US * 1_000)
    assert clock.after(1, ahead_us=DAY_US) == DAY_US
    assert clock.after(1, ahead_us=2 * DAY_US) < SECOND_US


def test_no_step_is_refused_while_no_table_has_a_ttl():
    """A first start in 1970: there is nothing that a step could hide."""
    clock = Clock(None, expiring=False)
    assert clock.after(0, ahead_us=-NOW_US) == -NOW_US
    assert clock.after(30) == 0
    clock.create_table()
    assert clock.after(1, ahead_us=40 * DAY_US) == 0


def test_a_person_who_raises_the_setting_confirms_a_step_for_good():
    clock = Clock()
    clock.after(0)
    assert clock.after(1, ahead_us=40 * DAY_US) == 0
    clock.set_step(41 * DAY_US * 1_000)
    assert clock.after(1, ahead_us=40 * DAY_US) == 40 * DAY_US
    clock.set_step(CLOCK_STEP_NS)
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
    clock.set_step(CLOCK_DOWNTIME_MAX_NS + 10 * SECOND_NS)
    assert clock.after(1) == 0


def test_a_clock_that_was_not_set_yet_is_followed_once_it_is():
    """A machine without a battery begins in 1970, until it hears the time."""
    clock = Clock(DAY_US)
    assert clock.after(0, ahead_us=-NOW_US) == -NOW_US
    assert clock.clock.ahead_us == 0
    assert clock.after(30) == 0
    assert clock.after(1, ahead_us=40 * DAY_US) == 0


def test_a_table_made_while_all_other_horizons_are_ahead_is_not_hidden_by_the_clock_that_moved_those():
    """A step that was confirmed by mistake and taken back, and then another leader."""
    clock = Clock(-40 * DAY_US)
    assert clock.after(0) == 0
    clock.create_table()
    assert clock.after(5) == 0
    assert clock.after(5) == 0
    assert clock.after(5, ahead_us=40 * DAY_US) == 0


DAYS = st.integers(-19_000, 100) | st.floats(-1, 1)
READINGS = st.tuples(st.integers(0, 30 * 86_400), DAYS)
EVENTS = st.one_of(
    READINGS,
    st.sampled_from([SECOND_NS, CLOCK_STEP_NS, 2 * CLOCK_STEP_NS, DAY_US * 1_000, 41 * DAY_US * 1_000]),
    st.just("election"),
)


@given(
    before=st.lists(EVENTS, max_size=6), behind=st.integers(0, 19_000), after=st.lists(EVENTS, min_size=1, max_size=12)
)
@settings(max_examples=examples(300), deadline=None)
def test_no_horizon_runs_further_ahead_than_the_bound_and_what_was_confirmed(before, behind, after):
    """Of a table that is made while the wall clock is right or behind, whatever it has said and will say."""
    clock = Clock(None)
    for event in before:
        happen(clock, event)
    clock.create_table()
    clock.after(0, ahead_us=-behind * DAY_US)
    made_us = clock.passed_us
    allowed_us = DOWNTIME_US if "election" in before else 0  # of a leader that does not measure yet
    for event in after:
        step_us = clock.catalog.settings.clock_step_ns // 1_000
        if event == "election":
            allowed_us += step_us + max(step_us, DOWNTIME_US)
        elif isinstance(event, int) and event // 1_000 < step_us:
            allowed_us += step_us
        ahead_us = happen(clock, event)
        if ahead_us is not None:
            step_us = clock.catalog.settings.clock_step_ns // 1_000
            drift_us = (clock.passed_us - made_us) * SETTINGS.drift_ppm // 1_000_000
            assert ahead_us <= allowed_us + step_us + drift_us
            assert clock.hidden_by(2) <= allowed_us + step_us + drift_us


def happen(clock, event):
    """What is believed after a reading, relative to the true time; None after any other event."""
    if event == "election":
        clock.elect()
    elif isinstance(event, int):
        clock.set_step(event)
    else:
        seconds, days = event
        return clock.after(seconds, ahead_us=round(days * DAY_US))
    return None


def test_the_horizons_tell_when_a_leader_last_moved_them():
    ttl_us = 10 * SECOND_US
    hidden = HorizonRecord(table=3, horizon_us=NO_HORIZON_US, hidden_us=NOW_US)
    horizons = [HorizonRecord(table=1, horizon_us=NOW_US - ttl_us), HorizonRecord(table=2, horizon_us=NOW_US), hidden]
    catalog = Catalog().changed(
        [table(1), table(2), table(3), *(put(keys.horizon(one.table), one) for one in horizons)]
    )
    assert shown_by_horizons(catalog) == NOW_US, "the earliest: a TTL that was made longer tells too much"
    assert shown_by_horizons(Catalog().changed([table(1)])) is None
