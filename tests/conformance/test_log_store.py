"""The contract of an engine of a log, for the one in memory."""

import pytest

from leasehold.metastorage.log.store import Swap
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from tests.conformance.log_store_suite import LogStoreSuite, create


class _InMemory:
    def __init__(self) -> None:
        self._kept = KeptLog()

    async def open(self) -> MemoryLogStore:
        return MemoryLogStore(self._kept)


class TestMemory(LogStoreSuite):
    @pytest.fixture
    def engine(self) -> _InMemory:
        return _InMemory()


async def test_a_key_whose_version_was_compared_is_never_deleted() -> None:
    """The rule of the port: an engine may count versions from the creation of a key on."""
    store = MemoryLogStore(KeptLog())
    versions = await store.swap(create(head=b"1"))
    assert versions is not None
    assert await store.swap(Swap(unchanged=versions, puts={"log/head": b"2"})) is not None
    with pytest.raises(AssertionError, match="come again"):
        await store.swap(Swap(unchanged={}, deletes=("log/head",)))
    with pytest.raises(AssertionError, match="come again"):
        await store.delete_below("log", "z")
