"""Readers beside a node: after a DROP has returned, none of their tasks opens another file (INV-OPEN-1)."""

import asyncio
from random import Random

import pytest

from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.drivers import SimulatedDriver
from leasehold.testing.end_reports import EndReports
from leasehold.testing.invariants import named
from leasehold.testing.loop import run_virtual
from leasehold.testing.oracle import Oracle
from tests.sim.data_words import TABLE, Ground, Over


async def strike(fate: str, node: SimulatedNode, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
    match fate:
        case "paused":
            node.pause()
        case "killed":
            await node.kill(silent=True)
        case "killed and reported":
            await node.kill()
            assert EndReports(cluster, group).send(node)
        case "stopped":
            await node.stop()
        case _:
            pass


async def dropped(cluster: SimulatedCluster, group: asyncio.TaskGroup, fate: str) -> None:
    assert cluster.watch is not None
    ground, oracle = Ground(cluster, group), cluster.watch.oracle
    await ground.create()
    await ground.write(20)
    node = ground.node(ground.manifest()[0].holders[0])
    driver = SimulatedDriver(cluster, node, ground.random, oracle, None)
    reading = group.create_task(driver.run((TABLE,)))
    await cluster.wait_for(lambda: node.data.links and driver.opened > 3)
    await strike(fate, node, cluster, group)
    asked_ns = cluster.loop.now_ns()
    await cluster.sql(f"DROP TABLE {TABLE}")
    assert cluster.loop.now_ns() - asked_ns < 5 * SECOND_NS
    opened = driver.opened
    await asyncio.sleep(20)
    assert driver.opened == opened
    oracle.check()
    reading.cancel()


@pytest.mark.parametrize("fate", ["lives", "paused", "killed", "killed and reported", "stopped"])
def test_nobody_opens_a_file_of_a_dropped_table(fate: str) -> None:
    for seed in range(1, 6):
        loop_oracle = Oracle(named("INV-OPEN-1", "INV-SERVE-1"), now_ns=lambda: 0, seed=seed, command=None)

        async def main(random: Random, oracle: Oracle = loop_oracle) -> None:
            cluster = SimulatedCluster(random, nodes=3, oracle=oracle)
            try:
                async with asyncio.TaskGroup() as group:
                    await cluster.start(group)
                    await dropped(cluster, group, fate)
                    raise Over
            except* Over:
                pass

        run_virtual(main, seed, shuffle=True)
