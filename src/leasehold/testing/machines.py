"""The machines of a simulated cluster: what outlives a process there, and the production process that runs on it."""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 a type alone: the generator is the caller's

from leasehold.coordinator.leader import Leader
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.holder import Pass, guard
from leasehold.errors import Definite, Superseded
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.agent import Agent
from leasehold.node.agent.published import Published
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.dataplane import DataNode
from leasehold.testing.metastorage import AfterHook, BeforeHook, MemoryMetaStorage, RequestFate, prompt, undisturbed
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.site import Site
from leasehold.testing.steps import TaskCondition
from leasehold.testing.threads import NoThreads
from leasehold.testing.vault import VaultDisk


class SimulatedNode:
    """A data node: its durable disks, and the process that runs on them, if one does.

    `name` is its host's; what it registers under is `calls_itself`.
    """

    def __init__(self, cluster: Site, name: str, drift_ppm: int) -> None:
        self.cluster = cluster
        self.name = name
        self.calls_itself = name
        self.disk = VaultDisk()
        self.data = DataNode(cluster.network.host(name))
        self.clock = SimulatedClock(cluster.loop, drift_ppm=drift_ppm, offset_ns=cluster.random.randrange(SECOND_NS))
        self.published = Published(TaskCondition(self.clock))
        self.agent: Agent | None = None
        self.task: asyncio.Task[None] | None = None
        if cluster.watch is not None:
            cluster.watch.vault(name, self.disk)
            cluster.watch.segments(name, self.data.disk)

    def start(
        self, group: asyncio.TaskGroup, *, port: int = 9000, on_end: Callable[[Definite], None] | None = None
    ) -> None:
        """Starts a process on what the disk holds. `on_end` is called with the error that ends it; without `on_end`,
        the error ends the group."""
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
        self.agent = None

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
        """Runs processes on what the disk holds, one after the other, in the caller's task. Raises the error that ends
        the last of them: that is the first one, unless the cluster is supervised."""
        while True:
            try:
                await self._live(port)
            except Definite as error:
                if not self.cluster.supervised:
                    raise
                self._tell_end(error)
                # A late message of a dead process of this directory was taken for a newer one.
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
                coordinators=self.cluster.addresses,
                vault=vault,
                transport=self.cluster.network.host(self.name),
                clock=self.clock,
                entropy=self.cluster.entropy,
                threads=NoThreads(),
                published=self.published,
                compares_disk=True,
                directory=self.name,
                keys=self.cluster.keys,
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

    def __init__(
        self, cluster: Site, name: str, drift_ppm: int, leading: "Callable[[], SimulatedCoordinator | None]"
    ) -> None:
        self.cluster = cluster
        self._leading = leading
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
        alone = len(self.cluster.addresses) == 1
        self.storage = MemoryMetaStorage(
            self.cluster.store, clock=None if alone else self.clock, before=self._before, after=self._after
        )
        self.process = Coordinator(
            name=self.name,
            storage=self.storage,
            clock=self.clock,
            passwords=QuickPasswords(),
            entropy=self.cluster.entropy,
            threads=NoThreads(),
            settings=self.cluster.settings,
            grantor=Grantor if watch is None else watch.grantor(self.name, self.clock),
            keys=self.cluster.keys,
        )
        self.process.membership.serve_at(self.address)
        await self.cluster.network.host(self.name).serve(self.address, self.process, on_fault=self.cluster.fault)
        self.task = group.create_task(self.process.run())
        self._reach()

    async def kill(self) -> None:
        """SIGKILL: what the store had acknowledged stays."""
        assert self.task is not None
        assert self.storage is not None
        self.unsettle()
        self.cluster.network.kill(self.name)
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.storage.close()
        self.process = self.storage = self.task = None
        self._tell()

    async def stop(self, *, linger_s: float = 0.0) -> None:
        """SIGTERM: hands over what it leads, then ends, as soon as its process gets to it."""
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

    def cut_off_store(self) -> None:
        """From now on requests to the meta storage, answers of it, and what its watches tell, wait until
        `heal_store`."""
        self.unsettle()
        self.cut_off = True
        self._reach()

    def heal_store(self) -> None:
        """What waited goes on, and watches hear in order of what they missed."""
        self.cut_off = False
        self._reach()

    def _reach(self) -> None:
        if self.paused or self.cut_off:
            self._reaching.clear()
            if self.storage is not None:
                self.storage.lag()
        else:
            self._reaching.set()
            if self.storage is not None:
                self.storage.catch_up()
        self._tell()

    def _tell(self) -> None:
        if self.cluster.watch is not None:
            self.cluster.watch.oracle.disturbances.coordinator(
                self.name, up=self._is_up, reaching=self._reaching.is_set()
            )

    def unsettle(self) -> None:
        """A fault hits this coordinator now: where nobody leads, an election is set back by it."""
        watch, leading = self.cluster.watch, self._leading()
        if watch is not None and leading is not self and (leading is None or not leading.is_able):
            watch.oracle.disturbances.set_back()

    @property
    def is_able(self) -> bool:
        """Whether its process runs and reaches the store."""
        return self._is_up and self._reaching.is_set()

    @property
    def _is_up(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def leader(self) -> Leader | None:
        """What it leads, if it does."""
        return None if self.process is None else self.process.leader

    async def _before(self, request: str) -> RequestFate:
        await self._reaching.wait()
        return await self.before(request)

    async def _after(self, request: str) -> None:
        await self.after(request)
        await self._reaching.wait()
