"""Replicas of a bucket lie in different racks where there are enough, also after nodes were put up elsewhere."""

from tests.sim.data_words import Ground, simulate
from tests.sim.test_copies import buckets


async def put_up(ground: Ground, number: int, rack: str) -> None:
    """Starts a node in a rack."""
    node = ground.node(number)
    await node.stop()
    node.rack = rack
    node.start(ground.group)
    await ground.wait_for(lambda: node.guard() is not None)


def racks(ground: Ground) -> list[set[str]]:
    """Of the replicas of each bucket; none while a bucket is moving."""
    return [
        {ground.node(number).rack for number in one.replicas}
        for one in buckets(ground)
        if not one.retired and len(one.replicas) == 2 and set(one.replicas) == set(one.in_sync)
    ]


def test_buckets_follow_a_change_of_racks_and_new_ones_are_spread_at_once():
    async def scenario(ground: Ground) -> None:
        for number in (1, 2, 3):
            await put_up(ground, number, "a" if number < 3 else "b")
        await ground.create(replication=2, buckets=4)
        assert racks(ground) == [{"a", "b"}] * 4
        await ground.write(40)
        before = await ground.read()
        await put_up(ground, 1, "b")  # node 2 alone is in the other rack now
        await ground.wait_for(lambda: racks(ground) == [{"a", "b"}] * 4)
        assert all(2 in one.replicas for one in buckets(ground))
        assert {len(one.holders) for one in ground.manifest()} == {2}
        assert await ground.read() == before

    simulate(scenario)
