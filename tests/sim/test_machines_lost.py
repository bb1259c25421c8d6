"""Machines lost for good in each phase of a repair and of a drain, and empty ones in their place: no row is lost, every
bucket has its copies again, and no copy too much stays."""

import asyncio
from collections.abc import Callable

import pytest

from leasehold.testing.cluster import SimulatedNode
from leasehold.testing.disk import SegmentDisk
from leasehold.testing.vault import VaultDisk
from tests.sim.data_words import Ground, simulate
from tests.sim.test_copies import buckets
from tests.sim.test_drain import alter

BUCKETS, COPIES = 4, 3
Phase = Callable[[Ground], bool]


def begun(_ground: Ground) -> bool:
    return True


def added(ground: Ground) -> bool:
    return any(len(one.replicas) > COPIES for one in buckets(ground))


def copied_in_part(ground: Ground) -> bool:
    return any(set(one.replicas) != set(one.in_sync) for one in buckets(ground)) and any(
        len(one.in_sync) > COPIES or one.retired for one in buckets(ground)
    )


def retired(ground: Ground) -> bool:
    return any(one.retired for one in buckets(ground))


PHASES: list[Phase] = [begun, added, copied_in_part, retired]


async def burn(ground: Ground, node: SimulatedNode) -> None:
    """A machine with everything on it is gone, without a word; nobody removes its id."""
    await node.kill(silent=True)
    node.disk, node.data.disk = VaultDisk(node.disk.latency_ns), SegmentDisk(node.data.disk.latency_ns)
    node.calls_itself = f"{node.name}-anew"


async def reached(ground: Ground, phase: Phase) -> None:
    """Returns at the first moment of a phase, or after it, if it is too short to be seen."""
    for _ in range(400):
        if phase(ground):
            return
        await asyncio.sleep(0.05)


def is_whole(ground: Ground, gone: set[int]) -> bool:
    return all(
        len(one.replicas) == COPIES
        and set(one.in_sync) == set(one.replicas)
        and not one.retired
        and gone.isdisjoint(one.replicas)
        for one in buckets(ground)
    )


async def filled(ground: Ground) -> None:
    """A table that has all its copies."""
    await ground.create(replication=COPIES, buckets=BUCKETS)
    for _ in range(3):
        await ground.write(30)
    await ground.wait_for(lambda: is_whole(ground, set()))


async def lost_and_whole_again(ground: Ground, victims: list[SimulatedNode], drained: set[int]) -> None:
    gone = {one.published.node for one in victims}
    for one in victims:
        await burn(ground, one)
    await ground.cluster.sql("ALTER CLUSTER SET replace_after = '5s'")
    for one in victims:
        one.start(ground.group)
    await ground.wait_for(lambda: is_whole(ground, gone | drained))
    assert (await ground.read()).total() == 90
    for segment in ground.manifest():
        replicas = next(one.replicas for one in buckets(ground) if one.bucket == segment.bucket)
        assert set(segment.holders) == set(replicas)

    for node in ground.cluster.nodes:
        if node.task is None:  # it was away, and comes back in the end
            node.start(ground.group)

    def no_copy_too_much() -> bool:
        return all(
            {node.published.node for node in ground.cluster.nodes if ground.holds(node, one)} == set(one.holders)
            for one in ground.manifest()
        )

    await ground.wait_for(no_copy_too_much)


@pytest.mark.parametrize("phase", PHASES)
def test_a_machine_is_lost_while_a_node_that_stays_away_is_replaced(phase: Phase) -> None:
    async def scenario(ground: Ground) -> None:
        await filled(ground)
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = '5s'")
        away, victim, *_ = ground.cluster.nodes
        number = away.published.node
        await away.kill()
        await reached(ground, phase)
        await lost_and_whole_again(ground, [victim], {number})

    simulate(scenario, nodes=5)


@pytest.mark.parametrize("phase", PHASES)
def test_two_machines_are_lost_at_once_while_a_node_drains(phase: Phase) -> None:
    async def scenario(ground: Ground) -> None:
        await filled(ground)
        drained, *victims = ground.cluster.nodes[:3]
        number = drained.published.node
        await alter(ground, number, "DRAIN")
        await reached(ground, phase)
        await lost_and_whole_again(ground, victims, {number})

    simulate(scenario, nodes=6)
