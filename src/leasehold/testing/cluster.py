"""A whole simulated cluster: production coordinators and agents on virtual time, network, disks and clocks."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import TypeVar

from leasehold.coordinator.leader import Leader
from leasehold.coordinator.runtime import DEFAULT_SETTINGS, Coordinator
from leasehold.core.catalog import Catalog
from leasehold.core.grantor import Grantor
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
from leasehold.errors import Indefinite, NotInitialised, NotLeader, Superseded, Unreachable
from leasehold.ids import ClusterId, StatementId
from leasehold.limits import CALL_TIMEOUT_NS, MILLISECOND_NS, SECOND_NS
from leasehold.node.agent import Agent
from leasehold.node.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.dataplane import DataNode
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.metastorage import (
    AfterHook,
    BeforeHook,
    Fate,
    MemoryMetaStorage,
    MemoryStore,
    prompt,
    undisturbed,
)
from leasehold.testing.network import Link, Network
from leasehold.testing.observe import Watch
from leasehold.testing.oracle import Oracle
from leasehold.testing.vault import VaultDisk
from leasehold.wire.ports import Connection

T = TypeVar("T")

COORDINATOR = "c1"
ADDRESS = "c1:7000"
"""The first coordinator; the only one unless more are asked for."""
CLIENT = "client"


class SeededEntropy:
    """Implements `wire.ports.Entropy` from the seed of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def hex_128(self) -> str:
        """The next 128 bits of the seed."""
        return f"{self._random.getrandbits(128):032x}"


class SimulatedNode:
    """A data node: its durable disks, and the process that runs on them, if one does.

    `name` is its host's; what it registers under is `calls_itself`.
    """

    def __init__(self, cluster: "SimulatedCluster", name: str, drift_ppm: int) -> None:
        self.cluster = cluster
        self.name = name
        self.calls_itself = name
        self.disk = VaultDisk()
        self.data = DataNode(cluster.network.host(name))
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.published = Published()
        self.agent: Agent | None = None
        self.task: asyncio.Task[None] | None = None
        if cluster.watch is not None:
            cluster.watch.vault(name, self.disk)
            cluster.watch.segments(name, self.data.disk)

    def start(self, group: asyncio.TaskGroup, *, port: int = 9000) -> None:
        """Starts a process on what the disk holds."""
        assert self.task is None, "one process at a time"
        self._begin()
        self.task = group.create_task(self._run(port))

    def _begin(self) -> None:
        self.cluster.revive(self.name)
        watch = self.cluster.watch
        self.published = Published() if watch is None else watch.published(self.name, self.clock)
        self.agent = None

    async def _run(self, port: int) -> None:
        while True:
            try:
                await self._live(port)
            except Superseded:
                # A late message of a dead process of this directory was taken for a newer one.
                if not self.cluster.supervised:
                    raise
                self._end()
                self._begin()

    async def _live(self, port: int) -> None:
        vault = self.disk.open()
        try:
            self.agent = Agent(
                name=self.calls_itself,
                address=f"{self.name}:{port}",
                coordinators=self.cluster.addresses,
                vault=vault,
                transport=self.cluster.network.host(self.name),
                clock=self.clock,
                entropy=self.cluster.entropy,
                published=self.published,
            )
            await self.data.run_beside(
                self.agent,
                address=f"{self.name}:{port}",
                published=self.published,
                vault=vault,
                clock=self.clock,
                on_fault=self.cluster.fault,
            )
        finally:
            await vault.close()

    def _end(self, *, silent: bool = False) -> None:
        self.cluster.network.kill(self.name, silent=silent)
        self.disk.kill()
        self.data.kill()
        if self.cluster.watch is not None:
            self.cluster.watch.process_ended(self.published)

    async def kill(self, *, silent: bool = False) -> None:
        """SIGKILL: what was not written is lost, what was not synced is not. `silent`: its peers are not told."""
        assert self.task is not None
        self._end(silent=silent)
        self.task.cancel()
        await asyncio.wait([self.task])
        self.task = None

    async def stop(self) -> None:
        """SIGTERM: gives its lease back, then ends."""
        if self.agent is not None:
            await self.agent.surrender()
        await self.kill()

    def crash(self, random: Random) -> None:
        """The machine, with no process on it any more, loses what was not synced."""
        assert self.task is None
        self.disk.crash(random)
        self.data.crash(random)
        if self.cluster.watch is not None:
            self.cluster.watch.oracle.machine_crashed(self.name)

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


class SimulatedCoordinator:
    """A machine that runs a coordinator, if it runs one now; its meta storage outlives it."""

    def __init__(self, cluster: "SimulatedCluster", name: str, drift_ppm: int) -> None:
        self.cluster = cluster
        self.name = name
        self.address = f"{name}:7000"
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.process: Coordinator | None = None
        self.storage: MemoryMetaStorage | None = None
        self.task: asyncio.Task[None] | None = None
        self.before: BeforeHook = undisturbed
        """How its requests to the meta storage fare, before they happen and after."""
        self.after: AfterHook = prompt
        self.paused = False
        self.cut_off = False
        self._reaching = asyncio.Event()
        self._reaching.set()

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Starts a process on what the store holds."""
        assert self.task is None, "one process at a time"
        self.cluster.revive(self.name)
        self.before, self.after = undisturbed, prompt
        watch = self.cluster.watch
        # Alone it holds the store by a lock, as over a file; several lead by the leader record.
        alone = len(self.cluster.coordinators) == 1
        self.storage = MemoryMetaStorage(
            self.cluster.store, clock=None if alone else self.clock, before=self._before, after=self._after
        )
        self.process = Coordinator(
            name=self.name,
            storage=self.storage,
            clock=self.clock,
            settings=self.cluster.settings,
            grantor=Grantor if watch is None else watch.grantor(self.name, self.clock),
        )
        await self.cluster.network.host(self.name).serve(self.address, self.process, on_fault=self.cluster.fault)
        self.task = group.create_task(self.process.run())

    async def kill(self) -> None:
        """SIGKILL: what the store had acknowledged stays."""
        assert self.task is not None
        assert self.storage is not None
        self.cluster.network.kill(self.name)
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.storage.close()
        self.process = self.storage = self.task = None

    async def stop(self, *, linger_s: float = 0.0) -> None:
        """SIGTERM: hands over what it leads, then ends, as soon as its process gets to it."""
        assert self.task is not None
        assert self.process is not None
        if self.process.leader is not None:
            self.process.hand_over()
            await asyncio.wait([self.task])
            await asyncio.sleep(linger_s)
        await self.kill()

    def pause(self) -> None:
        """SIGSTOP: the clock goes on, the process does not."""
        self.paused = True
        self._reach()
        self.cluster.network.pause(self.name)
        self.clock.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.paused = False
        self.clock.resume()
        self.cluster.network.resume(self.name)
        self._reach()

    def cut_off_store(self) -> None:
        """From now on requests to the meta storage, and answers of it, wait until `heal_store`."""
        self.cut_off = True
        self._reach()

    def heal_store(self) -> None:
        """What waited goes on."""
        self.cut_off = False
        self._reach()

    def _reach(self) -> None:
        if self.paused or self.cut_off:
            self._reaching.clear()
        else:
            self._reaching.set()

    @property
    def leader(self) -> Leader | None:
        """What it leads, if it does."""
        return None if self.process is None else self.process.leader

    async def _before(self, request: str) -> Fate:
        await self._reaching.wait()
        return await self.before(request)

    async def _after(self, request: str) -> None:
        await self.after(request)
        await self._reaching.wait()


class SimulatedCluster:
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
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.random = random
        self.entropy = SeededEntropy(random)
        self.settings = settings
        self.supervised = supervised
        """Whether a node that learns it is superseded is started again; otherwise its error ends the run."""
        self.network = Network(loop, random, link=link)
        self.store = MemoryStore()
        self.watch = None if oracle is None else Watch(oracle, loop, self.store)
        largest = settings.drift_ppm
        self.nodes = [
            SimulatedNode(self, f"n{number}", random.randint(-largest, largest)) for number in range(1, nodes + 1)
        ]
        self.coordinators = [
            SimulatedCoordinator(self, f"c{number}", random.randint(-largest, largest))
            for number in range(1, coordinators + 1)
        ]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all coordinators."""
        return tuple(one.address for one in self.coordinators)

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

    def revive(self, host: str) -> None:
        """Makes a host ready for a process, whether one was killed there or none ever ran."""
        if not self.network.host(host).alive:
            self.network.restart(host)

    async def start_coordinator(self, group: asyncio.TaskGroup) -> None:
        """Starts the first coordinator."""
        await self.coordinators[0].start(group)

    async def kill_coordinator(self) -> None:
        """Kills the first coordinator."""
        await self.coordinators[0].kill()

    def fault(self, fault: BaseException) -> None:
        """What a handler did not expect ends the run."""
        self.loop.call_exception_handler({"message": "a handler failed", "exception": fault})

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
