"""Places of meta storages, a cluster with a history in one of them, and one run of a move."""

import shutil
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from leasehold.coordinator.migrate import Migrated, migrate
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.log.leadership import resigned
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.errors import LeaseholdError
from leasehold.ids import EntryId, ObjectId, Revision
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.file_move import FileMoveTarget, FileSource
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.move import LogMoveTarget, LogSource
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import LogStore
from leasehold.metastorage.move import MoveSource, MoveTarget
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.requests import AfterHook, BeforeHook, prompt, undisturbed
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.backup_words import begin, commit, database
from tests.conformance.restore_suite import whole

LARGE: Final = "n" * 300_000
"""Of three such names, the changes of a revision take more than an entry of a log holds."""


class ImpatientClock(BoottimeClock):
    """A clock on which nobody waits: in a test nobody leads on a source unless the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self._skipped_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        self._skipped_ns += max(0, deadline_ns - self.now_ns())


class Place(Protocol):
    """Where a meta storage may be."""

    def source(self) -> MoveSource: ...

    def target(self) -> MoveTarget: ...

    async def open(self) -> MetaStorage:
        """What a coordinator finds there that has not been there before."""
        ...

    async def resign(self) -> None:
        """Ends the leadership of a coordinator that was stopped."""
        ...

    async def content(self) -> object:
        """All that is there, to compare."""
        ...


class FilePlace:
    """The directory of a coordinator."""

    def __init__(self, directory: Path, where: Path | None = None) -> None:
        self.directory = directory
        self._where = str(where or directory)

    def source(self) -> MoveSource:
        return FileSource(self.directory)

    def target(self) -> MoveTarget:
        target = FileMoveTarget(self.directory, lambda: self.directory.mkdir(exist_ok=True))
        target.where = self._where  # type: ignore[misc]  # a copy stands for the same place
        return target

    async def open(self) -> MetaStorage:
        self.directory.mkdir(exist_ok=True)
        return await SqliteMetaStorage.open(self.directory / FILE_NAME)

    async def resign(self) -> None:
        """The lock is free."""

    async def content(self) -> object:
        # The lock file is none of it, nor is the log of a database that is open.
        return {path.name: path.read_bytes() for path in self.directory.glob(f"{FILE_NAME}")}

    def copy(self, directory: Path) -> "FilePlace":
        if self.directory.exists():
            shutil.copytree(self.directory, directory)
        return FilePlace(directory, Path(self._where))


class LogPlace:
    """A store, and directories of coordinators."""

    def __init__(self, directory: Path, where: str) -> None:
        self.directory = directory
        self.where = where
        self._made = 0

    def store(self) -> LogStore:
        raise NotImplementedError

    def fresh(self) -> Path:
        self._made += 1
        directory = self.directory / f"{self.where.rpartition('/')[2]}-{self._made}"
        directory.mkdir(parents=True)
        return directory

    def source(self) -> MoveSource:
        return LogSource(Log(self.store()), self.where, self.fresh(), ImpatientClock())

    def target(self) -> MoveTarget:
        return LogMoveTarget(Log(self.store()), self.where, self.fresh(), ImpatientClock(), SystemEntropy())

    async def open(self) -> MetaStorage:
        place = SqliteReplicaPlace(self.fresh())
        return await ReplicatedMetaStorage.open(Log(self.store()), place, BoottimeClock(), SystemEntropy())

    async def resign(self) -> None:
        shared = Log(self.store())
        standing = await shared.leader()
        if standing is not None:
            await shared.beat(standing, resigned(standing))

    async def content(self) -> object:
        """But for chunks that nothing names."""
        store = self.store()
        return [await store.page(one, limit=1_000) for one in ("log", "entry", "part")]


class MemoryLogPlace(LogPlace):
    """A store in memory; `before` and `after` are the hooks of its next clients."""

    def __init__(self, directory: Path, where: str, kept: KeptLog | None = None) -> None:
        super().__init__(directory, where)
        self.kept = kept or KeptLog()
        self.before: BeforeHook = undisturbed
        self.after: AfterHook = prompt

    def store(self) -> LogStore:
        return MemoryLogStore(self.kept, before=self.before, after=self.after)

    async def content(self) -> object:
        return dict(self.kept.values)

    def copy(self, directory: Path) -> "MemoryLogPlace":
        return MemoryLogPlace(directory, self.where, self.kept.copy())


def draw_id() -> EntryId:
    return EntryId(SystemEntropy().hex_128())


async def moved(source: Place, target: Place) -> Migrated:
    """One run of the command."""
    end = source.source()
    try:
        return await migrate(end, target.target(), draw_id=draw_id)
    finally:
        await end.close()


@asynccontextmanager
async def opened(place: Place) -> AsyncGenerator[MetaStorage]:
    """A coordinator that is stopped in order."""
    storage = await place.open()
    try:
        yield storage
    finally:
        await storage.close()
        await place.resign()


async def refusal(work: Awaitable[object]) -> LeaseholdError:
    with pytest.raises(LeaseholdError) as raised:
        await work
    return raised.value


async def coordinator_error(place: Place) -> LeaseholdError | None:
    """What a coordinator ends with there; None if it finds a cluster, or nothing at all."""
    try:
        async with opened(place):
            return None
    except LeaseholdError as error:
        return error


async def fill(place: Place) -> None:
    """A cluster with a history: several terms, deletions, large changes, and revisions that were compacted."""
    async with opened(place) as storage:
        await begin(storage, databases=30)
    async with opened(place) as storage:
        leadership = await storage.campaign("c1")
        await commit(storage, *(database(number) for number in range(40, 60)))
        await commit(storage, database(40, "renamed"), Change(keys.database(ObjectId(41)), None))
        await storage.compact((await storage.status()).latest, leadership.fence())
        await commit(storage, *(database(number, LARGE + str(number)) for number in (70, 71, 72)))
        await commit(storage, Change(keys.database(ObjectId(70)), None))
    async with opened(place) as storage:
        await storage.campaign("c1")
        await commit(storage, database(42, "last"))
    async with opened(place) as storage:
        await storage.campaign("c1")


async def history(storage: MetaStorage) -> list[RevisionChanges]:
    """All that can be replayed."""
    status, found = await storage.status(), list[RevisionChanges]()
    async with aclosing(storage.watch(keys.WATCH_START, keys.WATCH_END, status.minimum)) as batches:
        async for batch in batches:
            found.append(batch)
            if batch.revision == status.latest:
                return found
    raise AssertionError("a watch does not end by itself")


async def facts(storage: MetaStorage) -> object:
    """Everything that a node or a client could ask for."""
    status = await storage.status()
    states = [await whole(storage, Revision(at)) for at in range(status.minimum, status.latest + 1)]
    return status, await read_catalog(storage), await history(storage), states
