"""Words that the tests of recovery in whole clusters share."""

import asyncio

from leasehold.core.words import keys
from leasehold.core.words.messages import RecoveryFinished
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import COORDINATOR, SimulatedCluster
from leasehold.testing.compaction import compacted
from leasehold.testing.invariants import INVARIANTS, finish
from leasehold.testing.loop import run_virtual
from leasehold.testing.oracle import Oracle


class Over(Exception):
    pass


def simulate(scenario, *, seed=1, nodes=3, coordinators=1, late=0):
    async def main(random):
        oracle = Oracle(INVARIANTS, now_ns=asyncio.get_running_loop().now_ns, seed=seed)
        cluster = SimulatedCluster(random, nodes=nodes, coordinators=coordinators, oracle=oracle, supervised=True)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group, late=late)
                await scenario(cluster, group)
                finish(oracle)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed, shuffle=True)


async def serving(cluster, *nodes):
    await cluster.wait_for(lambda: all(node.guard() for node in nodes), at_most_ns=200 * SECOND_NS)


async def settled(cluster):
    """Every node's vault holds what the store has."""
    newest = cluster.store.status
    await cluster.wait_for(lambda: all(node.agent.durable.revision == newest().latest for node in cluster.nodes))


async def restart_leader(cluster, group):
    (one,) = cluster.coordinators
    await one.kill()
    await one.start(group)


async def compact(cluster):
    """By somebody who asks nobody."""
    assert await compacted(cluster, cluster.store.newest)


async def history(cluster, times, of="h"):
    """Databases that come and go, or stay changed."""
    for number in range(times):
        await cluster.sql(f"CREATE DATABASE {of}{number}")
        if number % 2:
            await cluster.sql(f"DROP DATABASE {of}{number}")
        else:
            await cluster.sql(f"COMMENT ON DATABASE {of}{number} IS 'number {number}'")


async def case_of(cluster, node):
    """The case of its recovery, as the cluster's status tells it."""
    status = await cluster.status()
    return next(one.recovery.case for one in status.nodes if one.id == node.published.node)


def store_holds(cluster):
    page = cluster.store.page(keys.WATCH_START, keys.WATCH_END, None, 100_000)
    return {one.key: one.value for one in page.items}


def topology(cluster):
    """The version of the logical topology, and its members."""
    newest = cluster.watch.oracle.history.records
    members = [one.name for key, one in newest.items() if key.startswith(keys.NODES) and one.member]
    return newest[keys.COUNTERS].topology, sorted(members)


async def leave_behind(cluster, node):
    """A node that is away, and can't come back by replay alone."""
    await node.kill()
    await history(cluster, 4)
    await compact(cluster)


def ends(kind, node, leader=COORDINATOR):
    """From where to where such a message goes."""
    return (node.name, leader) if kind is RecoveryFinished else (leader, node.name)


async def reach(cluster, group, node, kind):
    """The node's process has come to where this message is under way."""
    seen = asyncio.Event()

    def predicate(message):
        if isinstance(message, kind):
            seen.set()
        return isinstance(message, kind)

    hold = cluster.network.hold(*ends(kind, node, cluster.leading.name), predicate)
    node.start(group)
    async with asyncio.timeout(120):
        await seen.wait()
    return hold
