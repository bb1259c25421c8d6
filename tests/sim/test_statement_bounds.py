"""INV-DDL-1 holds statements to bounds that the oracle reckons by itself, in real time (`testing/bounds.py`)."""

import msgspec
import pytest

from leasehold.core.words.records import Step
from leasehold.testing.invariants import named
from leasehold.testing.leases.ground import SETTINGS
from leasehold.testing.oracle import InvariantViolated
from tests.sim.broken_histories import hidden
from tests.sim.histories import Told
from tests.sim.record_words import PRE_DELETE, SECOND_NS, counters, procedure, receipt, statement, table

# Elapsed, seconds of disturbance, changes of leader, and whether the bound allows that.
BOUNDS = [(5, 0, 0, False), (5, 1, 0, True), (5, 0.5, 0, False), (11, 0, 1, True), (12, 0, 1, False), (18, 0, 2, True)]


@pytest.mark.parametrize(("elapsed_s", "disturbed_s", "changes", "allowed"), BOUNDS)
def test_the_bound_grows_with_what_disturbed_the_leader(elapsed_s, disturbed_s, changes, allowed):
    told = Told(named("INV-DDL-1"))
    told.real_ns = 100 * SECOND_NS
    told.oracle.disturbances.begin("store")
    told.oracle.disturbances.begin("process")
    told.real_ns += round(disturbed_s * SECOND_NS)
    told.oracle.disturbances.end("store")
    told.oracle.disturbances.end("process")
    for term in range(1, changes + 1):
        told.elect(term)
    if allowed:
        told.answer(receipt(elapsed_ns=elapsed_s * SECOND_NS))
    else:
        with pytest.raises(InvariantViolated, match="INV-DDL-1"):
            told.answer(receipt(elapsed_ns=elapsed_s * SECOND_NS))


def test_a_disturbance_long_ago_allows_nothing():
    told = Told(named("INV-DDL-1"))
    told.oracle.disturbances.begin("store")
    told.real_ns += 10 * SECOND_NS
    told.oracle.disturbances.end("store")
    told.real_ns += 1000 * SECOND_NS
    with pytest.raises(InvariantViolated, match="INV-DDL-1"):
        told.answer(receipt(elapsed_ns=5 * SECOND_NS))


# Seconds from the first transaction, durations set before (the last one holds), changes of leader, allowed or not.
REAL_TIMES = [
    (3.9, (3,), 0, True),
    (4.1, (3,), 0, False),
    (11.6, (3,), 1, True),
    (11.8, (3,), 1, False),
    (6, (5,), 0, True),
    (4.1, (5, 2), 0, True),
    (5.2, (5, 2), 0, False),
]


@pytest.mark.parametrize(("seconds", "durations", "changes", "allowed"), REAL_TIMES)
def test_the_real_time_of_a_statement_is_held_against_the_leases_that_can_be_out(seconds, durations, changes, allowed):
    told = Told(named("INV-DDL-1"))
    for duration in durations:
        told.commit(msgspec.structs.replace(SETTINGS, lease_duration_ns=duration * SECOND_NS))
    told.commit(counters(), table())
    told.commit(table(state=PRE_DELETE), procedure(), statement())
    began_ns = told.real_ns - SECOND_NS
    for term in range(2, changes + 2):
        told.elect(term)
    told.real_ns = began_ns + round(seconds * SECOND_NS)
    if allowed:
        told.commit(procedure(Step.FINISHED), gone=[table()])
    else:
        with pytest.raises(InvariantViolated, match=r"INV-DDL-1 .* of real time"):
            told.commit(procedure(Step.FINISHED), gone=[table()])


# Who fares how from half a second after the first transaction on: (process runs, reaches the store).
FARES = [
    ({"c1": (True, True), "c2": (True, False)}, False),
    ({"c1": (False, True), "c2": (True, True)}, False),
    ({"c1": (True, False), "c2": (True, True)}, True),
    ({"c1": (False, True), "c2": (True, False)}, True),
    ({"c1": (False, True), "c2": (False, True)}, True),
]


@pytest.mark.parametrize(("fares", "disturbed"), FARES)
def test_only_the_leader_or_the_lack_of_any_coordinator_disturbs(fares, disturbed):
    told = Told(named("INV-DDL-1"))
    for name in fares:
        told.oracle.disturbances.coordinator(name, up=True, reaching=True)
    told.elect(1)
    told.commit(SETTINGS)
    hidden(told)
    began_ns = told.real_ns
    for name, (up, reaching) in fares.items():
        told.oracle.disturbances.coordinator(name, up=up, reaching=reaching)
    told.real_ns += 7 * SECOND_NS
    assert told.oracle.disturbances.lasted_ns(began_ns, told.real_ns) == (7 * SECOND_NS if disturbed else 0)
    if disturbed:
        told.commit(procedure(Step.FINISHED), gone=[table()])
    else:
        with pytest.raises(InvariantViolated, match="INV-DDL-1"):
            told.commit(procedure(Step.FINISHED), gone=[table()])


def test_an_election_that_is_set_back_allows_what_the_loss_of_a_leader_does():
    told = Told(named("INV-DDL-1"))
    told.commit(SETTINGS)
    hidden(told)
    told.oracle.disturbances.set_back()
    told.real_ns += 6 * SECOND_NS
    told.commit(procedure(Step.FINISHED), gone=[table()])
