"""The logical topology in whole clusters, with every invariant held: who comes, goes and moves, and who knows of it."""

import asyncio

import pytest

from leasehold.core.words import keys
from leasehold.limits.membership import TOPOLOGY_GRACE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from tests.scenarios.removal_words import remove
from tests.sim.data_words import Ground as Tables
from tests.sim.recovery_words import (
    case_of,
    compact,
    history,
    leave_behind,
    restart_leader,
    serving,
    settled,
    simulate,
    topology,
)


@pytest.mark.parametrize("compacted", [False, True], ids=["replayed", "leapt"])
def test_who_came_went_moved_and_was_removed_while_a_node_was_away_is_known_to_it_at_once(compacted):
    """One more goes in the same instant as the leader, so that no leader ever sees its connection end."""

    async def scenario(cluster, group):
        away, moved, removed, unseen, new = cluster.nodes
        await Tables(cluster, group).create(buckets=40)  # many keys, so that a replay is shorter
        for node in (away, moved, removed):
            await node.kill()
        moved.start(group, port=9555)
        new.start(group)
        await serving(cluster, moved, new)
        await remove(cluster, removed.name)
        await unseen.kill()
        await restart_leader(cluster, group)
        await cluster.wait_for(lambda: topology(cluster)[1] == ["n2", "n5"])
        if compacted:
            await compact(cluster)
        away.start(group)
        await serving(cluster, away)
        assert await case_of(cluster, away) == ("c" if compacted else "b")
        shown, known = away.guard().view, {one.name: one for one in away.guard().view.nodes.values()}
        assert (shown.counters.topology, sorted(name for name in known if known[name].member)) == topology(cluster)
        assert [known[name].removed for name in sorted(known)] == [False, False, True, False, False]
        assert (known["n2"].address, known["n2"].incarnation) == ("n2:9555", 2)

    simulate(scenario, nodes=5, late=1)


def test_the_version_of_the_topology_counts_who_comes_and_goes_and_outlives_its_leaders():
    async def scenario(cluster, group):
        assert topology(cluster) == (3, ["n1", "n2", "n3"])
        node = cluster.nodes[0]
        await node.kill()
        await cluster.wait_for(lambda: topology(cluster) == (4, ["n2", "n3"]))
        for _ in range(3):
            await restart_leader(cluster, group)
            await serving(cluster, *cluster.nodes[1:])
            assert topology(cluster) == (4, ["n2", "n3"]), "a leader that is new moves nobody"
        node.start(group)
        await serving(cluster, node)
        assert topology(cluster) == (5, ["n1", "n2", "n3"])
        await node.stop()
        await cluster.wait_for(lambda: topology(cluster) == (6, ["n2", "n3"]))
        await asyncio.sleep(3 * TOPOLOGY_GRACE_NS / SECOND_NS)
        assert topology(cluster) == (6, ["n2", "n3"])

    simulate(scenario)


def test_a_node_sees_itself_in_the_topology_once_it_has_recovered():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await leave_behind(cluster, node)
        node.start(group)
        await serving(cluster, node)
        mine = node.published.view.nodes[node.published.node]
        assert (mine.name, mine.member, mine.incarnation) == ("n1", True, 2)
        shown = next(one for one in (await cluster.status()).nodes if one.name == "n1")
        assert (shown.stage, shown.state) == ("MEMBER", "ACTIVE")
        assert shown.recovery is not None
        assert shown.recovery.case == "c"
        rows = await cluster.sql("SHOW NODES")
        (row,) = (dict(zip(rows.columns, one, strict=True)) for one in rows.rows if "n1" in one)
        assert row["stage"] == "MEMBER"

    simulate(scenario)


@pytest.mark.parametrize("way", ["both ways", "to the coordinator", "from the coordinator"])
def test_a_node_that_is_cut_off_for_long_leaves_and_enters_again_without_a_join(way):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        incarnation = node.published.incarnation
        ends = (COORDINATOR, node.name) if way == "from the coordinator" else (node.name, COORDINATOR)
        cluster.network.partition(*ends, both_ways=way == "both ways")
        await cluster.wait_for(lambda: topology(cluster)[1] == ["n2", "n3"])
        assert node.guard() is None
        await history(cluster, 3)
        await compact(cluster)
        cluster.network.heal_all()
        await serving(cluster, node)
        assert topology(cluster) == (5, ["n1", "n2", "n3"])
        assert node.published.incarnation == incarnation, "the same process"
        assert await case_of(cluster, node) == "c"

    simulate(scenario)


@pytest.mark.parametrize("crash", [False, True], ids=["killed", "crashed"])
def test_I19_a_node_under_another_address_keeps_its_id_its_buckets_and_its_place_in_each(crash):
    """Whoever fetches, forwards or reads learns of it by the watch: it alone has what is asked for then."""

    async def scenario(cluster, group):
        tables = Tables(cluster, group)
        await tables.create(replication=2, buckets=6)
        await tables.write(60)
        node = cluster.nodes[0]
        await settled(cluster)
        records = cluster.watch.oracle.history.records

        def buckets():
            return {key: (one.replicas, one.in_sync) for key, one in records.items() if key.startswith(keys.BUCKETS)}

        before, mine = buckets(), node.published.node
        assert any(mine in replicas for replicas, _ in before.values())
        await node.kill(silent=crash)
        if crash:
            node.crash(cluster.random)
        node.start(group, port=9555)
        await serving(cluster, node)
        await settled(cluster)
        assert node.published.node == mine
        assert buckets() == before
        for other in cluster.nodes[1:]:
            assert other.published.view.nodes[mine].address == "n1:9555"
        for other in cluster.nodes[1:]:  # each bucket has another replica, and at times that is this node alone
            await other.kill()
            assert sum((await tables.read()).values()) == 60
            other.start(group)
            await serving(cluster, other)
        await tables.write(60)
        assert sum((await tables.read()).values()) == 120

    simulate(scenario)
