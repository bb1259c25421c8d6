"""I14: whose clock counts. No reading of a clock is sent to another machine. Of what is stored, only commit times show
the clock of a leader, and no node gets them."""

import asyncio

import pytest

from leasehold.core.words import keys, messages
from leasehold.core.words.codec import encode
from leasehold.core.words.commit_times import decode_commit_time
from leasehold.core.words.messages.base import BaseMessage
from leasehold.ids import Revision
from leasehold.limits.membership import TOPOLOGY_GRACE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.loop import run_virtual
from tests.sim.data_words import TABLE, Ground

DAY_NS = 24 * 3600 * SECOND_NS


class Over(Exception):
    pass


def test_I14_no_message_has_a_field_for_a_reading_of_a_clock():
    """Durations are sent, instants never: a name that ends in `_ns` must be one of these."""
    durations = {
        "after_ns",
        "ago_ns",
        "at_most_ns",
        "away_ns",
        "bound_ns",
        "clock_ahead_ns",
        "duration_ns",
        "elapsed_ns",
        "lease_remaining_ns",
        "left_ns",
        "remaining_ns",
        "renew_every_ns",
        "replaced_in_ns",
        "running_ns",
        "silent_ns",
        "timeout_ns",
        "wait_ns",
        "worst_case_ns",
    }
    sent = {
        name
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, BaseMessage)
        for name in kind.__struct_fields__
        if name.endswith(("_ns", "_us", "_ms", "_s", "_at"))
    }
    assert sent
    instants = {
        "earliest_us",  # what rows are compared with, from the meta storage as the leader wrote it
        "as_of_us",  # what a person asks for
        "committed_us",  # what a person is shown beside changed rows
    }
    assert sent <= {*durations, *instants}


def told(*, nodes_ns=0, coordinators_ns=0, order=1):
    """All that was said, in order, all that was stored, and when it was committed, where the clocks are set so far
    ahead: the second one of two twice as far, or in the other `order` the first one."""
    said, stored, times_us = [], [], []

    async def main(random):
        cluster = SimulatedCluster(random, nodes=3, coordinators=2)
        for machines, offset_ns in ((cluster.nodes, nodes_ns), (cluster.coordinators, coordinators_ns)):
            for number, machine in enumerate(machines[::order], 1):
                machine.clock = SimulatedClock(cluster.loop, offset_ns=number * offset_ns)
        everybody = [one.name for one in (*cluster.nodes, *cluster.coordinators)]
        for one in everybody:
            for other in everybody:
                cluster.network.hold(one, other, lambda message: said.append(encode(message)))
        cluster.network.fate = lambda _src, _dst, message: said.append(encode(message))
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await a_life(cluster, group)
                raise Over
        except* Over:
            for batch in cluster.store.since(Revision(0)):
                changes = {one.key: one.value for one in batch.changes}
                if (time := changes.pop(keys.COMMIT_TIME, None)) is not None:
                    times_us.append(decode_commit_time(time))
                stored.append((batch.revision, changes))

    run_virtual(main, 1)
    return said, stored, times_us


async def a_life(cluster, group):
    """Rows, a node that comes back, a leader that goes, a table that goes."""
    ground, node = Ground(cluster, group), cluster.nodes[0]
    await ground.create(replication=3)
    await ground.write(10)
    await node.kill()
    await ground.write(10)
    node.start(group)
    await cluster.wait_for(node.guard)
    await cluster.leading.kill()
    await cluster.sql(f"ALTER TABLE {TABLE} DROP COLUMN b")
    await cluster.wait_for(lambda: all(len(one.holders) == 3 for one in ground.manifest()))
    await cluster.sql(f"DROP TABLE {TABLE}")
    await asyncio.sleep(2 * TOPOLOGY_GRACE_NS / SECOND_NS)


@pytest.mark.parametrize("whose", ["nodes_ns", "coordinators_ns"])
def test_I14_what_is_said_and_stored_is_the_same_to_the_byte_whatever_the_clocks_show(whose):
    said, stored, times_us = told()
    assert len(said) > 300
    assert any(key.startswith(keys.SEGMENTS) for _, changes in stored for key in changes)
    said_then, stored_then, times_us_then = told(**{whose: 100 * DAY_NS})
    assert (said_then, stored_then) == (said, stored)
    assert (times_us_then == times_us) == (whose == "nodes_ns"), "only commit times show a clock: that of the leader"


def test_I14_commit_times_never_decrease_when_the_next_leader_is_behind():
    first, second = (told(coordinators_ns=100 * DAY_NS, order=order)[2] for order in (1, -1))
    for times_us in (first, second):
        assert len(times_us) > 20
        assert times_us == sorted(times_us)
    ahead, behind = sorted((first, second), key=lambda one: one[-1] - one[0], reverse=True)
    assert ahead[-1] - ahead[0] > 99 * DAY_NS // 1000, "its second leader has a clock that is ahead by so much"
    assert len(set(ahead)) > len(set(behind)) > 5


def test_I14_a_clock_that_leaps_ahead_costs_its_own_node_at_most_its_lease():
    async def main(random):
        cluster = SimulatedCluster(random, nodes=3)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                fast, *others = cluster.nodes
                held = {one.name: one.published for one in cluster.nodes}
                for _ in range(20):
                    fast.clock.jump(DAY_NS)
                    for _ in range(100):
                        assert all(one.guard() for one in others)
                        await asyncio.sleep(0.01)
                await cluster.wait_for(fast.guard, at_most_ns=SECOND_NS)
                status = await cluster.status()
                assert {(one.stage, one.state, one.incarnation) for one in status.nodes} == {("MEMBER", "ACTIVE", 1)}
                assert {one.name: one.published for one in cluster.nodes} == held, "the same processes"
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)
