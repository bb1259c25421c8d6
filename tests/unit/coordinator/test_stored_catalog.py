"""Following the catalog where somebody else compacts."""

import asyncio
import contextlib

import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records, watched
from leasehold.core.words import keys
from leasehold.core.words.operations import Change, Txn
from leasehold.ids import Revision
from leasehold.metastorage.contract import Compacted
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore

CLUSTER_ID = "c" * 32


async def test_who_knows_all_of_the_range_watches_on_where_only_elections_are_compacted():
    store = MemoryStore()
    storage = MemoryMetaStorage(store)
    await storage.txn(Txn(then=first_records(CLUSTER_ID, DEFAULT_SETTINGS)))
    known = (await storage.status()).latest
    for _ in range(3):
        store.lead("c1")
    store.compact(store.newest)
    with pytest.raises(Compacted):
        await anext(storage.watch(keys.WATCH_START, keys.WATCH_END, Revision(known + 1)))
    async with contextlib.aclosing(watched(storage, Revision(known + 1))) as batches:
        first = asyncio.create_task(anext(batches))
        await storage.txn(Txn(then=(Change(keys.LINEAGE, b"%032d" % 1),)))
        assert (await first).revision == store.newest
    with pytest.raises(Compacted):
        await anext(watched(storage, known))
