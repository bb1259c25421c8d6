"""A log whose MM lies within an entry, its leader, and what every reader of it must go on seeing."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from leasehold.core.log.entry import follow
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import LogBody, LogTransaction
from leasehold.ids import Revision
from leasehold.metastorage.log.log import Log, LogFence
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.upkeep import Upkeep
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import run_virtual
from leasehold.testing.replica import CHUNK_ROWS, MemoryReplica, MemoryReplicaPlace
from tests.unit.core.log.log_words import writing
from tests.unit.metastorage.log_ground import LOG_ID, Ground, made, virtual_clock

CHUNKS = 3
KEYS = CHUNKS * CHUNK_ROWS
"""Keys at MM; a checkpoint of them has that many chunks."""


class World:
    """A log, the replica of its leader, and that leader's upkeep."""

    def __init__(self, ground: Ground, fence: LogFence) -> None:
        self.ground = ground
        self.fence = fence
        self.leads = True
        self.place = MemoryReplicaPlace()
        self.replica: MemoryReplica
        self.upkeep = self.new_upkeep()

    def new_upkeep(self) -> Upkeep:
        """Of a leader that knows nothing of what an earlier one did."""
        upkeep = Upkeep(
            self.ground.log,
            asyncio.Lock(),
            virtual_clock(),
            fence=lambda: self.fence if self.leads else None,
            replica=lambda: self.replica,
        )
        upkeep.log_bytes_min = 1
        return upkeep

    async def append(self, body: LogBody) -> None:
        one = await self.ground.append(body, self.fence)
        await self.replica.apply(one.position, [body])

    async def tidy(self) -> None:
        await self.upkeep.tidy(self.fence)


async def filled() -> World:
    """MM lies within the fourth entry: what a checkpoint holds ends there, and its position is the third."""
    ground = await made()
    _, fence = await ground.lead(1)
    world = World(ground, fence)

    async def nothing():
        for chunk in ():
            yield chunk

    world.replica = await world.place.build(LOG_ID, None, nothing())
    await world.append(writing(*range(1, KEYS)))
    await world.append(rewriting(KEYS, b"key-0001", None))
    await world.append(rewriting(KEYS + 1, b"key-0001", b"again"))
    await world.append(writing(KEYS + 2, KEYS + 3, KEYS + 4))
    await world.append(rewriting(KEYS + 5, b"key-0002", b"later"))
    await world.append(LogBody(minimum=Revision(KEYS + 2)))
    await world.append(rewriting(KEYS + 6, b"key-0003", None))
    return world


def rewriting(revision: int, key: bytes, value: bytes | None) -> LogBody:
    return LogBody(transactions=(LogTransaction(Revision(revision), (Change(key, value),)),))


class Content(NamedTuple):
    """All that a reader can see."""

    minimum: int
    states: list[dict[bytes, tuple[bytes, int, int, int]]]
    history: list[RevisionChanges]


async def content(storage: MemoryReplica | ReplicatedMetaStorage) -> Content:
    minimum = (await storage.status()).minimum
    newest = (await storage.range(b"", b"\xff", limit=1)).revision
    states = []
    for revision in range(minimum, newest + 1):
        page = await storage.range(b"", b"\xff", revision=Revision(revision), limit=1000)
        states.append({one.key: (one.value, one.created, one.modified, one.version) for one in page.items})
    async with aclosing(storage.watch(b"", b"\xff", minimum)) as watch:
        history = [await anext(watch) for _ in range(minimum, newest + 1)]
    return Content(minimum, states, history)


async def seen_by(kept: KeptLog, place: MemoryReplicaPlace) -> Content:
    """What a coordinator serves that starts now."""
    storage = await ReplicatedMetaStorage.open(Log(MemoryLogStore(kept)), place, virtual_clock(), UnusedEntropy())
    found = await content(storage)
    await storage.close()
    return found


class UnusedEntropy:
    """The log is made, and nothing is appended."""

    def hex_128(self) -> str:
        return "f" * 32


class Checked:
    """A world, and what every reader must go on seeing, whatever happens to it."""

    def __init__(self, world: World, expected: Content, behind: MemoryReplicaPlace) -> None:
        self.world = world
        self.expected = expected
        self.behind = behind

    @classmethod
    async def made(cls) -> "Checked":
        world = await filled()
        expected = await content(world.replica)
        assert expected.minimum == KEYS + 2
        assert len(expected.states) == 5
        return cls(world, expected, await replica_at(world, 1))

    async def look(self) -> None:
        kept = self.world.ground.kept
        assert await seen_by(kept.copy(), MemoryReplicaPlace()) == self.expected
        behind = MemoryReplicaPlace()
        behind.kept = self.behind.kept
        assert await seen_by(kept.copy(), behind) == self.expected

    async def finish(self) -> None:
        """Another leader completes what was begun, and leaves nothing else."""
        kept = self.world.ground.kept
        log = Log(MemoryLogStore(kept))
        self.world.ground.log = log
        _, self.world.fence = await self.world.ground.lead(9, "c9")
        self.world.upkeep = self.world.new_upkeep()
        await self.world.tidy()
        await self.look()
        assert sorted({key.partition("/")[0] for key in kept.values}) == ["chunk", "entry", "log"]
        assert self.world.ground.names("entry") == [f"{number:016d}" for number in range(4, 8)]
        assert [name[:16] for name in self.world.ground.names("chunk")] == [f"{3:016d}"] * CHUNKS


async def replica_at(world: World, number: int) -> MemoryReplicaPlace:
    """A replica of another coordinator that has applied that many entries."""
    place = MemoryReplicaPlace()

    async def nothing():
        for chunk in ():
            yield chunk

    replica = await place.build(LOG_ID, None, nothing())
    for entry, blob in (await world.ground.log.entries_after(0))[:number]:
        position, body = follow(replica.position, entry, blob)
        await replica.apply(position, [body])
    return place


def in_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    async def run(_: object) -> None:
        await main()

    run_virtual(run, 1)
