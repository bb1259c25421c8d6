"""Nodes that are away for longer than replace_after: others take their buckets, with nothing typed."""

import asyncio

from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import SimulatedNode
from tests.sim.data_words import Ground, simulate
from tests.sim.test_copies import buckets

AFTER_S = 20


async def table_on_two(ground: Ground) -> tuple[SimulatedNode, SimulatedNode, SimulatedNode]:
    """A table with a bucket on two nodes; the nodes, the third one last."""
    await ground.cluster.sql(f"ALTER CLUSTER SET replace_after = '{AFTER_S}s'")
    await ground.create(replication=2)
    await ground.write(30)
    (pair,) = ground.in_sync()
    (third,) = {1, 2, 3}.difference(pair)
    return ground.node(pair[0]), ground.node(pair[1]), ground.node(third)


def numbers(*nodes: SimulatedNode) -> set[int]:
    return {one.published.node for one in nodes}


def holders(ground: Ground) -> set[int]:
    return {node for one in ground.manifest() for node in one.holders}


def placed(ground: Ground) -> list[tuple[set[int], tuple[int, ...]]]:
    """The replicas and the retired nodes of each bucket."""
    return [(set(one.replicas), one.retired) for one in buckets(ground)]


async def replacing(ground: Ground) -> None:
    """Returns once a bucket has a replica more than its table wants."""
    await ground.wait_for(lambda: [len(one.replicas) for one in buckets(ground)] == [3])


async def at_rest(ground: Ground) -> None:
    """Returns once nothing could be due any more."""
    await asyncio.sleep(4 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)


def test_the_buckets_of_a_node_that_stays_away_are_whole_again_and_it_gives_them_up_when_it_is_back():
    async def scenario(ground: Ground) -> None:
        stays, lost, other = await table_on_two(ground)
        await lost.kill()
        await ground.write(30)
        await ground.wait_for(lambda: placed(ground) == [(numbers(stays, other), ())])
        assert holders(ground) == numbers(stays, other)
        before = await ground.read()
        assert lost.data.disk.listing()
        lost.start(ground.group)
        await ground.wait_for(lambda: not lost.data.disk.listing())
        assert holders(ground) == numbers(stays, other)
        assert await ground.read() == before

    simulate(scenario)


def test_a_node_that_is_back_in_time_keeps_its_buckets():
    async def scenario(ground: Ground) -> None:
        stays, lost, _ = await table_on_two(ground)
        for _ in range(3):
            await lost.kill()
            await asyncio.sleep(AFTER_S / 2)
            lost.start(ground.group)
            await ground.wait_for(lambda: lost.guard() is not None)
            await at_rest(ground)
        assert [set(one.replicas) for one in buckets(ground)] == [numbers(stays, lost)]

    simulate(scenario)


def test_a_node_that_is_back_before_its_replacement_is_whole_keeps_its_buckets_and_the_copy_goes():
    async def scenario(ground: Ground) -> None:
        stays, lost, other = await table_on_two(ground)
        ground.cluster.network.partition(other.name, stays.name)
        await lost.kill()
        await replacing(ground)
        lost.start(ground.group)
        await ground.wait_for(lambda: placed(ground) == [(numbers(stays, lost), ())])
        ground.cluster.network.heal_all()
        await at_rest(ground)
        assert holders(ground) == numbers(stays, lost)
        assert not other.data.disk.listing()

    simulate(scenario)


def test_the_last_holder_of_a_bucket_is_never_given_up():
    async def scenario(ground: Ground) -> None:
        stays, lost, other = await table_on_two(ground)
        await stays.kill()
        await ground.write(30)
        stays.start(ground.group)
        ground.cluster.network.partition(stays.name, lost.name)
        await ground.wait_for(lambda: stays.guard() is not None)
        await lost.kill()  # what was written last is on its disk alone
        await replacing(ground)
        await asyncio.sleep(2 * AFTER_S)
        assert [set(one.replicas) for one in buckets(ground)] == [numbers(stays, lost, other)]
        lost.start(ground.group)
        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: [len(one.replicas) for one in buckets(ground)] == [2])
        assert (await ground.read()).total() == 60

    simulate(scenario)


def test_a_new_leader_counts_anew_and_where_nodes_are_never_replaced_nothing_moves():
    async def scenario(ground: Ground) -> None:
        stays, lost, _ = await table_on_two(ground)
        await lost.kill()
        await asyncio.sleep(AFTER_S - HOUSEKEEPING_INTERVAL_NS / SECOND_NS)
        await ground.cluster.kill_coordinator()
        await ground.cluster.start_coordinator(ground.group)
        await asyncio.sleep(AFTER_S - HOUSEKEEPING_INTERVAL_NS / SECOND_NS)
        assert [set(one.replicas) for one in buckets(ground)] == [numbers(stays, lost)]
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = 'never'")
        await asyncio.sleep(4 * AFTER_S)
        assert [set(one.replicas) for one in buckets(ground)] == [numbers(stays, lost)]
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = '5s'")
        await replacing(ground)

    simulate(scenario)
