"""Status, leadership and the life of a store. A backend subclasses `LifeSuite` and gives `place`."""

import asyncio

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change, Txn, TxnResult
from leasehold.core.words.records import ClusterRecord, LeaderRecord
from leasehold.errors import Definite, Indefinite
from leasehold.ids import ClusterId, Generation, Revision
from leasehold.limits.messages import FORMAT_VERSION
from leasehold.metastorage.contract import Compacted, MetaStorage
from tests.conformance.metastorage_suite import Place, StorageFixtures, put, value_at, whole_range


async def leader(storage: MetaStorage) -> LeaderRecord:
    found = await storage.leader()
    assert found is not None
    return found


class LifeSuite(StorageFixtures):
    # ------------------------------------------------------------ status and leadership

    async def test_status_of_a_new_store(self, storage: MetaStorage) -> None:
        status = await storage.status()
        assert (status.cluster_id, status.latest, status.minimum) == (None, 0, 1)
        assert await whole_range(storage, b"", b"\xff") == []

    async def test_status_follows_the_cluster_record_and_the_lineage_key(self, storage: MetaStorage) -> None:
        cluster = ClusterRecord(
            cluster_id=ClusterId("ab" * 16), generation=Generation(3), format_version=FORMAT_VERSION
        )
        result = await storage.txn(put((keys.CLUSTER, encode(cluster)), (keys.LINEAGE, b"h")))
        await storage.txn(put((b"outside", b"x")))
        status = await storage.status()
        assert (status.cluster_id, status.latest) == (cluster.cluster_id, result.revision)
        leadership = await storage.campaign("someone")
        assert (await storage.status()).latest == result.revision, "leadership counts for no revision of the lineage"
        assert (await leader(storage)).generation == 3
        await leadership.resign()

    async def test_the_bytes_of_the_history_are_those_above_mm(self, storage: MetaStorage) -> None:
        assert await storage.history_bytes() == 0
        await storage.txn(put((b"a", bytes(5_000))))
        for number in range(4):
            await storage.txn(put((b"b", bytes(1_000)), (b"%d" % number, bytes(1_000))))
        await storage.txn(Txn(then=(Change(b"b", None),)))
        assert 8_000 < await storage.history_bytes() < 9_500, "the first revision is MM itself"
        await storage.compact(Revision(4))
        assert 2_000 < await storage.history_bytes() < 3_000
        await storage.compact(Revision(6))
        assert await storage.history_bytes() < 500

    async def test_terms_rise(self, storage: MetaStorage) -> None:
        first = await storage.campaign("one")
        record = await leader(storage)
        assert (record.term, record.holder, record.generation) == (first.term, "one", 1)
        waiting = asyncio.create_task(storage.campaign("two"))
        await storage.status()
        assert not waiting.done(), "one leads still"
        await first.resign()
        second = await waiting
        assert second.term > first.term
        assert (await leader(storage)).holder == "two"
        await first.resign()
        third = asyncio.create_task(storage.campaign("three"))
        await storage.status()
        assert not third.done(), "resigning twice ends nobody else's term"
        await second.resign()
        assert (await third).term > second.term

    async def test_the_fence_holds_until_another_leads(self, storage: MetaStorage) -> None:
        first = await storage.campaign("one")
        assert (await storage.txn(Txn(compares=first.fence(), then=(Change(b"a", b"1"),)))).succeeded
        assert (await storage.txn(Txn(compares=first.fence(), then=(Change(b"a", b"2"),)))).succeeded
        await first.resign()
        second = await storage.campaign("two")
        assert not (await storage.txn(Txn(compares=first.fence(), then=(Change(b"a", b"3"),)))).succeeded
        assert (await storage.txn(Txn(compares=second.fence(), then=(Change(b"a", b"4"),)))).succeeded

    async def test_a_candidate_that_gives_up_leaves_the_way_free(self, storage: MetaStorage) -> None:
        first = await storage.campaign("one")
        impatient = asyncio.create_task(storage.campaign("two"))
        await storage.status()
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        await first.resign()
        assert (await storage.campaign("three")).term > first.term

    async def test_what_is_confirmed_is_there_to_read(self, storage: MetaStorage) -> None:
        assert await storage.confirm() == 0
        newest = Revision(0)
        for number in range(3):
            newest = (await storage.txn(put((keys.LINEAGE, b"%d" % number)))).revision
            assert await storage.confirm() == newest
            assert await value_at(storage, keys.LINEAGE) == b"%d" % number
        assert await asyncio.gather(*(storage.confirm() for _ in range(10))) == [newest] * 10

    # ------------------------------------------------------------ life

    async def test_a_closed_store_answers_nothing(self, place: Place) -> None:
        storage = await place.open()
        leadership = await storage.campaign("one")
        waiting = asyncio.create_task(storage.campaign("two"))
        await storage.status()
        await storage.close()
        await storage.close()
        with pytest.raises(Indefinite):
            await waiting
        for request in (
            storage.txn(Txn()),
            storage.get(b"a"),
            storage.status(),
            storage.confirm(),
            storage.campaign("three"),
        ):
            with pytest.raises(Definite):
                await request
        await leadership.resign()

    async def test_close_answers_all_that_waits(self, place: Place) -> None:
        storage = await place.open()
        pending = [asyncio.create_task(storage.txn(put((b"%03d" % number, b"v")))) for number in range(500)]
        (first, *rest) = pending
        await first
        await storage.close()
        outcomes = await asyncio.gather(*rest, return_exceptions=True)
        assert all(isinstance(outcome, TxnResult | Indefinite) for outcome in outcomes)
        again = await place.open()
        for number, outcome in enumerate(outcomes, start=1):
            if isinstance(outcome, TxnResult):
                assert await value_at(again, b"%03d" % number) == b"v"
        await again.close()

    async def test_reopening_finds_everything(self, place: Place) -> None:
        storage = await place.open()
        await storage.txn(put((b"a", b"1"), (b"b", b"1")))
        before = (await storage.txn(Txn(then=(Change(b"a", b"2"), Change(b"b", None))))).revision
        newest = (await storage.txn(put((b"a", b"3")))).revision
        await storage.compact(before)
        first = await storage.campaign("one")
        await storage.close()
        storage = await place.open()
        try:
            assert (await storage.status()).minimum == before
            assert [await value_at(storage, b"a", at) for at in (before, newest)] == [b"2", b"3"]
            with pytest.raises(Compacted):
                await storage.get(b"a", Revision(before - 1))
            assert (await storage.campaign("two")).term > first.term
            assert (await storage.txn(put((b"a", b"4")))).revision > newest
        finally:
            await storage.close()
