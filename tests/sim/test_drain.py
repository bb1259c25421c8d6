"""Nodes that drain give up their buckets while rows are read and written; what comes in between costs no row."""

import asyncio
from collections.abc import Callable

import pytest

from leasehold.core.data.node_removal import remove_node
from leasehold.core.words.messages import NodeStatus
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import AT_LENGTH, SimulatedNode
from tests.sim.data_words import TABLE, Ground, simulate
from tests.sim.test_copies import buckets, set_replication


async def alter(ground: Ground, node: int, what: str) -> None:
    await ground.cluster.sql(f"ALTER NODE {node} {what}")


async def status(ground: Ground, node: int) -> NodeStatus:
    return next(one for one in (await ground.cluster.status()).nodes if one.id == node)


async def until(ground: Ground, node: int, holds: Callable[[NodeStatus], bool]) -> None:
    for _ in range(600):
        if holds(await status(ground, node)):
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"node {node} is still {await status(ground, node)}")


async def empty(ground: Ground, node: int) -> None:
    """Returns once nothing of any bucket lies on a node."""
    await until(ground, node, lambda one: one.stage == "DRAINED")
    disk = ground.node(node).data.disk
    await ground.wait_for(lambda: not disk.listing())


class Load:
    """Writes and reads until it has to `end`; no write and no scan fails."""

    def __init__(self, ground: Ground) -> None:
        self.counts: list[int] = []
        self._is_over = False
        self._task = ground.group.create_task(self._run(ground))

    async def _run(self, ground: Ground) -> None:
        while not self._is_over:
            await ground.write(5)
            self.counts.append((await ground.read()).total())

    async def end(self) -> None:
        """A write that broke off would leave its transaction open for minutes."""
        self._is_over = True
        await self._task
        assert self.counts == sorted(self.counts)
        assert self.counts


def names_in_manifest(ground: Ground) -> set[int]:
    return {node for one in ground.manifest() for node in one.holders}


def test_a_node_is_drained_under_load_then_stopped_and_removed():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2, buckets=6)
        for _ in range(3):
            await ground.write(30)
        load = Load(ground)
        await alter(ground, 1, "DRAIN")
        assert (await status(ground, 1)).stage == "DRAINING"
        await empty(ground, 1)
        await load.end()
        assert names_in_manifest(ground) == {2, 3}
        assert {len(one.in_sync) for one in buckets(ground)} == {2}
        before = await ground.read()
        await ground.node(1).stop()
        removed = await remove_node(ground.cluster.client(), "1", AT_LENGTH)
        assert (removed.buckets, removed.lost) == (0, 0)
        assert await ground.read() == before

    simulate(scenario)


def test_each_node_in_turn_is_drained_stopped_and_comes_back():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1, buckets=3)
        await ground.write(30)
        load = Load(ground)
        for number in (1, 2, 3):
            await alter(ground, number, "DRAIN")
            await empty(ground, number)
            node: SimulatedNode = ground.node(number)
            await node.stop()
            await ground.write(5)
            node.start(ground.group)
            await ground.wait_for(lambda node=node: node.guard() is not None)
            await alter(ground, number, "UNDRAIN")
        await load.end()

    simulate(scenario)


def test_a_node_that_is_undrained_in_the_middle_keeps_its_buckets_and_the_unfinished_copies_go():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        await ground.write(30)
        (pair,) = ground.in_sync()
        (third,) = {1, 2, 3}.difference(pair)
        for other in pair:
            ground.cluster.network.partition(ground.node(third).name, ground.node(other).name)
        await alter(ground, pair[0], "DRAIN")
        await ground.wait_for(lambda: [len(one.replicas) for one in buckets(ground)] == [3])
        await alter(ground, pair[0], "UNDRAIN")
        await ground.wait_for(lambda: [(one.replicas, one.retired) for one in buckets(ground)] == [(pair, ())])
        assert {one.holders for one in ground.manifest()} == {pair}

    simulate(scenario)


def test_the_drain_of_a_node_goes_on_with_the_next_leader_and_with_its_next_process():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2, buckets=3)
        await ground.write(30)
        before = await ground.read()
        node = ground.node(1)
        await alter(ground, 1, "DRAIN")
        await ground.cluster.kill_coordinator()
        await node.kill()
        await ground.cluster.start_coordinator(ground.group)
        await ground.wait_for(lambda: not any(1 in one.replicas for one in buckets(ground)))
        node.start(ground.group)
        await ground.wait_for(lambda: node.guard() is not None)
        await empty(ground, 1)
        assert await ground.read() == before

    simulate(scenario)


def test_a_drain_waits_for_no_turn_of_the_housekeeping():
    """Neither before copies are made nor before replicas go."""

    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2, buckets=6)
        await ground.write(30)
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        await alter(ground, 1, "DRAIN")
        await until(ground, 1, lambda one: one.stage == "DRAINED")
        assert now_s() - began_s < HOUSEKEEPING_INTERVAL_NS / SECOND_NS

    simulate(scenario)


def test_a_node_that_is_away_and_alone_holds_rows_is_not_drained():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(30)
        (holder,) = names_in_manifest(ground)
        node = ground.node(holder)
        await node.kill()
        await until(ground, holder, lambda one: one.state != "ACTIVE")
        with pytest.raises(Refused) as caught:
            await alter(ground, holder, "DRAIN")
        assert (caught.value.code, TABLE in caught.value.text) == ("ONLY_HOLDER", True)
        node.start(ground.group)
        await ground.wait_for(lambda: node.guard() is not None)
        await alter(ground, holder, "DRAIN")
        await empty(ground, holder)
        assert (await ground.read()).total() == 30

    simulate(scenario)


def test_a_table_wants_no_more_copies_than_nodes_that_may_have_buckets():
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        await alter(ground, 1, "DRAIN")
        with pytest.raises(Refused) as caught:
            await set_replication(ground, 3)
        assert caught.value.code == "TOO_FEW_NODES"
        with pytest.raises(Refused) as caught:
            await alter(ground, 2, "DRAIN")
        assert caught.value.code == "TOO_FEW_NODES"

    simulate(scenario)
