"""The ground of the crash points: a cluster with one node, and what has to be true of it whatever is cut."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from leasehold.core.words.records import Allocated, Claiming, Joining, NodeRecord
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.invariants import finish, named
from leasehold.testing.loop import run_virtual
from leasehold.testing.machines import SimulatedNode
from leasehold.testing.oracle import Oracle
from tests.scenarios.identity_words import Over, identity, serving, stored

FIRST, AGAIN = "first start", "start after a kill"


class Ground:
    """The cluster, the node on its way in, and what was seen of its directory."""

    def __init__(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        self.cluster = cluster
        self.group = group
        self.tokens: set[str] = set()
        self.late_until_ns = 0

    @property
    def node(self) -> SimulatedNode:
        return self.cluster.nodes[0]

    async def look(self) -> Claiming | Allocated | Joining | None:
        """What the directory durably holds."""
        record = await identity(self.node)
        if record is not None:
            self.tokens.add(record.token)
        return record

    async def restart_leader(self) -> None:
        one = self.cluster.coordinators[0]
        await one.kill()
        await one.start(self.group)

    async def restart(self, *, crash: bool = False) -> None:
        """The process is killed, and so is its machine if it crashes; then another begins."""
        await self.node.kill()
        await self.look()
        if crash:
            self.node.crash(self.cluster.random)
            await self.look()
        self.node.start(self.group)

    async def reached(self, event: asyncio.Event) -> None:
        """The step that is to be cut was reached: a cut that hits nothing proves nothing."""
        async with asyncio.timeout(60):
            await event.wait()


Strike = Callable[[Ground], Awaitable[None]]
"""Starts the process and cuts it at its step."""


class Cut(NamedTuple):
    """One step cut in one way."""

    name: str
    life: str
    strike: Strike
    coordinators: int = 1


def run_cuts(*cuts: Cut, seed: int = 1) -> None:
    """One after the other in one life of a directory; in the end it has one id, and serves.

    Raises `InvariantViolated` where an identity invariant did not hold at any instant.
    """
    life = cuts[0].life

    async def main(random):
        loop = asyncio.get_running_loop()
        oracle = Oracle(named("INV-ID-1", "INV-ID-2", "INV-ID-3"), now_ns=loop.now_ns, seed=seed)
        cluster = SimulatedCluster(
            random, nodes=1, coordinators=max(one.coordinators for one in cuts), oracle=oracle, supervised=True
        )
        try:
            async with asyncio.TaskGroup() as group:
                for one in cluster.coordinators:
                    await one.start(group)
                await cluster.initialise()
                where = Ground(cluster, group)
                if life == AGAIN:
                    where.node.start(group)
                    await serving(cluster, where.node)
                    await where.look()
                    await where.node.kill()
                for cut in cuts:
                    await cut.strike(where)
                    if cut is not cuts[-1]:
                        await where.node.kill()
                        await where.look()
                await came_well(where)
                finish(oracle)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


async def came_well(where: Ground) -> None:
    """It serves, as the one node that there ever was, and goes on to when all that was late has come."""
    cluster, node = where.cluster, where.node
    await serving(cluster, node)
    late_ns = max(0, where.late_until_ns - cluster.loop.now_ns())
    await asyncio.sleep(late_ns / SECOND_NS)
    await serving(cluster, node)
    record = await where.look()
    assert isinstance(record, Allocated)
    assert (record.node, where.tokens) == (1, {record.token}), "one token, and its one id"
    catalog = await stored(cluster)
    assert catalog.counters.next_node == 2, "no id was lost"
    registered = catalog.nodes
    assert list(registered) == [1]
    assert isinstance(registered[1], NodeRecord)
    assert registered[1].incarnation == record.incarnation == node.published.incarnation
