"""R3 in whole clusters, with every invariant held: somebody compacts who asks nobody, and nodes get in all the same."""

import itertools

import pytest

from leasehold.core.words.messages import AskSnapshot, SnapshotEnd
from leasehold.metastorage.contract import StorageStatus
from tests.sim.recovery_words import (
    case_of,
    compact,
    ends,
    history,
    leave_behind,
    reach,
    restart_leader,
    serving,
    settled,
    simulate,
    store_holds,
    topology,
)


async def elect_again_and_again(cluster, group):
    """Makes revisions beyond the newest change; returns that."""
    for _ in range(3):
        await restart_leader(cluster, group)
        await cluster.wait_for(lambda: cluster.leading)
    latest = cluster.store.status().latest
    assert cluster.store.newest > latest
    return latest


def test_R3_a_node_that_is_overtaken_again_and_again_gets_in_once_it_is_left_alone():
    """A compaction that knows of no holds: by the time it has leapt, what follows is gone, three times over."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        hold = await reach(cluster, group, node, SnapshotEnd)
        for number in range(3):
            await history(cluster, 3, of=f"more{number}")
            await compact(cluster)
            cluster.network.release(hold)
            hold = cluster.network.hold(*ends(SnapshotEnd, node), lambda message: isinstance(message, SnapshotEnd))
            leapt = node.agent.durable.revision
            await cluster.wait_for(lambda at=leapt: node.agent.durable.revision > at)
        assert node.guard() is None
        cluster.network.release(hold)
        await serving(cluster, node)
        await settled(cluster)
        assert node.disk.state.items == store_holds(cluster)

    simulate(scenario)


@pytest.mark.parametrize("what", ["cut off", "away"])
def test_R3_a_node_gets_in_where_others_compact_beyond_the_newest_change(what):
    """Elections under a lock take revisions, and nobody writes."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        incarnation = node.published.incarnation
        if what == "away":
            await settled(cluster)
            await node.kill()
        else:
            for one in cluster.coordinators:
                cluster.network.partition(node.name, one.name)
        await cluster.wait_for(lambda: topology(cluster)[1] == ["n2", "n3"])
        latest = await elect_again_and_again(cluster, group)
        await compact(cluster)
        assert cluster.store.status() == StorageStatus(
            cluster_id=cluster.nodes[1].published.cluster_id, latest=latest, minimum=cluster.store.newest
        )
        if what == "away":
            node.start(group)
        else:
            cluster.network.heal_all()
        await serving(cluster, *cluster.nodes)
        assert node.published.incarnation == incarnation + (what == "away")
        assert await case_of(cluster, node) == "c"

    simulate(scenario)


def test_R3_nodes_follow_the_next_leader_where_others_compact_beyond_the_newest_change():
    """They have all there is, so nobody takes a snapshot."""

    async def scenario(cluster, group):
        await settled(cluster)
        asked = []
        for node, one in itertools.product(cluster.nodes, cluster.coordinators):
            cluster.network.hold(
                node.name, one.name, lambda message: isinstance(message, AskSnapshot) and asked.append(message)
            )
        await elect_again_and_again(cluster, group)
        (one,) = cluster.coordinators
        await one.kill()
        await compact(cluster)
        await one.start(group)
        await cluster.wait_for(lambda: cluster.leading)
        term = cluster.leading.leader.grantor.term
        await cluster.wait_for(lambda: all(node.published.lease.term == term for node in cluster.nodes))
        await cluster.sql("CREATE DATABASE later")
        await settled(cluster)
        assert asked == []

    simulate(scenario)
