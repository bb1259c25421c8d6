"""The contract of an engine of a log, for the one in memory."""

import pytest

from leasehold.testing.log_store import KeptLog, MemoryLogStore
from tests.conformance.log_store_suite import LogStoreSuite


class _InMemory:
    def __init__(self) -> None:
        self._kept = KeptLog()

    async def open(self) -> MemoryLogStore:
        return MemoryLogStore(self._kept)


class TestMemory(LogStoreSuite):
    @pytest.fixture
    def engine(self) -> _InMemory:
        return _InMemory()
