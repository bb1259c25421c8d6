"""Two drifting clocks: what the holder counts and what the grantor counts, in exact real time."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.lease.drift import MILLION, grant_bound_ns, lasts_ns, outlast_ns
from leasehold.limits.lease import BOUND_SLACK_NS, LEASE_DURATION_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.leases.actors import LocalClock
from leasehold.testing.leases.ground import SETTINGS
from tests.few import examples

spans = st.integers(0, LEASE_DURATION_MAX_NS)
drifts = st.integers(0, 200_000)
instants = st.integers(0, 10**18)


def drifting(limit_ppm):
    return st.integers(-limit_ppm, limit_ppm).map(lambda ppm: Fraction(MILLION + ppm, MILLION))


@settings(derandomize=True, max_examples=examples(300))
@given(spans, drifts)
def test_outlast_is_the_least_whole_number_above(span_ns, drift_ppm):
    exact = Fraction(span_ns) * (MILLION + drift_ppm) / (MILLION - drift_ppm)
    answer = outlast_ns(span_ns, drift_ppm)
    assert answer - 1 < exact <= answer


def test_outlast_rounds_up():
    assert outlast_ns(0, 10_000) == 0
    assert outlast_ns(99, 10_000) == 101
    assert outlast_ns(1, 10_000) == 2
    assert outlast_ns(3 * SECOND_NS, 0) == 3 * SECOND_NS
    assert outlast_ns(3 * SECOND_NS, 10_000) == 3_060_606_061


@pytest.mark.parametrize(("span_ns", "drift_ppm"), [(-1, 0), (1, -1), (1, MILLION)])
def test_outlast_refuses_what_makes_no_sense(span_ns, drift_ppm):
    with pytest.raises(AssertionError):
        outlast_ns(span_ns, drift_ppm)


@settings(derandomize=True, max_examples=examples(500))
@given(st.data(), spans, drifts, instants, spans, instants, instants)
def test_the_holders_deadline_is_never_later(data, duration_ns, drift_ppm, sent_at, delay_ns, offset_h, offset_g):
    # INV-LEASE-1 with the margin taken away: real clocks, no rounding but the one in `outlast_ns`.
    holder, grantor = data.draw(drifting(drift_ppm)), data.draw(drifting(drift_ppm))
    received_at = sent_at + delay_ns
    bare = msgspec.structs.replace(SETTINGS, drift_ppm=drift_ppm, lease_margin_ns=0)
    stamp = offset_h + sent_at * holder
    deadline_in_real_time = (stamp + duration_ns - offset_h) / holder
    noted = offset_g + received_at * grantor
    bound_in_real_time = (noted + grant_bound_ns(bare, duration_ns) - offset_g) / grantor
    assert deadline_in_real_time <= bound_in_real_time


@settings(derandomize=True, max_examples=examples(100))
@given(st.integers(1, LEASE_DURATION_MAX_NS), st.integers(1, 200_000), instants)
def test_the_factor_is_not_larger_than_needed(duration_ns, drift_ppm, sent_at):
    # The slowest holder against the fastest grantor, no delay: one nanosecond less would be too short.
    slow, fast = Fraction(MILLION - drift_ppm, MILLION), Fraction(MILLION + drift_ppm, MILLION)
    deadline = sent_at + duration_ns / slow
    shorter = sent_at + (outlast_ns(duration_ns, drift_ppm) - 1) / fast
    assert shorter < deadline


def test_bound_adds_the_margin():
    assert grant_bound_ns(SETTINGS, 3 * SECOND_NS) == 3_060_606_061 + SETTINGS.lease_margin_ns
    assert grant_bound_ns(SETTINGS, 0) == SETTINGS.lease_margin_ns


def test_longest_wait_by_default_is_published():
    wait_ns = lasts_ns(grant_bound_ns(SETTINGS, SETTINGS.lease_duration_ns), SETTINGS.drift_ppm)
    assert SETTINGS.lease_duration_ns < wait_ns <= 3_600_000_000
    assert wait_ns + BOUND_SLACK_NS <= 4 * SECOND_NS
    assert wait_ns == 3_596_571_779


@settings(derandomize=True, max_examples=examples(200))
@given(st.integers(0, 10**15), st.integers(-200_000, 200_000), st.integers(0, 10**15))
def test_the_simulated_clock_and_its_inverse(offset_ns, drift_ppm, real_ns):
    clock = LocalClock(offset_ns, drift_ppm)
    local_ns = clock.now_ns(real_ns)
    first = clock.real_ns(local_ns)
    assert first <= real_ns
    assert clock.now_ns(first) >= local_ns
    assert clock.now_ns(first - 1) < local_ns
