"""The machines of a simulated cluster, with what outlives their processes, and the production processes on them."""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

from leasehold.coordinator.leader import Leader
from leasehold.coordinator.opening import open_patiently
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.holder import Pass, guard
from leasehold.core.words.messages import ReportProcessEnd
from leasehold.errors import Definite, Indefinite, Superseded
from leasehold.limits.log import STORE_TRY_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.dataplane import DataNode
from leasehold.testing.log_store import MemoryLogStore
from leasehold.testing.metastorage import MemoryMetaStorage
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import AfterHook, BeforeHook, RequestFate, prompt, undisturbed
from leasehold.testing.site import Site
from leasehold.testing.steps import TaskCondition
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk

CHECKPOINT_LOG_BYTES: Final = 4096
"""So little that a run of a minute has checkpoints."""


class SimulatedNode:
    """A data node: its durable disks, and its process, if one runs.

    `name` is the name of its host; it registers under `calls_itself`.
    """

    def __init__(self, cluster: Site, name: str, drift_ppm: int) -> None:
        self.cluster = cluster
        self.name = name
        self.calls_itself = name
        self.rack = ""
        """Where it is put up from its next start on."""
        self.disk = VaultDisk()
        self.data = DataNode(cluster.network.host(name))
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.published = Published(TaskCondition(self.clock))
        self.agent: Agent | None = None
        self.end_report: tuple[tuple[str, ...], ReportProcessEnd] | None = None
        """What its supervisor sends, and where, once its newest process has ended."""
        self.task: asyncio.Task[None] | None = None
        if cluster.watch is not None:
            cluster.watch.vault(name, self.disk)
            cluster.watch.segments(name, self.data.disk)

    def start(
        self, group: asyncio.TaskGroup, *, port: int = 9000, on_end: Callable[[Definite], None] | None = None
    ) -> None:
        """Starts a process on the disk. `on_end` gets the error that ends it; without `on_end`, the error ends the
        group."""
        assert self.task is None, "one process at a time"
        self._begin()
        self.task = group.create_task(self.run(port) if on_end is None else self._run_to_end(port, on_end))

    def _begin(self) -> None:
        self.cluster.revive(self.name)
        watch = self.cluster.watch
        if watch is None:
            self.published = Published(TaskCondition(self.clock))
        else:
            self.published = watch.published(self.name, self.clock)
        self.agent = self.end_report = None

    def _hand_over(self, coordinators: tuple[str, ...], report: ReportProcessEnd) -> None:
        self.end_report = coordinators, report

    async def _run_to_end(self, port: int, on_end: Callable[[Definite], None]) -> None:
        try:
            await self.run(port)
        except Definite as error:
            has_joined = self.published.node != 0
            if has_joined and not self.cluster.supervised:
                self._tell_end(error)
            self._end()
            self.task = None
            on_end(error)

    async def run(self, port: int = 9000) -> None:
        """Runs processes on the disk, one after the other, in the caller's task; only one, unless the cluster is
        supervised. Raises the error that ends the last of them."""
        while True:
            try:
                await self._live(port)
            except Definite as error:
                if not self.cluster.supervised:
                    raise
                self._tell_end(error)
                # A late message of a dead process of this directory was mistaken for a newer process.
                if not isinstance(error, Superseded):
                    raise
                self._end()
                self._begin()

    def _tell_end(self, error: Definite) -> None:
        watch, agent = self.cluster.watch, self.agent
        if watch is not None and agent is not None:
            watch.ended_by(self.published, agent, error)

    async def _live(self, port: int) -> None:
        vault = self.disk.open()
        try:
            watch = self.cluster.watch
            kind = Agent if watch is None else watch.agent
            self.agent = kind(
                name=self.calls_itself,
                address=f"{self.name}:{port}",
                coordinators=self.cluster.given or self.cluster.addresses,
                vault=vault,
                transport=self.cluster.network.host(self.name),
                clock=self.clock,
                entropy=self.cluster.entropy,
                threads=NoThreads(),
                published=self.published,
                compares_disk=True,
                directory=self.name,
                rack=self.rack,
                keys=self.cluster.keys,
                on_session=self._hand_over,
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
        """The guard of a Flight thread before it releases a batch, now."""
        return guard(self.published, self.clock.now_ns)


class SimulatedCoordinator:
    """A machine, and its coordinator, if one runs; the meta storage outlives it."""

    def __init__(
        self, cluster: Site, name: str, drift_ppm: int, leading: "Callable[[], SimulatedCoordinator | None]"
    ) -> None:
        self.cluster = cluster
        self._leading = leading
        self.name = name
        self.address = f"{name}:7000"
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.process: Coordinator | None = None
        self.storage: MemoryMetaStorage | ReplicatedMetaStorage | None = None
        self.replica = MemoryReplicaPlace()
        """Its directory, where several coordinators share a log."""
        self.task: asyncio.Task[None] | None = None
        self.before: BeforeHook = undisturbed
        """Decide the fate and the delays of its requests to the store."""
        self.after: AfterHook = prompt
        self.paused = False
        self.cut_off = False
        self._answers_only = False
        self._client: MemoryMetaStorage | MemoryLogStore | None = None
        self._running = asyncio.Event()
        """Requests and answers wait for it."""
        self._running.set()
        if cluster.watch is not None:
            cluster.watch.replica(name, self.replica)

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Starts a process on what the store holds."""
        assert self.task is None, "one process at a time"
        self.cluster.revive(self.name)
        self.before, self.after = undisturbed, prompt
        if self._is_alone:
            self.storage = self._client = MemoryMetaStorage(self.cluster.store, before=self._before, after=self._after)
            self.task = group.create_task((await self._serve(self.storage)).run())
        else:
            self._client = MemoryLogStore(self.cluster.kept_log, before=self._before, after=self._after)
            self.task = group.create_task(self._open_and_run(self._client))
        self._reach()

    @property
    def _is_alone(self) -> bool:
        """A single coordinator locks its store, like a file; several share a log."""
        return len(self.cluster.addresses) == 1

    async def _open_and_run(self, client: MemoryLogStore) -> None:
        watch = self.cluster.watch
        kind = ReplicatedMetaStorage if watch is None else watch.replicated(self.name)
        shared = Log(client)
        storage = self.storage = await open_patiently(
            lambda: kind.open(shared, self.replica, self.clock, self.cluster.entropy), self.clock
        )
        storage.upkeep.log_bytes_min = CHECKPOINT_LOG_BYTES
        await (await self._serve(storage)).run()

    async def _serve(self, storage: MetaStorage) -> Coordinator:
        watch = self.cluster.watch
        process = self.process = Coordinator(
            name=self.address,
            storage=storage,
            clock=self.clock,
            passwords=QuickPasswords(),
            entropy=self.cluster.entropy,
            threads=NoThreads(),
            statement_threads=NoThreads(),
            settings=self.cluster.settings,
            grantor=Grantor if watch is None else watch.grantor(self.name, self.clock),
            keys=self.cluster.keys,
            transport=self.cluster.network.host(self.name),
            label=self.name,
            version="1",
        )
        process.membership.serve_at(self.address)
        await self.cluster.network.host(self.name).serve(self.address, process, on_fault=self.cluster.fault)
        return process

    async def kill(self) -> None:
        """SIGKILL: what the store had acknowledged stays."""
        assert self.task is not None
        assert self._client is not None
        self.unsettle()
        self.cluster.network.kill(self.name)
        self._client.sever()
        self.task.cancel()
        await asyncio.wait([self.task])
        if self.storage is not None:
            await self.storage.close()
        self.process = self.storage = self.task = self._client = None
        self._tell()

    async def stop(self, *, linger_s: float = 0.0) -> None:
        """SIGTERM: hands its leadership over, then ends, as soon as its process can."""
        assert self.task is not None
        assert self.process is not None
        if self.process.leader is not None:
            self.process.hand_over()
            await asyncio.wait([self.task])
            self._tell()
            await asyncio.sleep(linger_s)
        await self.kill()

    def pause(self) -> None:
        """SIGSTOP: the clock goes on, the process does not."""
        self.unsettle()
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

    def cut_off_store(self, *, answers_only: bool = False) -> None:
        """Keeps requests to the store, and its watches, from it until `heal_store`, or only the answers. Those of a
        single coordinator wait, those of several get no answer."""
        self.unsettle()
        self.cut_off, self._answers_only = True, answers_only
        self._reach()

    def heal_store(self) -> None:
        """Ends a cut: what waited goes on, and watches get in order what they missed."""
        self.cut_off = False
        self._reach()

    def _reach(self) -> None:
        waits = self.paused or (self.cut_off and self._is_alone)
        storage = self.storage
        if waits:
            self._running.clear()
        else:
            self._running.set()
        if isinstance(storage, MemoryMetaStorage):
            storage.lag() if waits else storage.catch_up()
        self._tell()

    def _tell(self) -> None:
        if self.cluster.watch is not None:
            self.cluster.watch.oracle.disturbances.coordinator(self.address, up=self._is_up, reaching=self._reaches)

    def unsettle(self) -> None:
        """A fault hits this coordinator now; it sets an election back if none leads."""
        watch, leading = self.cluster.watch, self._leading()
        if watch is not None and leading is not self and (leading is None or not leading.is_able):
            watch.oracle.disturbances.set_back()

    @property
    def is_able(self) -> bool:
        """Whether its process runs and reaches the store."""
        return self._is_up and self._reaches

    @property
    def _is_up(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def _reaches(self) -> bool:
        return not self.paused and not self.cut_off

    @property
    def leader(self) -> Leader | None:
        """Its leadership, if it leads."""
        return None if self.process is None else self.process.leader

    async def _before(self, request: str) -> RequestFate:
        await self._running.wait()
        if self.cut_off and not self._answers_only:
            if not request.startswith("watch"):
                await self._give_up()
            return RequestFate.LOST_BEFORE
        return await self.before(request)

    async def _after(self, request: str) -> None:
        await self.after(request)
        await self._running.wait()
        if self.cut_off:
            await self._give_up()
            raise Indefinite("no answer from the store", hint="look whether it happened")

    async def _give_up(self) -> None:
        await self.clock.sleep_until(self.clock.now_ns() + STORE_TRY_NS)
