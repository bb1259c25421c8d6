"""The meta storage contract, for every backend."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leasehold.limits.metastorage import COMPACTION_SLICE_ROWS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.database import DatabaseLimits
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.replica import ReplicaPlace
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_model import hold_to_the_model
from tests.conformance.metastorage_suite import MetaStorageSuite, Place
from tests.conformance.metastorage_watch_suite import WatchSuite
from tests.few import examples


@dataclass
class SqlitePlace:
    path: Path

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        return await SqliteMetaStorage.open(self.path, limits=DatabaseLimits(slice_rows=slice_rows))


@dataclass
class MemoryPlace:
    store: MemoryStore = field(default_factory=MemoryStore)

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        return MemoryMetaStorage(self.store)


@dataclass
class ReplicatedPlace:
    """A coordinator's directory, and the log that it shares."""

    replica: ReplicaPlace
    kept: KeptLog = field(default_factory=KeptLog)

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        if isinstance(self.replica, SqliteReplicaPlace):
            self.replica.limits = DatabaseLimits(slice_rows=slice_rows)
        store = MemoryLogStore(self.kept)
        return await ReplicatedMetaStorage.open(Log(store), self.replica, BoottimeClock(), SystemEntropy())


class TestSqlite(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(tmp_path / "meta.db")


class TestMemory(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestReplicated(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> ReplicatedPlace:
        return ReplicatedPlace(SqliteReplicaPlace(tmp_path))


class TestReplicatedInMemory(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self) -> ReplicatedPlace:
        return ReplicatedPlace(MemoryReplicaPlace())


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda directory: SqlitePlace(directory / "meta.db"), id="sqlite"),
        pytest.param(lambda _: MemoryPlace(), id="memory"),
        pytest.param(lambda directory: ReplicatedPlace(SqliteReplicaPlace(directory)), id="replicated"),
        pytest.param(lambda _: ReplicatedPlace(MemoryReplicaPlace()), id="replicated in memory"),
    ],
)
def test_random_histories_agree_with_the_model(place: Callable[[Path], Place]) -> None:
    hold_to_the_model(place, examples=examples(40))
