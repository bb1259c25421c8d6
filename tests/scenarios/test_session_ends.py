"""How the session of a node ended, as far as its leader can tell: what it shows to people."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leasehold.core.words.messages import OpenSession, Rows
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import COORDINATOR, SimulatedCluster
from tests.scenarios.identity_words import serving, simulate

Fault = Callable[[SimulatedCluster, Any], Awaitable[None]]


async def killed(_: SimulatedCluster, node: Any) -> None:
    await node.kill()


async def machine_lost(_: SimulatedCluster, node: Any) -> None:
    await node.kill(silent=True)


async def stopped(_: SimulatedCluster, node: Any) -> None:
    await node.stop()


async def paused(_: SimulatedCluster, node: Any) -> None:
    node.pause()


async def cut_off(cluster: SimulatedCluster, node: Any) -> None:
    cluster.network.partition(node.name, COORDINATOR)


async def ends(cluster: SimulatedCluster) -> dict[str, str]:
    status = await cluster.status()
    names = {one.id: one.name for one in status.nodes}
    return {names[one.node]: one.how for one in status.session_ends}


async def ends_until(cluster: SimulatedCluster, holds: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    deadline_ns = cluster.loop.now_ns() + 30 * SECOND_NS
    while not holds(told := await ends(cluster)):
        assert cluster.loop.now_ns() < deadline_ns, told
        await asyncio.sleep(0.01)
    return told


@pytest.mark.parametrize(
    ("fault", "how"),
    [
        (killed, "GONE"),
        (machine_lost, "NO_ANSWER"),
        (stopped, "SURRENDERED"),
        (paused, "NO_ANSWER"),
        (cut_off, "NO_ANSWER"),
    ],
)
def test_a_node_that_hangs_is_told_from_one_that_has_ended(fault: Fault, how: str) -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node, other = cluster.nodes
        for one in cluster.nodes:
            one.start(group)
        await serving(cluster, *cluster.nodes)
        assert await ends(cluster) == {}
        await fault(cluster, node)
        assert await ends_until(cluster, bool) == {node.name: how}
        rows = await cluster.sql("SHOW NODES")
        assert isinstance(rows, Rows)
        name, session = rows.columns.index("name"), rows.columns.index("session")
        assert {row[name]: row[session] for row in rows.rows} == {node.name: how, other.name: "OPEN"}
        cluster.network.heal_all()
        if fault is paused:
            node.resume()
        if fault in {killed, machine_lost, stopped}:
            cluster.revive(node.name)
            node.start(group)
        await serving(cluster, node, other)
        await ends_until(cluster, lambda told: not told)

    simulate(scenario, nodes=2)


def test_how_a_session_ended_is_said_of_the_newest_process_alone() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.kill()
        assert await ends_until(cluster, bool) == {node.name: "GONE"}
        cluster.network.hold(node.name, COORDINATOR, lambda one: isinstance(one, OpenSession))
        cluster.revive(node.name)
        node.start(group)
        await ends_until(cluster, lambda told: not told)
        status = await cluster.status()
        assert (status.nodes[0].stage, status.nodes[0].incarnation) == ("ADMITTED", 2)
        assert status.silences == ()

    simulate(scenario)


def test_a_node_that_connects_anew_loses_no_lease() -> None:
    """As for a new certificate, here again and again, with every phase of a renewal and of a schema change."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node = cluster.nodes[0]
        for one in cluster.nodes:
            one.start(group)
        await serving(cluster, *cluster.nodes)
        await cluster.sql("CREATE DATABASE d")
        opened, told = [], node.agent._on_session
        node.agent._on_session = lambda *words: (opened.append(words), told(*words))
        for number in range(60):
            node.agent.reconnect()
            await cluster.sql(f"CREATE TABLE d.t{number} (a BIGINT)")
            assert node.guard() is not None
            await asyncio.sleep(0.037)
            assert node.guard() is not None
        assert await ends(cluster) == {}
        assert len(opened) == 60

    simulate(scenario, nodes=2)
