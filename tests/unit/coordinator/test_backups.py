"""Backups at a coordinator: all of one revision, whatever is written, compacted or refused meanwhile."""

from contextlib import aclosing
from typing import Any

import pytest

from leasehold.coordinator.backups import Backups
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.words import keys
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import BackupPage, SnapshotBegin, SnapshotEnd
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CheckpointRow
from leasehold.errors import Refused
from leasehold.ids import ObjectId, Revision
from leasehold.limits.metastorage import RETENTION_HOLD_NS
from leasehold.limits.recovery import BACKUPS_AT_ONCE
from leasehold.metastorage.contract import Compacted, MetaStorage
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from tests.backup_words import begin, commit, database, file_of, messages_of


@pytest.fixture
async def storage() -> MemoryMetaStorage:
    storage = MemoryMetaStorage(MemoryStore())
    await begin(storage)
    return storage


def rows_in(messages: list[Any]) -> list[CheckpointRow]:
    return [row for one in messages if isinstance(one, BackupPage) for row in one.rows]


@pytest.mark.parametrize("page_max", [1, 2, 1_000])
async def test_it_holds_all_of_its_revision_and_nothing_of_later_ones(
    storage: MemoryMetaStorage, page_max: int
) -> None:
    storage.page_max = page_max
    catalog = await read_catalog(storage)
    expected = storage.store.rows(catalog.revision)
    async with aclosing(Backups(storage, lambda: 0).serve(catalog)) as stream:
        begun = await anext(stream)
        await commit(storage, database(1, "later"), database(9), Change(keys.database(ObjectId(3)), None))
        messages = [begun, *[message async for message in stream]]
    *rows, leader = rows_in(messages)
    assert rows == [row for row in expected if row.key != keys.LEADER]
    assert leader.key == keys.LEADER
    items = [row for row in rows if row.value is not None]
    assert begun == SnapshotBegin(revision=catalog.revision, keys=len(items))
    digest = 0
    for row in items:
        digest ^= item_digest(row.key, row.value or b"")
    end = SnapshotEnd(revision=catalog.revision, lineage=catalog.lineage, keys=len(items), digest=digest_bytes(digest))
    assert messages[-1] == end
    assert file_of(messages)


async def test_a_revision_that_deletes_much_is_sent_in_several_messages(storage: MemoryMetaStorage) -> None:
    many = [b"c/statement/" + b"%0900d" % number for number in range(12_000)]
    await commit(storage, *(Change(name, b"") for name in many))
    await commit(storage, *(Change(name, None) for name in many))
    messages = await messages_of(storage)
    assert sum(row.value is None for row in rows_in(messages)) == len(many)
    assert len(messages) > 4
    assert file_of(messages)


async def test_what_is_compacted_before_it_is_read_ends_it(storage: MemoryMetaStorage) -> None:
    storage.page_max = 1
    catalog = await read_catalog(storage)
    async with aclosing(Backups(storage, lambda: 0).serve(catalog)) as stream:
        await anext(stream)
        await anext(stream)
        await commit(storage, database(9))
        await storage.compact(Revision(catalog.revision + 1))
        with pytest.raises(Compacted):
            await anext(stream)


async def test_so_many_at_once_and_no_more_and_a_slow_one_gives_way(storage: MemoryMetaStorage) -> None:
    now_ns = 0
    backups, catalog = Backups(storage, lambda: now_ns), await read_catalog(storage)
    streams = [backups.serve(catalog) for _ in range(BACKUPS_AT_ONCE)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(Refused) as raised:
        await anext(backups.serve(catalog))
    assert raised.value.code == "BUSY"
    now_ns = RETENTION_HOLD_NS
    late = backups.serve(catalog)
    assert isinstance(await anext(late), SnapshotBegin)
    with pytest.raises(Refused, match="too slowly"):
        await anext(streams[0])
    await late.aclose()
    another = backups.serve(catalog)
    assert isinstance(await anext(another), SnapshotBegin), "what has ended leaves its place"
    await another.aclose()


async def test_the_same_revision_gives_the_same_bytes(storage: MetaStorage) -> None:
    assert file_of(await messages_of(storage)) == file_of(await messages_of(storage))
