"""The meta storage contract, for every backend."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leasehold.metastorage.contract import MetaStorage
from leasehold.metastorage.sqlite import SqliteMetaStorage
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.conformance.metastorage_life_suite import LifeSuite
from tests.conformance.metastorage_suite import MetaStorageSuite
from tests.conformance.metastorage_watch_suite import WatchSuite


@dataclass
class SqlitePlace:
    path: Path

    async def open(self) -> MetaStorage:
        return await SqliteMetaStorage.open(self.path)


@dataclass
class MemoryPlace:
    store: MemoryStore = field(default_factory=MemoryStore)

    async def open(self) -> MetaStorage:
        return MemoryMetaStorage(self.store)


class TestSqlite(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(tmp_path / "meta.db")


class TestMemory(MetaStorageSuite, WatchSuite, LifeSuite):
    @pytest.fixture
    def place(self) -> MemoryPlace:
        return MemoryPlace()
