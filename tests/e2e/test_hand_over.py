"""A coordinator that is told to stop: it hands its leadership over before it ends."""

import re
import signal

import pytest

from leasehold.limits.lease import HAND_OVER_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock
from tests.e2e.cluster import RunningCluster

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_coordinator_that_is_told_to_stop_hands_over_its_term(fresh: RunningCluster, number: signal.Signals) -> None:
    coordinator, clock = fresh.local.coordinator, BoottimeClock()
    with fresh.connect() as cluster:
        cluster.sql("CREATE DATABASE d")
        term = cluster.status().term
        began_ns = clock.now_ns()
        coordinator.signal(number)
        assert coordinator.wait_until_gone()
        assert f"handed over term {term}" in coordinator.log.read_text()
        assert not re.search("Traceback|error \\[", coordinator.log.read_text())
        assert clock.now_ns() - began_ns < HAND_OVER_NS + 10 * SECOND_NS
        fresh.restart("coordinator")
        assert cluster.status().term == term + 1
        cluster.sql("CREATE DATABASE e")
