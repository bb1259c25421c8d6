"""A simulated physical topology: production members over the simulated network, and what they noticed when."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from random import Random  # noqa: TID251 a type alone: the generator is the caller's
from typing import Final

import msgspec

from leasehold.core.swim.codec import Seal
from leasehold.core.swim.messages import Member, Role, State
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clock import SimulatedClock, SimulatedTimer
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.loop import VirtualLoop
from leasehold.testing.network import Link, Network
from leasehold.wire.gossip import Gossip
from leasehold.wire.ports import Clock, Datagrams

KEY: Final = bytes(range(CLUSTER_KEY_BYTES))
CLUSTER: Final = ClusterId("c" * 32)
HEADER_BYTES: Final = 28
"""Of UDP and IPv4, around each datagram."""
PORT: Final = 7400
DATAGRAMS_QUEUED_MAX: Final = 4_096
"""Datagrams that may wait at a member; further ones are dropped, as a kernel does."""
POLL_NS: Final = 50 * MILLISECOND_NS


class SimulatedDatagrams:
    """Implements `wire.ports.Datagrams`. A datagram is seen `late_ns` after its arrival."""

    def __init__(self, world: "GossipWorld", address: str, late_ns: int = 0) -> None:
        if address in world.hearing:
            raise BadSettings(f"can't listen on {address}: another process listens there", code=ErrorCode.PORT_IN_USE)
        self._world = world
        self._address = address
        self._late_ns = late_ns
        self._arrived: deque[tuple[str, bytes]] = deque()
        self._any = asyncio.Event()
        world.hearing[address] = self

    @property
    def address(self) -> str:
        return self._address

    def send(self, address: str, blob: bytes) -> None:
        """The link may lose, delay or double it; it is lost if no process listens when it arrives."""
        self._world.post(self._address, address, blob)

    async def receive(self) -> tuple[str, bytes]:
        while not self._arrived:
            self._any.clear()
            await self._any.wait()
        return self._arrived.popleft()

    def pending(self) -> tuple[str, bytes] | None:
        return self._arrived.popleft() if self._arrived else None

    async def close(self) -> None:
        if self._world.hearing.get(self._address) is self:
            del self._world.hearing[self._address]

    def deliver(self, source: str, blob: bytes) -> None:
        """A datagram has arrived."""
        if self._late_ns:
            loop = self._world.loop
            loop.call_at_ns(loop.now_ns() + self._late_ns, lambda: self._put(source, blob))
        else:
            self._put(source, blob)

    def _put(self, source: str, blob: bytes) -> None:
        if len(self._arrived) < DATAGRAMS_QUEUED_MAX:
            self._arrived.append((source, blob))
            self._any.set()


class SlowClock:
    """Implements `wire.ports.Clock` for a slow process: the reading is right, but timers fire `late_ns` late."""

    def __init__(self, clock: SimulatedClock, late_ns: int) -> None:
        self._clock = clock
        self._late_ns = late_ns

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def wall_us(self) -> int:
        return self._clock.wall_us()

    async def sleep_until(self, deadline_ns: int) -> None:
        await self._clock.sleep_until(deadline_ns + self._late_ns)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> SimulatedTimer:
        return self._clock.call_at(deadline_ns + self._late_ns, callback)


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """A change that one member noticed of another."""

    at_ns: int
    by: str
    member: Member
    state: State | None


class SimulatedMember:
    """A machine, and its process of the topology, if one runs."""

    def __init__(self, world: "GossipWorld", name: str, *, late_ns: int) -> None:
        self.world = world
        self.name = name
        self.late_ns = late_ns
        self.clock = SimulatedClock(world.loop, drift_ppm=world.random.randint(-10_000, 10_000))
        self.gossip: Gossip | None = None
        self.states: dict[str, State] = {}
        """How its process sees each member that it knows, and itself."""
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self._task is not None and not self._task.done()

    def start(self, group: asyncio.TaskGroup, seeds: tuple[str, ...], *, port: int = PORT) -> None:
        """Starts a process that knows only the seeds."""
        assert not self.runs, "one process at a time"
        host = self.world.network.host(self.name)
        if not host.alive:
            self.world.network.restart(self.name)
        address = f"{self.name}:{port}"
        number = int(self.name.removeprefix("n"))
        self.states = {self.name: State.ALIVE}
        datagrams: Datagrams = SimulatedDatagrams(self.world, address, self.late_ns)
        clock: Clock = SlowClock(self.clock, self.late_ns) if self.late_ns else self.clock
        self.gossip = Gossip(
            me=Member(name=self.name, address=address, role=Role.NODE, service=f"{self.name}:1", node=NodeId(number)),
            seal=Seal(KEY, CLUSTER),
            seeds=seeds,
            clock=clock,
            entropy=SeededEntropy(self.world.random),
            datagrams=datagrams,
            on_change=self._notice,
        )
        self._task = group.create_task(self.gossip.run())

    async def kill(self) -> None:
        """SIGKILL: the other members are not told."""
        assert self._task is not None
        self.world.network.kill(self.name, silent=True)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def leave(self) -> None:
        """SIGTERM: tells the others, then ends."""
        assert self.gossip is not None
        assert self._task is not None
        await self.gossip.leave()
        await asyncio.wait([self._task])

    def pause(self) -> None:
        """SIGSTOP: the clock goes on, the process does not, and what arrives waits."""
        self.world.network.pause(self.name)
        self.clock.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.clock.resume()
        self.world.network.resume(self.name)

    def living(self) -> set[str]:
        """The members that it believes to be alive, with itself."""
        return {name for name, state in self.states.items() if state in {State.ALIVE, State.SUSPECT}}

    def _notice(self, member: Member, state: State | None) -> None:
        if state is None:
            del self.states[member.name]
        else:
            self.states[member.name] = state
        self.world.noticed.append(Noticed(at_ns=self.world.loop.now_ns(), by=self.name, member=member, state=state))


class GossipWorld:
    """All members, named n1, n2 .., and the network between them."""

    def __init__(self, loop: VirtualLoop, random: Random, *, link: Link | None = None) -> None:
        self.loop = loop
        self.random = random
        self.network = Network(loop, random, link=link)
        self.hearing: dict[str, SimulatedDatagrams] = {}
        self.members: dict[str, SimulatedMember] = {}
        self.noticed: list[Noticed] = []
        """By all members, in order."""
        self.posted: list[tuple[str, str, bytes]] | None = None
        """The datagrams sent, for a test that sends them again; None if they are not kept."""

    def add(self, count: int, *, late_ns: int = 0) -> list[SimulatedMember]:
        """Adds machines."""
        added: list[SimulatedMember] = []
        for _ in range(count):
            member = SimulatedMember(self, f"n{len(self.members) + 1}", late_ns=late_ns)
            self.members[member.name] = member
            added.append(member)
        return added

    def running(self) -> Iterator[SimulatedMember]:
        """The members whose process runs."""
        return (one for one in self.members.values() if one.runs)

    def post(self, source: str, address: str, blob: bytes) -> None:
        """Sends a datagram as if from `source`."""
        if self.posted is not None:
            self.posted.append((source, address, blob))
        src, dst = (self.network.host(one.rpartition(":")[0]) for one in (source, address))

        def deliver() -> None:
            hearer = self.hearing.get(address)
            if hearer is not None and dst.alive:
                hearer.deliver(source, blob)

        self.network.post(src, dst, blob, deliver)

    async def until(self, holds: Callable[[], bool], *, at_most_ns: int) -> int:
        """Waits until `holds()`; returns how long that took. Raises `TimeoutError`."""
        began_ns = self.loop.now_ns()
        while not holds():
            if self.loop.now_ns() - began_ns >= at_most_ns:
                raise TimeoutError(f"not within {at_most_ns / SECOND_NS:g} s")
            await asyncio.sleep(POLL_NS / SECOND_NS)
        return self.loop.now_ns() - began_ns

    def agree(self) -> bool:
        """Whether each running member sees exactly the running members as alive or suspect."""
        running = {one.name for one in self.running()}
        return all(one.living() == running for one in self.running())

    def deaths(self, since_ns: int = 0) -> list[Noticed]:
        """The members that were found dead, and by which member."""
        return [one for one in self.noticed if one.state is State.DEAD and one.at_ns >= since_ns]

    def sent_bytes(self) -> int:
        """What the running members have sent, with headers."""
        traffic = [one.gossip.traffic for one in self.running() if one.gossip is not None]
        return sum(one.sent_bytes + one.sent * HEADER_BYTES for one in traffic)
