"""Places of each kind to recover from, made of one small history, and an empty directory to recover into."""

from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest

from leasehold.coordinator.recover import Recovered, recover
from leasehold.coordinator.sources import ExaminedSource, RecoverySource, SourceKind
from leasehold.core.words import keys
from leasehold.core.words.records import Allocated
from leasehold.errors import LeaseholdError
from leasehold.ids import Incarnation, LineageHash, NodeId, Revision, Token
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.restore_target import FileTarget
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.vault.store import SqliteVault
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.backup_words import CLUSTER_ID, WALL_S, begin, commit, database, file_of, messages_of

IDENTITY: Final = Allocated(token=Token("ab" * 16), node=NodeId(1), cluster_id=CLUSTER_ID, incarnation=Incarnation(3))
LONGEST_NS: Final = 7 * SECOND_NS


async def state(*, more: int = 0) -> MemoryMetaStorage:
    """A cluster with a history."""
    storage = MemoryMetaStorage(MemoryStore())
    await begin(storage)
    for number in range(more):
        await commit(storage, database(100 + number))
    return storage


async def follow(storage: MetaStorage, vault: SqliteVault, first: Revision) -> None:
    """Applies all revisions from `first` on."""
    latest = (await storage.status()).latest
    async with aclosing(storage.watch(keys.WATCH_START, keys.WATCH_END, first)) as batches:
        async for batch in batches:
            lineage = next(one.value for one in batch.changes if one.key == keys.LINEAGE)
            assert lineage is not None
            await vault.apply((batch,), LineageHash(lineage))
            if batch.revision == latest:
                return


async def write_vault(storage: MetaStorage, directory: Path) -> None:
    """What a node has applied, as it leaves it."""
    vault = await SqliteVault.open(directory)
    await vault.write_identity(IDENTITY)
    await follow(storage, vault, Revision(1))
    await vault.close()


def write(file: Path, blob: bytes) -> None:
    file.write_bytes(blob)


def new_folder(path: Path) -> Path:
    path.mkdir()
    return path


async def make(kind: str, place: Path, *, more: int = 0) -> RecoverySource:
    """A place of a kind. The same revisions are the same in each but a replica, which counts no elections."""
    match kind:
        case "backup":
            write(place, file_of(await messages_of(await state(more=more))))
            return RecoverySource(place, SourceKind.BACKUP)
        case "node":
            await write_vault(await state(more=more), place)
            return RecoverySource(place, SourceKind.NODE)
        case "replica":
            shared = Log(MemoryLogStore(KeptLog()))
            storage = await ReplicatedMetaStorage.open(
                shared, SqliteReplicaPlace(new_folder(place)), BoottimeClock(), SystemEntropy()
            )
        case _:
            storage = await SqliteMetaStorage.open(new_folder(place) / FILE_NAME)
    await begin(storage)
    for number in range(more):
        await commit(storage, database(100 + number))
    await storage.close()
    return RecoverySource(place, SourceKind.COORDINATOR)


def image(place: Path) -> dict[str, tuple[bytes, int]]:
    files = [place] if place.is_file() else sorted(place.iterdir())
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in files}


class RecoveryGround:
    """An empty directory to recover into, and what was said of the places."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.examined: list[ExaminedSource] = []

    async def recover(self, *sources: RecoverySource) -> Recovered:
        target = FileTarget(self.directory, lambda: self.directory.mkdir(exist_ok=True))
        return await recover(
            sources, target, wall_s=WALL_S, longest_lease_ns=LONGEST_NS, on_examined=self.examined.append
        )

    async def refused(self, *sources: RecoverySource) -> LeaseholdError:
        with pytest.raises(LeaseholdError) as raised:
            await self.recover(*sources)
        assert raised.value.exit_code == 3
        assert not self.directory.exists()
        return raised.value

    async def open(self) -> SqliteMetaStorage:
        return await SqliteMetaStorage.open(self.directory / FILE_NAME)
