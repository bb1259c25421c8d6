"""Scans as of a time, over a change of the leader whose successor has a clock that is behind or ahead."""

import asyncio
from random import Random

import pytest

from leasehold.core.words.messages import PlanScan, ScanPlan
from leasehold.ids import Revision
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.loop import run_virtual
from tests.sim.data_words import TABLE, Ground, Over

HOUR_NS = 3600 * SECOND_NS


async def planned(cluster: SimulatedCluster, time_us: int) -> tuple[Revision | None, list[str]]:
    """The revision, and the segments that it shows."""
    request = PlanScan(cluster_id=None, name=TABLE, columns=None, as_of_us=time_us)
    plan = await cluster.ask(request, ScanPlan)
    return plan.as_of, sorted(one.id for one in plan.segments)


@pytest.mark.parametrize("order", [1, -1])
def test_a_time_names_the_same_revision_under_every_leader(order: int) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=2, coordinators=2)
        for number, machine in enumerate(cluster.coordinators[::order], 1):
            machine.clock = SimulatedClock(cluster.loop, offset_ns=number * HOUR_NS)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                ground = Ground(cluster, group)
                await ground.create()
                before = cluster.leading
                assert before is not None
                told: dict[int, tuple[Revision | None, list[str]]] = {}
                for _ in range(3):
                    await ground.write(10)
                    now_us = before.clock.wall_us()
                    told[now_us] = await planned(cluster, now_us)
                    assert told[now_us][1] == [one.id for one in ground.manifest()], "the present is not the future"
                await ground.write(10)
                await before.kill()
                await ground.write(10)
                assert cluster.leading is not before
                assert {time_us: await planned(cluster, time_us) for time_us in told} == told
                assert len({str(one) for one in told.values()}) == 3
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)
