"""Words of the scenarios in which nodes are removed: nodes whose end is a result, and a person who removes them."""

import asyncio
from typing import Any, ClassVar
from unittest.mock import patch

from leasehold.coordinator import leader
from leasehold.coordinator.writer import Writer
from leasehold.core.data.node_removal import remove_node
from leasehold.errors import Definite
from leasehold.testing.cluster import AT_LENGTH, SimulatedCluster
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import run_virtual
from leasehold.testing.oracle import Oracle
from tests.scenarios.identity_words import serving
from tests.sim.coordinator_words import run
from tests.stored import stored_catalog


class Over(Exception):
    pass


class NewestWriter(Writer):
    """The writer of the leader that took office last."""

    newest: ClassVar[Writer]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        NewestWriter.newest = self


def simulate(scenario, *, nodes=3, started=None, coordinators=1, seed=1, oracle=True):
    """The first `started` nodes serve, by default all; d.t is on two of them; an oracle holds every invariant,
    unless the scenario makes up entries of the manifest that no file is behind."""

    async def main(random: Any) -> None:
        kept = INVARIANTS if oracle else ()
        watching = Oracle(kept, now_ns=asyncio.get_running_loop().now_ns)
        cluster = SimulatedCluster(random, nodes=nodes, coordinators=coordinators, oracle=watching)
        try:
            async with asyncio.TaskGroup() as group:
                for coordinator in cluster.coordinators:
                    await coordinator.start(group)
                await cluster.initialise()
                first = cluster.nodes[: nodes if started is None else started]
                for node in first:
                    begin(group, node)
                    await serving(cluster, node)  # so that n2 gets id 2
                await run(cluster, "CREATE DATABASE d")
                await run(cluster, "CREATE TABLE d.t (a INT) TBLPROPERTIES ('replication' = '2')")
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    with patch.object(leader, "Writer", NewestWriter):
        run_virtual(main, seed)


def begin(group, node):
    """Starts a process; the error that ends it, once one does."""
    ended = asyncio.get_running_loop().create_future()

    node.start(group, on_end=ended.set_result)
    return ended


async def remove(cluster, name, *, force=False, on_wait=None):
    """As a client does: asks again where an answer is lost. What the leader says, or raises."""
    return await remove_node(cluster.client(), name, AT_LENGTH, force=force, on_wait=on_wait)


async def refused(cluster, name, **how):
    """The code with which it is refused."""
    try:
        await remove(cluster, name, **how)
    except Definite as error:
        assert error.hint
        return error.code
    raise AssertionError("it was not refused")


def replicas(cluster):
    """Of the one bucket of d.t, as the store holds it."""
    return next(iter(stored_catalog(cluster.store).buckets.values())).replicas
