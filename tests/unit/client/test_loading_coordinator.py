"""A coordinator that reads its meta storage is not an uninitialised one: clients wait for it."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.coordinator.runtime import Coordinator
from leasehold.core.words.messages import Message, Receipt
from leasehold.core.words.records import Outcome
from leasehold.errors import LeaseholdError, NotInitialised, NotLeader, Unreachable
from leasehold.ids import StatementId
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.passwords import QuickPasswords
from leasehold.testing.requests import RequestFate
from leasehold.testing.threads import NoThreads
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.rpc import serve

STATEMENT = StatementId("5" * 32)
HEARD_MIN = 3
"""So many questions are answered while the coordinator loads."""


class Loading(Coordinator):
    """Does not come beyond the request `held_at` until `HEARD_MIN` questions have been refused."""

    def __init__(self, store: MemoryStore, held_at: str) -> None:
        storage = MemoryMetaStorage(store)
        storage.before = self._before
        super().__init__(
            name="c1",
            storage=storage,
            clock=BoottimeClock(),
            passwords=QuickPasswords(),
            entropy=SystemEntropy(),
            threads=NoThreads(),
            statement_threads=NoThreads(),
        )
        self.storage = storage
        self.held_at = held_at
        self.refusals: list[LeaseholdError] = []
        self.loads = asyncio.Event()

    async def _before(self, request: str) -> RequestFate:
        if request == self.held_at:
            await self.loads.wait()
        return RequestFate.ANSWERED

    async def call(self, request: Message) -> Message:
        try:
            return await super().call(request)
        except LeaseholdError as error:
            self.refusals.append(error)
            if len(self.refusals) >= HEARD_MIN:
                self.loads.set()
            raise


@contextmanager
def started(store: MemoryStore, *, loaded: bool = False, held_at: str = "range") -> Generator[tuple[Loading, str]]:
    """A coordinator on the store, and its address."""
    ready: list[tuple[Loading, str, Callable[[], object]]] = []
    up = threading.Event()

    async def main() -> None:
        coordinator = Loading(store, held_at)
        if loaded:
            coordinator.loads.set()
        end = asyncio.Event()
        running = asyncio.ensure_future(coordinator.run())
        server = await serve("127.0.0.1:0", coordinator, on_fault=lambda _fault: None)
        loop = asyncio.get_running_loop()
        ready.append((coordinator, server.address, lambda: loop.call_soon_threadsafe(end.set)))
        up.set()
        await end.wait()
        await server.close()
        running.cancel()
        await asyncio.wait([running])
        await coordinator.storage.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert up.wait(10)
    coordinator, address, end = ready[0]
    try:
        yield coordinator, address
    finally:
        end()
        thread.join()


@pytest.fixture
def store() -> MemoryStore:
    """A store with a cluster, in which the statement has been committed."""
    store = MemoryStore()
    with started(store, loaded=True) as (_, address), Coordinators(address) as cluster:
        cluster.initialise()
        receipt = cluster.sql("CREATE DATABASE sales", statement_id=STATEMENT)
        assert isinstance(receipt, Receipt)
        assert receipt.outcome is Outcome.COMMITTED
    return store


def test_a_committed_statement_asked_for_again_while_the_coordinator_loads_tells_its_receipt(
    store: MemoryStore,
) -> None:
    with started(store) as (coordinator, address), Coordinators(address) as cluster:
        receipt = cluster.sql("CREATE DATABASE sales", statement_id=STATEMENT)
        assert isinstance(receipt, Receipt)
        assert receipt.outcome is Outcome.COMMITTED
        assert len(coordinator.refusals) >= HEARD_MIN
        assert all(type(one) is NotLeader for one in coordinator.refusals)


def test_a_coordinator_that_loads_does_not_say_that_it_has_no_cluster(store: MemoryStore) -> None:
    with started(store) as (_, address), Coordinators(address) as cluster:
        for _ in range(HEARD_MIN):
            with pytest.raises(Unreachable, match="reading its meta storage"):
                cluster.status()


def test_a_cluster_is_made_as_soon_as_the_coordinator_leads() -> None:
    with started(MemoryStore(), held_at="campaign") as (coordinator, address), Coordinators(address) as cluster:
        assert cluster.initialise().leader
        assert len(coordinator.refusals) >= HEARD_MIN


def test_a_coordinator_whose_meta_storage_is_empty_says_so() -> None:
    with started(MemoryStore(), loaded=True) as (_, address), Coordinators(address) as cluster:
        while True:
            try:
                cluster.status()
            except Unreachable:
                continue  # it has not read it yet
            except NotInitialised as error:
                assert "leasehold init" in error.hint
                break
