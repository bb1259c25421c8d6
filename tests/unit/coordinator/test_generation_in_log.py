"""A generation that begins in a log that is there, after its store was set back."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from leasehold.coordinator.generation import BegunGeneration, begin_generation_in_log
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.errors import Definite, NotInitialised, Refused
from leasehold.limits.clients import CLIENT_PATIENCE_NS
from leasehold.limits.membership import GENERATION_GAP
from leasehold.metastorage.log.bootstrap import StoreSetBack
from leasehold.metastorage.log.campaign import BeatenLeadership
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import PatientClient
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.unled import StillLed
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.loop import run_virtual
from leasehold.testing.replica import MemoryReplicaPlace
from leasehold.testing.requests import RequestFate
from tests.backup_words import WALL_S, begin, commit, database
from tests.unit.metastorage.log_ground import virtual_clock


class Store:
    """A store, coordinators that open its log with replicas of their own, and the command."""

    def __init__(self, random) -> None:
        self.kept = KeptLog()
        self._entropy = SeededEntropy(random)

    async def open(self, place: MemoryReplicaPlace | None = None) -> ReplicatedMetaStorage:
        shared = Log(MemoryLogStore(self.kept))
        return await ReplicatedMetaStorage.open(shared, place or MemoryReplicaPlace(), virtual_clock(), self._entropy)

    async def trim(self, storage: ReplicatedMetaStorage, leadership: BeatenLeadership) -> None:
        """Writes a checkpoint of all that is there, and trims the log below it."""
        await storage.compact((await storage.status()).latest, leadership.fence())
        storage.upkeep.log_bytes_min = 1
        await storage.upkeep.tidy(leadership.log_fence)
        assert await Log(MemoryLogStore(self.kept)).checkpoint() is not None

    async def recover(self, store: MemoryLogStore | None = None) -> BegunGeneration:
        shared = Log(store or MemoryLogStore(self.kept))
        storage = await self.open()
        try:
            client = PatientClient(virtual_clock(), CLIENT_PATIENCE_NS)
            return await begin_generation_in_log(storage, shared, client, wall_s=WALL_S, longest_lease_ns=0)
        finally:
            await storage.close()


def on_a_store(main: Callable[[Store], Awaitable[None]]) -> None:
    run_virtual(lambda random: main(Store(random)), 1)


def test_the_log_goes_on_in_a_new_generation_and_those_within_it_follow():
    async def main(store):
        within, beyond = MemoryReplicaPlace(), MemoryReplicaPlace()
        first = await store.open(within)
        await begin(first)
        saved, before = store.kept.copy(), await read_catalog(first)
        await first.close()
        second = await store.open(beyond)
        await second.campaign("c2")
        await commit(second, database(70))
        lost = await second.leader()
        await second.close()
        store.kept.set_back(saved)

        begun = await store.recover()
        assert begun.nodes == ("node-1", "node-2")
        standing = await Log(MemoryLogStore(store.kept)).leader()
        assert standing.record.holder == ""
        assert standing.record.term > lost.term + GENERATION_GAP
        with pytest.raises(StoreSetBack):
            await store.open(beyond)
        again = await store.open(within)
        catalog = await read_catalog(again)
        assert catalog.revision == before.revision + 1
        assert (catalog.cluster.generation, catalog.cluster.origins[-1].lineage) == (WALL_S, before.lineage)
        leadership = await asyncio.wait_for(again.campaign("c1"), 1)
        assert leadership.term == standing.record.term + 1
        for number in range(80, 90):
            await commit(again, database(number))
        with pytest.raises(StoreSetBack):  # though the log has gone on beyond it
            await store.open(beyond)
        await store.trim(again, leadership)
        await again.close()
        kept = beyond.kept
        with pytest.raises(StoreSetBack):  # though its entry would not be in the log any more
            await store.open(beyond)
        assert beyond.kept == kept

    on_a_store(main)


def test_a_replica_within_the_history_that_was_left_is_built_anew_from_a_checkpoint():
    async def main(store):
        within = MemoryReplicaPlace()
        first = await store.open(within)
        await begin(first)
        await first.close()
        await store.recover()
        again = await store.open()
        leadership = await again.campaign("c2")
        await commit(again, database(70))
        await store.trim(again, leadership)
        await again.close()
        opened = await store.open(within)
        assert (await read_catalog(opened)).cluster.generation == WALL_S
        await opened.close()

    on_a_store(main)


def test_it_is_refused_while_a_coordinator_leads_and_changes_nothing():
    async def main(store):
        leading = await store.open()
        await begin(leading)
        leadership = await leading.campaign("c1")
        holding = asyncio.ensure_future(leadership.hold(lambda _: None))
        with pytest.raises(StillLed, match="c1 leads"):
            await store.recover()
        await commit(leading, database(70))
        assert (await read_catalog(leading)).cluster.generation == 1
        holding.cancel()
        await leading.close()
        await store.recover()

    on_a_store(main)


def test_a_coordinator_that_is_faster_wins():
    async def main(store):
        first = await store.open()
        await begin(first)
        await (await first.campaign("c1")).resign()

        async def racing(request):
            if request.startswith("swap log/leader"):
                await first.campaign("c1")
            return RequestFate.ANSWERED

        with pytest.raises(StillLed, match="c1 leads"):
            await store.recover(MemoryLogStore(store.kept, before=racing))
        await commit(first, database(70))
        await first.close()

    on_a_store(main)


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER])
def test_each_request_about_the_leader_without_an_answer_is_sent_again(fate):
    async def main(store):
        first = await store.open()
        await begin(first)
        await (await first.campaign("c1")).resign()
        await first.close()
        asked = Counter()

        async def lost(request):
            asked[request] += 1
            return fate if "log/leader" in request and asked[request] % 2 else RequestFate.ANSWERED

        await store.recover(MemoryLogStore(store.kept, before=lost))
        assert asked["swap log/leader log/term"] == 2

    on_a_store(main)


def test_a_coordinator_that_leads_between_the_term_and_the_generation_is_not_disturbed():
    async def main(store):
        first = await store.open()
        await begin(first)
        await (await first.campaign("c1")).resign()
        holding = []

        async def racing(request):
            if request.startswith("swap log/leader"):
                asyncio.get_running_loop().call_soon(lambda: holding.append(asyncio.ensure_future(leads())))
            return RequestFate.ANSWERED

        async def leads():
            await (await first.campaign("c1")).hold(lambda _: None)

        with pytest.raises(Definite) as raised:
            await store.recover(MemoryLogStore(store.kept, before=racing))
        assert raised.value.code in {"LEADERSHIP_LOST", "STILL_LED"}
        assert (await read_catalog(first)).cluster.generation == 1
        await commit(first, database(70))
        holding[0].cancel()
        await first.close()

    on_a_store(main)


def test_a_log_without_a_cluster_and_a_clock_that_is_behind_are_refused():
    async def main(store):
        await (await store.open()).close()
        before = dict(store.kept.values)
        with pytest.raises(NotInitialised):
            await store.recover()
        assert store.kept.values == before
        first = await store.open()
        await begin(first)
        await first.close()
        await store.recover()
        before = dict(store.kept.values)
        with pytest.raises(Refused) as raised:
            await store.recover()
        assert raised.value.code == "CLOCK_SET_BACK"
        assert store.kept.values == before

    on_a_store(main)
