"""A whole simulated cluster: production coordinator and agents on virtual time, network, disks and clocks."""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

from leasehold.coordinator.runtime import DEFAULT_SETTINGS, Coordinator
from leasehold.core.catalog import Catalog
from leasehold.core.lease import Pass, guard
from leasehold.core.messages import (
    AskStatus,
    ClusterStatus,
    Execute,
    Initialise,
    Receipt,
    Rows,
    WaitingFor,
)
from leasehold.core.records import SettingsRecord
from leasehold.errors import NotInitialised, Unreachable
from leasehold.ids import ClusterId, StatementId
from leasehold.limits import CALL_TIMEOUT_NS, MILLISECOND_NS, SECOND_NS
from leasehold.node.agent import Agent
from leasehold.node.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.network import Link, Network
from leasehold.testing.vault import VaultDisk

COORDINATOR = "c1"
ADDRESS = "c1:7000"
CLIENT = "client"


class SeededEntropy:
    """Implements `wire.ports.Entropy` from the seed of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def hex_128(self) -> str:
        """The next 128 bits of the seed."""
        return f"{self._random.getrandbits(128):032x}"


class SimulatedNode:
    """A data node without its Flight server: its durable disk, and the process that runs on it, if one does.

    `name` is its host's; what it registers under is `calls_itself`.
    """

    def __init__(self, cluster: "SimulatedCluster", name: str, drift_ppm: int) -> None:
        self.cluster = cluster
        self.name = name
        self.calls_itself = name
        self.disk = VaultDisk()
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.published = Published()
        self.agent: Agent | None = None
        self.task: asyncio.Task[None] | None = None

    def start(self, group: asyncio.TaskGroup, *, port: int = 9000) -> None:
        """Starts a process on what the disk holds."""
        assert self.task is None, "one process at a time"
        self.cluster.revive(self.name)
        self.published = Published()
        self.task = group.create_task(self._run(port))

    async def _run(self, port: int) -> None:
        vault = self.disk.open()
        try:
            self.agent = Agent(
                name=self.calls_itself,
                address=f"{self.name}:{port}",
                coordinators=(ADDRESS,),
                vault=vault,
                transport=self.cluster.network.host(self.name),
                clock=self.clock,
                entropy=self.cluster.entropy,
                published=self.published,
            )
            await self.agent.run()
        finally:
            await vault.close()

    async def kill(self) -> None:
        """SIGKILL: what was not written is lost, what was not synced is not."""
        assert self.task is not None
        self.cluster.network.kill(self.name)
        self.disk.kill()
        self.task.cancel()
        await asyncio.wait([self.task])
        self.task = None

    def pause(self) -> None:
        """SIGSTOP: the clock goes on, the process does not."""
        self.cluster.network.pause(self.name)
        self.clock.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.clock.resume()
        self.cluster.network.resume(self.name)

    def guard(self) -> Pass[Catalog] | None:
        """What a Flight thread would do before it releases a batch, now."""
        return guard(self.published, self.clock.now_ns)


class SimulatedCluster:
    """One coordinator and some nodes; build it inside `run_virtual`, with its random generator."""

    def __init__(
        self,
        random: Random,
        *,
        nodes: int = 3,
        settings: SettingsRecord = DEFAULT_SETTINGS,
        link: Link | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.random = random
        self.entropy = SeededEntropy(random)
        self.settings = settings
        self.network = Network(loop, random, link=link)
        self.store = MemoryStore()
        largest = settings.drift_ppm
        self.nodes = [
            SimulatedNode(self, f"n{number}", random.randint(-largest, largest)) for number in range(1, nodes + 1)
        ]
        self.coordinator_clock = SimulatedClock(loop, drift_ppm=random.randint(-largest, largest))
        self._coordinator: asyncio.Task[None] | None = None
        self._storage: MemoryMetaStorage | None = None

    # ------------------------------------------------------------ processes

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Starts everything and waits until every node serves."""
        await self.start_coordinator(group)
        await self.initialise()
        for node in self.nodes:
            node.start(group)
        await self.wait_for(lambda: all(node.guard() for node in self.nodes))

    def revive(self, host: str) -> None:
        """Makes a host ready for a process, whether one was killed there or none ever ran."""
        if not self.network.host(host).alive:
            self.network.restart(host)

    async def start_coordinator(self, group: asyncio.TaskGroup) -> None:
        """Starts the coordinator on what the store holds."""
        self.revive(COORDINATOR)
        storage = self._storage = MemoryMetaStorage(self.store)
        coordinator = Coordinator(
            name=COORDINATOR, storage=storage, clock=self.coordinator_clock, settings=self.settings
        )
        await self.network.host(COORDINATOR).serve(ADDRESS, coordinator, on_fault=self._fault)
        self._coordinator = group.create_task(coordinator.run())

    def _fault(self, fault: BaseException) -> None:
        self.loop.call_exception_handler({"message": "a handler failed", "exception": fault})

    async def kill_coordinator(self) -> None:
        """SIGKILL: what the store had acknowledged stays."""
        assert self._coordinator is not None
        assert self._storage is not None
        self.network.kill(COORDINATOR)
        self._coordinator.cancel()
        await asyncio.wait([self._coordinator])
        await self._storage.close()
        self._coordinator = self._storage = None

    # ------------------------------------------------------------ a client

    async def initialise(self) -> None:
        """Gives the meta storage its cluster id."""
        connection = self.network.host(CLIENT).connect(ADDRESS)
        while True:
            try:
                await connection.call(
                    Initialise(cluster_id=ClusterId(self.entropy.hex_128())), timeout_ns=CALL_TIMEOUT_NS
                )
                break
            except NotInitialised:
                await asyncio.sleep(0.01)
        await connection.close()

    async def sql(self, text: str, statement: StatementId | None = None) -> Receipt | Rows:
        """Runs a statement to its answer, asking again by its id when an answer is lost."""
        chosen = statement or StatementId(self.entropy.hex_128())
        while True:
            connection = self.network.host(CLIENT).connect(ADDRESS)
            request = Execute(cluster_id=None, statement=chosen, text=text)
            try:
                async for message in connection.stream(request, timeout_ns=CALL_TIMEOUT_NS):
                    if not isinstance(message, WaitingFor):
                        assert isinstance(message, Receipt | Rows)
                        return message
            except (Unreachable, NotInitialised):
                await asyncio.sleep(0.1)
            finally:
                await connection.close()

    async def status(self) -> ClusterStatus:
        """The cluster as its leader sees it."""
        connection = self.network.host(CLIENT).connect(ADDRESS)
        try:
            answer = await connection.call(AskStatus(), timeout_ns=CALL_TIMEOUT_NS)
        finally:
            await connection.close()
        assert isinstance(answer, ClusterStatus)
        return answer

    async def wait_for(self, holds: Callable[[], object], *, at_most_ns: int = 60 * SECOND_NS) -> None:
        """Lets virtual time pass until `holds()`; an assertion fails if it does not in time."""
        deadline_ns = self.loop.now_ns() + at_most_ns
        while not holds():
            assert self.loop.now_ns() < deadline_ns, "what was waited for did not come"
            await asyncio.sleep(5 * MILLISECOND_NS / SECOND_NS)
