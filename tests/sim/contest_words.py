"""Clients of one simulated cluster that work against each other, while an oracle holds every invariant."""

import asyncio
from random import Random
from typing import Any, TypeVar

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.holder import Pass
from leasehold.core.words.messages import ReadTicket
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.cluster import SimulatedCluster, SimulatedNode
from leasehold.testing.invariants import INVARIANTS, finish
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.observe import WatchedPublished
from leasehold.testing.oracle import Oracle
from leasehold.testing.readers import CompleteScan
from leasehold.testing.rows import RowId, named_rows
from tests.sim.data_words import Over

C = TypeVar("C", bound="Contested")


class Contested:
    """What the clients do is in `run`; what they and the nodes say goes to the oracle."""

    def __init__(self, random: Random, oracle: Oracle) -> None:
        self.random = random
        self.oracle = oracle
        self.scans: list[CompleteScan] = []

    async def run(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        raise NotImplementedError

    def common(self, cluster: SimulatedCluster, group: asyncio.TaskGroup, host: str) -> dict[str, Any]:
        """What every client is made with."""
        return {
            "transport": cluster.network.host(host),
            "coordinators": cluster.addresses,
            "clock": SimulatedClock(cluster.loop),
            "entropy": cluster.entropy,
            "random": Random(self.random.getrandbits(64)),
            "group": group,
        }

    def scanned(self, scan: CompleteScan) -> None:
        self.scans.append(scan)
        self.oracle.scanned(scan.table, scan.revision, named_rows(scan.rows), scan.cutoff)

    def released_by(self, node: SimulatedNode) -> Any:
        def released(passed: Pass[Catalog], ticket: ReadTicket, rows: tuple[RowId, ...]) -> None:
            assert isinstance(node.published, WatchedPublished)
            self.oracle.passed(node.published, passed, ticket.table, rows=rows, segment=ticket.segment)

        return released


def contest(kind: type[C], seed: int) -> C:
    """One of three nodes, run to its end."""
    found: list[C] = []

    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        oracle = Oracle(INVARIANTS, now_ns=loop.now_ns, seed=seed, command=None)
        one = kind(random, oracle)
        try:
            async with asyncio.TaskGroup() as group:
                await one.run(SimulatedCluster(random, nodes=3, oracle=oracle), group)
                finish(oracle)
                raise Over
        except* Over:
            found.append(one)

    run_virtual(main, seed, shuffle=True)
    return found[0]
