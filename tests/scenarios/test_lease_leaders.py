"""Leaders and incarnations that change: old leaders, new ones, restarts, other durations, each by its id."""

import pytest

from leasehold.core.lease.holder import NO_LEASE
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused
from leasehold.core.words.records import SettledHow
from leasehold.ids import NodeId, Revision
from leasehold.limits.units import SECOND_NS
from leasehold.testing.invariants import named
from leasehold.testing.leases.ground import Parts
from leasehold.testing.oracle import InvariantViolated
from tests.scenarios.scripts import (
    Watched,
    answer_under_way,
    ask,
    caught,
    change,
    elect,
    enter,
    hold_office,
    restart,
    send_renewal,
    serve,
    settled,
    wait_out,
)
from tests.sim import broken

# ---------------------------------------------------------------- L4


def old_leader_cut_off(world):
    old, new = world.coordinators
    elect(world)
    node = enter(world, old)
    # No beat of the old leader reaches the store any more; the node still reaches only the old leader.
    world.look(new)
    for _ in range(3):
        assert isinstance(answer_under_way(world, node, send_renewal(world, node)).message, Grant)
        assert world.deliver(world.under_way(Grant, node))
    refused = answer_under_way(world, node, send_renewal(world, node))
    assert world.deliver(refused)
    assert not world.campaign(new)
    world.advance(SECOND_NS)
    assert world.campaign(new)
    assert world.take_office(new)
    last = answer_under_way(world, node, send_renewal(world, node))
    world.deliver(last)
    change(world, new)
    hold_office(world, new)
    wait_out(world, new)
    return node, refused, last


def test_L4_the_old_leader():
    world = Watched()
    node, refused, last = old_leader_cut_off(world)
    assert refused.message.code == last.message.code == "NOT_LEADER"
    assert settled(world) == [(NodeId(1), SettledHow.FENCED)]
    assert serve(world, node) is None
    caught("INV-LEASE-3", old_leader_cut_off, Parts(grantor=broken.GrantsForEver))


# ---------------------------------------------------------------- L8


def new_leader_without_history(world):
    old, new = world.coordinators
    elect(world)
    node = enter(world, old)
    world.look(new)
    assert world.resign(old)
    assert elect(world, 1) is new
    began_ns = world.oracle.real_ns
    # Nobody has ever spoken to this leader.
    change(world, new)
    wait_out(world, new)
    return node, began_ns


def test_L8_new_leader_no_history():
    world = Watched()
    node, began_ns = new_leader_without_history(world)
    assert settled(world) == [(node.node, SettledHow.FENCED)]
    waited_ns = world.proceeded[0][0] - began_ns
    assert node.lease.deadline_ns <= world.now_ns(node)
    assert 3 * SECOND_NS < waited_ns <= 3_600_000_000
    caught("INV-LEASE-3", new_leader_without_history, Parts(grantor=broken.DoesNotWait))


def test_L8_a_report_to_the_new_leader_settles_at_once():
    world = Watched()
    old, new = world.coordinators
    elect(world)
    node = enter(world, old)
    world.look(new)
    assert world.resign(old)
    elect(world, 1)
    change(world, new)
    assert world.publish(node)
    assert world.report(node)
    assert world.lose(world.under_way(Renewal, node))
    assert world.connect(node, new)
    assert ask(world, node) is Grant
    assert settled(world) == [(node.node, SettledHow.APPLIED)]


def test_L8_the_floor_of_a_new_leader_is_read_after_winning():
    class ReadsTooEarly(Watched):
        early = Revision(1)

        def look(self, coordinator):
            self.early = self.latest
            return super().look(coordinator)

        def take_office(self, coordinator):
            latest, self.latest = self.latest, self.early
            try:
                return super().take_office(coordinator)
            finally:
                self.latest = latest

    def script(world):
        old, new = world.coordinators
        elect(world)
        node = enter(world, old)
        wait_out(world, old, 4 * SECOND_NS)
        # The challenger has seen the last beat; the old leader still has time for one statement.
        world.look(new)
        change(world, old)
        assert settled(world) == [(node.node, SettledHow.FENCED)]
        world.advance(3 * SECOND_NS)
        assert world.campaign(new)
        assert world.take_office(new)
        assert world.connect(node, new)
        return ask(world, node)

    assert script(Watched()) is RenewalRefused
    # The oracle counts the floor from the store, not from what the leader read: the grant itself is the violation.
    caught("INV-LEASE-2", script, Parts(), ReadsTooEarly)
    with pytest.raises(InvariantViolated, match="INV-BARRIER-1"):
        script(ReadsTooEarly(invariants=named("INV-BARRIER-1")))


# ---------------------------------------------------------------- L9


def restart_with_an_old_view(world):
    leader = elect(world)
    node = enter(world, leader)
    old = world.latest
    change(world, leader)
    assert world.publish(node)
    assert world.report(node)
    assert ask(world, node) is Grant
    assert len(world.proceeded) == 1
    # Between PROCEED and the final commit the node restarts, from a vault that lags.
    again = restart(world, node, view=old)
    wait_out(world, leader)
    assert world.join(again, leader)
    assert world.connect(again, leader)
    return again, ask(world, again)


def test_L9_restart_during_a_ddl():
    world = Watched()
    node, answer = restart_with_an_old_view(world)
    assert answer is RenewalRefused
    assert serve(world, node) is None
    assert world.publish(node)
    assert world.report(node)
    assert ask(world, node) is Grant
    assert serve(world, node) == world.latest
    caught("INV-LEASE-2", restart_with_an_old_view, Parts(grantor=broken.NoFloor))


def test_L9_join_waits_for_the_older_incarnation():
    world = Watched()
    leader = elect(world)
    node = enter(world, leader)
    clone = world.start(node.node)
    assert not world.join(clone, leader)
    wait_out(world, leader, 3 * SECOND_NS)
    assert not world.join(clone, leader)
    wait_out(world, leader, 600_000_000)
    assert world.join(clone, leader)
    # The older one is told so, and is fenced whatever it does.
    send_renewal(world, node)
    refused = answer_under_way(world, node, world.under_way(Renewal, node))
    assert refused.message.code == "SUPERSEDED"
    assert serve(world, node) is None


def test_L9_what_an_older_incarnation_reported_does_not_count():
    def script(world):
        leader = elect(world)
        node = enter(world, leader)
        old = world.latest
        assert world.append(leader)
        assert world.publish(node)
        assert world.report(node)
        assert ask(world, node) is Grant
        assert world.surrender(node)
        assert world.drained(node)
        assert world.deliver(world.network[-1])
        again = restart(world, node, view=old)
        assert world.join(again, leader)
        assert world.connect(again, leader)
        assert ask(world, again) is Grant
        assert world.open_barrier(leader)
        return len(world.proceeded)

    assert script(Watched()) == 0
    caught("INV-BARRIER-1", script, Parts(grantor=broken.KeepsReports))


def test_L9_a_surrender_waits_until_all_is_drained():
    class Hasty(Watched):
        def drained(self, process):
            guards, process.guards = process.guards, []
            done = super().drained(process)
            process.guards = guards
            return done

    def script(world):
        leader = elect(world)
        node = enter(world, leader)
        run = world.begin_guard(node)
        change(world, leader)
        assert world.surrender(node)
        assert node.lease is NO_LEASE
        hasty = world.drained(node)
        if hasty:
            assert world.deliver(world.network[-1])
        while run in node.guards:
            assert world.advance_guard(run)
        if not hasty:
            assert world.drained(node)
            assert world.deliver(world.network[-1])
        assert settled(world) == [(node.node, SettledHow.SURRENDERED)]

    script(Watched())
    script(Hasty())  # the guard notices by itself that the lease was given back
    caught("INV-BARRIER-1", script, Parts(guard=broken.guard_that_never_looks_back), Hasty)


# ---------------------------------------------------------------- L10


def duration_shortened_before_a_new_leader(world):
    old, new = world.coordinators
    elect(world)
    assert world.set_duration(old, 60 * SECOND_NS)
    node = enter(world, old)
    assert world.set_duration(old, SECOND_NS)
    world.look(new)
    assert world.resign(old)
    elect(world, 1)
    change(world, new)
    wait_out(world, new, 30 * SECOND_NS)
    return node


def test_L10_the_lease_duration_was_changed():
    world = Watched()
    node = duration_shortened_before_a_new_leader(world)
    assert not world.proceeded
    assert serve(world, node) == 1
    wait_out(world, world.coordinators[1], 33 * SECOND_NS)
    assert settled(world) == [(node.node, SettledHow.FENCED)]
    assert serve(world, node) is None
    caught("INV-LEASE-3", duration_shortened_before_a_new_leader, Parts(grantor=broken.ForgetsLongerDurations))
