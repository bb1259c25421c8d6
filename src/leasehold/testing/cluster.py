"""A whole simulated cluster: production coordinators and agents on virtual time, network, disks and clocks."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import TypeVar

from leasehold.coordinator.runtime import DEFAULT_SETTINGS
from leasehold.core.words.messages import (
    AskStatus,
    ClusterStatus,
    Execute,
    Initialise,
    Receipt,
    Rows,
    WaitingFor,
)
from leasehold.core.words.records import SettingsRecord
from leasehold.errors import Indefinite, NotInitialised, NotLeader, Unreachable
from leasehold.ids import ClusterId, StatementId
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.machines import SimulatedCoordinator, SimulatedNode
from leasehold.testing.network import Link
from leasehold.testing.oracle import Oracle
from leasehold.testing.site import Site
from leasehold.wire.ports import Connection

T = TypeVar("T")

COORDINATOR = "c1"
ADDRESS = "c1:7000"
"""The first coordinator; the only one unless more are asked for."""
CLIENT = "client"


class SimulatedCluster(Site):
    """Coordinators and nodes; build it inside `run_virtual`, with its random generator."""

    def __init__(
        self,
        random: Random,
        *,
        nodes: int = 3,
        coordinators: int = 1,
        settings: SettingsRecord = DEFAULT_SETTINGS,
        link: Link | None = None,
        oracle: Oracle | None = None,
        supervised: bool = False,
    ) -> None:
        super().__init__(random, settings=settings, link=link, oracle=oracle, supervised=supervised)
        largest = settings.drift_ppm
        self.nodes = [
            SimulatedNode(self, f"n{number}", random.randint(-largest, largest)) for number in range(1, nodes + 1)
        ]
        self.coordinators = [
            SimulatedCoordinator(self, f"c{number}", random.randint(-largest, largest), lambda: self.leading)
            for number in range(1, coordinators + 1)
        ]
        self.addresses = tuple(one.address for one in self.coordinators)

    @property
    def leading(self) -> SimulatedCoordinator | None:
        """The coordinator that leads the newest term, among those that believe they lead."""
        leaders = [one for one in self.coordinators if one.leader is not None]
        return max(leaders, key=lambda one: one.leader.term if one.leader else 0, default=None)

    # ------------------------------------------------------------ processes

    async def start(self, group: asyncio.TaskGroup, *, late: int = 0) -> None:
        """Starts everything, but for so many nodes that are `late`, and waits until every node that runs serves."""
        for coordinator in self.coordinators:
            await coordinator.start(group)
        await self.initialise()
        first = self.nodes[: len(self.nodes) - late]
        for node in first:
            node.start(group)
        await self.wait_for(lambda: all(node.guard() for node in first))

    async def start_coordinator(self, group: asyncio.TaskGroup) -> None:
        """Starts the first coordinator."""
        await self.coordinators[0].start(group)

    async def kill_coordinator(self) -> None:
        """Kills the first coordinator."""
        await self.coordinators[0].kill()

    # ------------------------------------------------------------ a client

    async def initialise(self) -> None:
        """Gives the meta storage its cluster id."""
        request = Initialise(cluster_id=ClusterId(self.entropy.hex_128()))
        await self.ask_a_leader(lambda one: one.call(request, timeout_ns=CALL_TIMEOUT_NS))

    async def sql(self, text: str, statement: StatementId | None = None) -> Receipt | Rows:
        """Runs a statement to its answer, asking again by its id when an answer is lost."""
        chosen = statement or StatementId(self.entropy.hex_128())
        request = Execute(cluster_id=None, statement=chosen, text=text)

        async def ask(connection: Connection) -> Receipt | Rows:
            async for message in connection.stream(request, timeout_ns=CALL_TIMEOUT_NS):
                if not isinstance(message, WaitingFor):
                    assert isinstance(message, Receipt | Rows)
                    return message
            raise Unreachable("the stream ended without an answer")

        return await self.ask_a_leader(ask)

    async def status(self) -> ClusterStatus:
        """The cluster as its leader sees it."""
        answer = await self.ask_a_leader(lambda one: one.call(AskStatus(), timeout_ns=CALL_TIMEOUT_NS))
        assert isinstance(answer, ClusterStatus)
        return answer

    async def ask_a_leader(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Asks one coordinator after the other until one answers definitely."""
        for turn in itertools.count():
            connection = self.network.host(CLIENT).connect(self.addresses[turn % len(self.addresses)])
            try:
                return await ask(connection)
            except (Indefinite, NotInitialised, NotLeader):
                await asyncio.sleep(0.1 if len(self.addresses) == 1 else 0.02)
            finally:
                await connection.close()
        raise AssertionError("it counts for ever")

    async def wait_for(self, holds: Callable[[], object], *, at_most_ns: int = 60 * SECOND_NS) -> None:
        """Lets virtual time pass until `holds()`; an assertion fails if it does not in time."""
        deadline_ns = self.loop.now_ns() + at_most_ns
        while not holds():
            assert self.loop.now_ns() < deadline_ns, "what was waited for did not come"
            await asyncio.sleep(5 * MILLISECOND_NS / SECOND_NS)
