"""The contract of an engine of a log, for the one in memory, also while a member of it lags."""

import asyncio

import pytest

from leasehold.errors import Indefinite
from leasehold.metastorage.log.store import Swap
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.requests import RequestFate
from tests.conformance.log_store_suite import LogStoreSuite, create
from tests.conformance.store_words import every_other_read_is_stale


class _InMemory:
    def __init__(self) -> None:
        self._kept = KeptLog()

    async def open(self) -> MemoryLogStore:
        return MemoryLogStore(self._kept)


class TestMemory(LogStoreSuite):
    @pytest.fixture
    def engine(self) -> _InMemory:
        return _InMemory()


class _Lagging(_InMemory):
    """Each read is first answered by a member that lags."""

    def __init__(self) -> None:
        super().__init__()
        self._kept.may_read_stale = True
        self._kept.lag()

    async def open(self) -> MemoryLogStore:
        return MemoryLogStore(self._kept, before=every_other_read_is_stale())


class TestMemoryThatReadsStale(LogStoreSuite):
    @pytest.fixture
    def engine(self) -> _Lagging:
        return _Lagging()


async def test_a_client_believes_no_answer_from_before_its_own_write() -> None:
    """As who was elected: its first head is not from before its election."""
    kept = KeptLog()
    kept.lag()
    store = MemoryLogStore(kept, before=every_other_read_is_stale())
    assert await store.swap(create(head=b"1")) is not None
    found = await store.get("log/head")
    assert found is not None
    assert found.value == b"1"


async def test_an_answer_without_what_another_client_wrote_is_believed_unless_reads_are_known_to_be_old() -> None:
    """So the release of etcd has to be known. Where only stale members answer, nothing is."""
    kept, old = KeptLog(), RequestFate.STALE

    async def before(request: str) -> RequestFate:
        await asyncio.sleep(0)
        return old if request.startswith("get") else RequestFate.ANSWERED

    kept.lag()
    store, other = MemoryLogStore(kept, before=before), MemoryLogStore(kept)
    assert await other.swap(create(head=b"1")) is not None
    assert await store.get("log/head") is None
    kept.may_read_stale = True
    with pytest.raises(Indefinite):
        await store.get("log/head")
    old = RequestFate.ANSWERED
    assert await store.get("log/head") is not None


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
