"""The meta storage contract, for every backend."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from leasehold.limits.metastorage import COMPACTION_SLICE_ROWS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.database import DatabaseLimits
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.testing.campaign import TIMING
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.wire.clock import BoottimeClock
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_suite import MetaStorageSuite
from tests.conformance.metastorage_watch_suite import WatchSuite


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
class SharedPlace:
    """The store of several machines: led by the leader record and its beats."""

    store: MemoryStore = field(default_factory=MemoryStore)

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage:
        timing = msgspec.structs.replace(TIMING, duration_ns=2 * SECOND_NS, margin_ns=50 * MILLISECOND_NS)
        return MemoryMetaStorage(self.store, clock=BoottimeClock(), timing=timing)


class TestSqlite(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(tmp_path / "meta.db")


class TestMemory(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()


class TestShared(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self) -> SharedPlace:
        return SharedPlace()
