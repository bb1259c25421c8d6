"""Words of the scenarios of a replicated log: coordinators without nodes, in virtual time, and what the log holds."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import Change, KeyValue, Txn, TxnResult
from leasehold.core.words.records import LogBody, LogEntry
from leasehold.errors import LeaseholdError
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import Leadership
from leasehold.metastorage.log.log import ENTRIES, Log, entry_name, part_key
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.invariants import named
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.mirror import LogMirror
from leasehold.testing.observe import Watch
from leasehold.testing.oracle import Oracle
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate, is_transaction, undisturbed

T = TypeVar("T")
BEAT = "swap log/leader"
ELECTION = "swap log/leader log/term"


class Member:
    """One coordinator's process: a client of the log, a storage over it, and perhaps its leadership."""

    def __init__(self, ground: "Ground", name: str, place: MemoryReplicaPlace) -> None:
        self.name = name
        self.place = place
        self.clock = ground.clock
        self.client = MemoryLogStore(ground.kept)
        self.log = Log(self.client)
        self._ground = ground
        self._storage: ReplicatedMetaStorage | None = None
        self._leadership: Leadership | None = None
        self._holding: asyncio.Future[None] | None = None
        self.ends_ns = 0
        """When its leadership ends, as far as it knows."""

    @property
    def storage(self) -> ReplicatedMetaStorage:
        assert self._storage is not None
        return self._storage

    @property
    def leadership(self) -> Leadership:
        assert self._leadership is not None
        return self._leadership

    async def open(self) -> "Member":
        kind = self._ground.watch.replicated(self.name)
        self._storage = await kind.open(self.log, self.place, self.clock, self._ground.entropy)
        return self

    async def lead(self) -> "Member":
        """Waits until it leads, and beats from then on."""
        leadership = self._leadership = await self.storage.campaign(self.name)
        self._extended(leadership.deadline_ns())
        self._holding = asyncio.ensure_future(hold(leadership, self._extended))
        return self

    def _extended(self, until_ns: int | None) -> None:
        assert until_ns is not None
        self.ends_ns = until_ns

    async def put(self, *keys: bytes, value: bytes = b"1") -> TxnResult:
        """One transaction under its fence."""
        then = tuple(Change(key, value) for key in keys)
        return await self.storage.txn(Txn(compares=self.leadership.fence(), then=then))

    async def kill(self) -> None:
        """What was sent may still happen late."""
        self.client.sever()
        if self._holding is not None:
            self._holding.cancel()
            await asyncio.wait([self._holding])
        if self._storage is not None:
            await self._storage.close()
            self._storage = None


class Ground:
    """A log, and the coordinators that share it; an oracle holds its invariants."""

    def __init__(self, random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = SimulatedClock(loop)
        self.entropy = SeededEntropy(random)
        self.kept = KeptLog()
        self.store = MemoryStore()
        self.oracle = Oracle(named("INV-LOG-1", "INV-LOG-2", "INV-LOG-3"), now_ns=loop.now_ns)
        self.watch = Watch(self.oracle, loop, self.store)
        self.watch.log(LogMirror(self.kept, self.store))
        self.members: list[Member] = []

    async def member(self, name: str, place: MemoryReplicaPlace | None = None) -> Member:
        """A coordinator that has opened its storage."""
        return await self.unopened(name, place).open()

    def unopened(self, name: str, place: MemoryReplicaPlace | None = None) -> Member:
        place = place or MemoryReplicaPlace()
        self.watch.replica(name, place)
        self.members.append(Member(self, name, place))
        return self.members[-1]

    def logged(self) -> "Counter[bytes]":
        """How often each key is in the log."""
        found: Counter[bytes] = Counter()
        for _, stored in self.kept.page(ENTRIES, "", 1_000_000):
            entry = decode_record(LogEntry, stored.value)
            blob = entry.body or b"".join(self._part(entry, index) for index in range(entry.parts))
            for one in decode_record(LogBody, blob).transactions:
                found.update(change.key for change in one.changes)
        return found

    def entries(self) -> int:
        """The number of the newest entry."""
        return len(self.kept.page(ENTRIES, entry_name(0), 1_000_000))

    def _part(self, entry: LogEntry, index: int) -> bytes:
        found = self.kept.get(part_key(entry, index))
        assert found is not None
        return found.value


def simulate(scenario: Callable[[Ground], Awaitable[T]]) -> T:
    """Runs a scenario to its end, and then holds the invariants once more."""

    async def main(random: Random) -> T:
        ground = Ground(random)
        try:
            answer = await scenario(ground)
        finally:
            for one in ground.members:
                await one.kill()
        ground.oracle.check()
        return answer

    return run_virtual(main, 1)


def fare(member: Member, named: Callable[[str], bool], *fates: RequestFate) -> list[int]:
    """The next requests of such a name fare so, the later ones well; when each was sent, on its clock."""
    left, sent = list(fates), list[int]()

    async def before(request: str) -> RequestFate:
        if not named(request):
            return await undisturbed(request)
        sent.append(member.clock.now_ns())
        await asyncio.sleep(0)
        return left.pop(0) if left else RequestFate.ANSWERED

    member.client.before = before
    return sent


def cut_off(member: Member) -> None:
    """No request of it reaches the store any more."""

    async def before(_request: str) -> RequestFate:
        await member.clock.sleep_until(member.clock.now_ns() + SECOND_NS // 10)
        return RequestFate.LOST_BEFORE

    member.client.before = before


async def hold(leadership: Leadership, on_extended: Callable[[int | None], None]) -> None:
    """Beats until the leadership ends, or its process."""
    try:
        await leadership.hold(on_extended)
    except* LeaseholdError:
        pass


async def until(holds: Callable[[], object]) -> None:
    """Lets virtual time pass; a scenario that waits in vain ends with its loop."""
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("what was waited for did not come")


def appends(request: str) -> bool:
    return is_transaction(request)


async def value(member: Member, key: bytes) -> bytes | None:
    """What its replica holds at the head."""
    await member.storage.confirm()
    found: KeyValue | None = await member.storage.get(key)
    return None if found is None else found.value
