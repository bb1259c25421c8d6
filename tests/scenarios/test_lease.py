"""The weak points of a lease that the field knows, each with its interleaving, against the production objects."""

import pytest

from leasehold.core.words.messages import Grant, RenewalRefused
from leasehold.core.words.records import SettledHow
from leasehold.ids import Revision
from leasehold.limits.lease import DRIFT_PPM
from leasehold.limits.units import SECOND_NS
from leasehold.testing.leases.actors import LocalClock
from leasehold.testing.leases.ground import Parts
from tests.scenarios.scripts import (
    Watched,
    answer_under_way,
    ask,
    caught,
    change,
    elect,
    enter,
    hold_office,
    send_renewal,
    serve,
    settled,
    wait_out,
)
from tests.sim import broken

# ---------------------------------------------------------------- L1


def renewal_held_in_the_network(world):
    leader = elect(world)
    node = enter(world, leader)
    held = send_renewal(world, node)
    change(world, leader)
    wait_out(world, leader)
    assert settled(world) == [(node.node, SettledHow.FENCED)]
    wait_out(world, leader, 19 * SECOND_NS)
    answer = answer_under_way(world, node, held)
    world.deliver(answer)
    return node, answer


def grant_held_in_the_network(world):
    leader = elect(world)
    node = enter(world, leader)
    held = answer_under_way(world, node, send_renewal(world, node))
    assert isinstance(held.message, Grant)
    change(world, leader)
    wait_out(world, leader, 19 * SECOND_NS)
    assert settled(world) == [(node.node, SettledHow.FENCED)]
    assert world.deliver(held)
    return node


def test_L1_invisible_renewal():
    world = Watched()
    node, answer = renewal_held_in_the_network(world)
    assert isinstance(answer.message, RenewalRefused)
    assert answer.message.code == "BEHIND"
    assert serve(world, node) is None


def test_L1_invisible_grant():
    world = Watched()
    node = grant_held_in_the_network(world)
    assert node.lease.deadline_ns < world.now_ns(node)
    assert serve(world, node) is None
    caught("INV-LEASE-1", grant_held_in_the_network, Parts(holder=broken.StampsOnReceipt))


# ---------------------------------------------------------------- L2


def test_L2_check_then_set_at_the_holder():
    # The grant is there, its thread pauses before it is stored, and resumes after the barrier has proceeded.
    def script(world):
        leader = elect(world)
        node = enter(world, leader)
        grant = answer_under_way(world, node, send_renewal(world, node))
        world.switch(node, "paused", on=True)
        change(world, leader)
        wait_out(world, leader)
        assert settled(world) == [(node.node, SettledHow.FENCED)]
        world.switch(node, "paused", on=False)
        assert world.deliver(grant)
        return serve(world, node)

    assert script(Watched()) is None
    caught("INV-LEASE-1", script, Parts(holder=broken.StampsOnReceipt))


def test_L2_check_then_set_at_the_leader():
    # The leader has read its clock for a renewal, pauses, proceeds with the barrier, and only then takes the renewal.
    world = Watched()
    leader = elect(world)
    node = enter(world, leader)
    late = send_renewal(world, node)
    wait_out(world, leader, SECOND_NS)
    change(world, leader)
    wait_out(world, leader)
    assert len(world.proceeded) == 1
    before = leader.grantor.held(node.node)
    answer = answer_under_way(world, node, late)
    assert isinstance(answer.message, RenewalRefused)
    assert leader.grantor.held(node.node).bound_ns == before.bound_ns


def test_L2_check_then_set_at_the_guard():
    # The request has read its lease; it pauses; its clock reading comes after the barrier has proceeded.
    world = Watched()
    leader = elect(world)
    node = enter(world, leader)
    run = world.begin_guard(node)
    world.switch(node, "paused", on=True)
    change(world, leader)
    wait_out(world, leader)
    assert len(world.proceeded) == 1
    world.switch(node, "paused", on=False)
    assert world.advance_guard(run)
    assert run not in node.guards
    assert not world.oracle.serves


# ---------------------------------------------------------------- L3


def test_L3_a_pull_does_not_renew():
    world = Watched()
    leader = elect(world)
    node = enter(world, leader)
    for _ in range(3):
        world.append(leader)
    lease = node.lease
    # The link dies while the snapshot is pulled; the pull ends late and in good order.
    node.stream = None
    wait_out(world, leader, 3 * SECOND_NS)
    assert world.publish(node, Revision(4))
    assert world.report(node)
    assert node.lease == lease
    assert serve(world, node) is None


# ---------------------------------------------------------------- L5


def node_that_cannot_apply(world):
    leader = elect(world)
    node = enter(world, leader)
    world.switch(node, "stuck", on=True)
    began_ns = world.oracle.real_ns
    change(world, leader)
    answers = []
    for _ in range(8):
        send_renewal(world, node)
        hold_office(world, leader)
        answers.append(ask(world, node))
        world.judge(leader)
    return node, answers, began_ns


def test_L5_heartbeat_fine_broadcast_stuck():
    world = Watched()
    node, answers, began_ns = node_that_cannot_apply(world)
    assert answers == [RenewalRefused] * 8
    assert settled(world) == [(node.node, SettledHow.FENCED)]
    assert world.proceeded[0][0] - began_ns <= 4 * SECOND_NS
    assert serve(world, node) is None
    # Once it applies, it is let in again at once.
    world.switch(node, "stuck", on=False)
    assert world.publish(node)
    assert world.report(node)
    assert ask(world, node) is Grant
    assert serve(world, node) == world.latest
    caught("INV-LEASE-2", node_that_cannot_apply, Parts(grantor=broken.FloorOfElectionOnly))


# ---------------------------------------------------------------- L6


def pause_in_the_guard(world):
    leader = elect(world)
    node = enter(world, leader)
    run = world.begin_guard(node)
    change(world, leader)
    assert world.publish(node)
    assert world.report(node)
    assert ask(world, node) is Grant
    assert len(world.proceeded) == 1
    while run in node.guards:
        assert world.advance_guard(run)
    return world.oracle.serves[-1].view


def test_L6_pause_between_check_and_use():
    assert pause_in_the_guard(Watched()) == 2
    caught("INV-BARRIER-1", pause_in_the_guard, Parts(guard=broken.guard_view_first))


# ---------------------------------------------------------------- L7


@pytest.mark.parametrize("delay_ns", [1_000, SECOND_NS // 2, SECOND_NS])
def test_L7_clocks(delay_ns):
    def script(world):
        leader = elect(world)
        node = enter(world, leader)
        renewal = send_renewal(world, node)
        world.advance(delay_ns)
        hold_office(world, leader)
        assert world.deliver(answer_under_way(world, node, renewal))

    clocks = [LocalClock(77, -DRIFT_PPM), LocalClock(0, 0), LocalClock(5 * SECOND_NS, DRIFT_PPM), LocalClock(0, 0)]
    script(Watched(clocks=clocks, parts=Parts(settings=broken.NO_MARGIN)))
    undrifted = broken.BREAKS["no drift factor"].parts
    if delay_ns == 1_000:
        caught("INV-LEASE-1", script, undrifted, lambda parts: Watched(clocks=clocks, parts=parts))


# ---------------------------------------------------------------- L11


def test_L11_reordered_messages():
    world = Watched()
    leader = elect(world)
    node = enter(world, leader)
    first = answer_under_way(world, node, send_renewal(world, node))
    second = answer_under_way(world, node, send_renewal(world, node))
    world.double(second)
    assert world.deliver(second)
    lease = node.lease
    assert lease.sequence == 3
    assert world.deliver(first)
    assert world.deliver(world.network[-1])
    assert node.lease == lease
    change(world, leader)
    assert world.publish(node)
    assert not world.publish(node, Revision(1))
    assert node.view.revision == 2


def test_L11_a_grant_of_an_older_term_comes_after_one_of_a_newer():
    world = Watched()
    old, new = world.coordinators
    elect(world)
    node = enter(world, old)
    late = answer_under_way(world, node, send_renewal(world, node))
    world.look(new)
    assert world.resign(old)
    elect(world, 1)
    assert world.connect(node, new)
    assert ask(world, node) is Grant
    lease = node.lease
    assert lease.term == 2
    assert world.deliver(late)
    assert node.lease == lease


# ---------------------------------------------------------------- L13


def paused_past_its_deadline(world, *, timer_first=False):
    leader = elect(world)
    node = enter(world, leader)
    world.switch(node, "paused", on=True)
    change(world, leader)
    wait_out(world, leader)
    assert len(world.proceeded) == 1
    # It wakes up with a request waiting; its timers are as late as everything else.
    world.switch(node, "paused", on=False)
    if timer_first:
        assert world.timer(node)
    return serve(world, node)


def test_L13_the_flag_instead_of_the_clock():
    assert paused_past_its_deadline(Watched()) is None
    assert paused_past_its_deadline(Watched(), timer_first=True) is None
    by_flag = Parts(guard=broken.guard_by_flag, holder=broken.RaisesAFlag)
    caught("INV-BARRIER-1", paused_past_its_deadline, by_flag)
    # The audit of the serve log alone would have noticed too, and a timer in time would have hidden it.
    world = Watched(parts=by_flag, invariants=())
    assert paused_past_its_deadline(world) == 1
    assert len(world.oracle.audit()) == 1
    assert paused_past_its_deadline(Watched(parts=by_flag), timer_first=True) is None
