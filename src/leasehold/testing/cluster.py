"""A whole simulated cluster: production coordinators and agents on virtual time, network, disks and clocks."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final, TypeVar

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import CoordinatorClient
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import (
    AskStatus,
    ClientRequest,
    ClusterFacts,
    ClusterStatus,
    Initialise,
    Message,
    Receipt,
    Rows,
    StagedSegment,
)
from leasehold.core.words.records import SettingsRecord
from leasehold.errors import OutcomeUnknown
from leasehold.ids import ClusterId, LoginToken, StatementId
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.coordinator_calls import Account, coordinator_client
from leasehold.testing.machines import SimulatedCoordinator, SimulatedNode
from leasehold.testing.network import Link
from leasehold.testing.oracle import Oracle
from leasehold.testing.rows import named_rows
from leasehold.testing.site import Site
from leasehold.testing.steps import TaskRuntime

M = TypeVar("M", bound=Message)

COORDINATOR = "c1"
ADDRESS = "c1:7000"
"""The first coordinator; the only one unless more are asked for."""
CLIENT = "client"
AT_LENGTH: Final = Asking(3_600 * SECOND_NS)
"""For as long as a run may take."""


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
        if oracle is not None:
            for node in self.nodes:
                node.data.on_compacted = oracle.saw
        self.coordinators = [
            SimulatedCoordinator(self, f"c{number}", random.randint(-largest, largest), lambda: self.leading)
            for number in range(1, coordinators + 1)
        ]
        self.addresses = tuple(one.address for one in self.coordinators)
        self._client = self.client()

    @property
    def leading(self) -> SimulatedCoordinator | None:
        """The coordinator that leads the newest term, among those that believe they lead."""
        leaders = [one for one in self.coordinators if one.leader is not None]
        return max(leaders, key=lambda one: one.leader.grantor.term if one.leader else 0, default=None)

    # ------------------------------------------------------------ processes

    async def start(self, group: asyncio.TaskGroup, *, late: int = 0) -> None:
        """Starts everything except `late` nodes, and waits until every running node serves."""
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

    def client(
        self,
        host: str = CLIENT,
        account: Account | None = None,
        *,
        token: LoginToken | None = None,
        given: str | None = None,
    ) -> CoordinatorClient:
        """A client at a host, which asks as the user of `account`, or with a `token`. It knows all coordinators, or it
        is `given` one and learns of the others."""
        runtime = TaskRuntime(SimulatedClock(self.loop))
        addresses = self.addresses if given is None else (given,)
        calls = self.network.host(host)
        return coordinator_client(calls, addresses, runtime, account, token=token, learns=given is not None)

    async def initialise(self) -> None:
        """Gives the meta storage its cluster id."""
        await self.ask(Initialise(cluster_id=ClusterId(self.entropy.hex_128())), ClusterFacts)

    async def sql(self, text: str, statement: StatementId | None = None) -> Receipt | Rows:
        """Runs a statement to its answer, asking again by its id when an answer is lost."""
        chosen = statement or StatementId(self.entropy.hex_128())
        return await run_statement(self._client, text, chosen, AT_LENGTH)

    async def status(self) -> ClusterStatus:
        """The cluster as its leader sees it."""
        return await self.ask(AskStatus(), ClusterStatus)

    async def ask(self, request: Message, kind: type[M]) -> M:
        """Asks one coordinator after the other until one answers definitely."""
        client = self.client(token=request.login) if isinstance(request, ClientRequest) else self._client
        return await client.until_answered(client.question(request, kind), AT_LENGTH, unknown=OutcomeUnknown)

    def contents(self, segment: StagedSegment) -> Counter[str]:
        """The rows of a staged segment, by a disk that has it; none if none has."""
        file = OnDisk(segment.table, segment.bucket, segment.id)
        found = (node.data.disk.content(file) for node in self.nodes)
        return named_rows(next((one.rows for one in found if one is not None), ()))

    async def wait_for(self, holds: Callable[[], object], *, at_most_ns: int = 60 * SECOND_NS) -> None:
        """Lets virtual time pass until `holds()`; an assertion fails if it does not in time."""
        deadline_ns = self.loop.now_ns() + at_most_ns
        while not holds():
            assert self.loop.now_ns() < deadline_ns, "what was waited for did not come"
            await asyncio.sleep(5 * MILLISECOND_NS / SECOND_NS)
