"""What every meta storage must do: transactions, bounds, reads, compaction.

A backend subclasses `MetaStorageSuite` and gives `place`.

Revisions are compared with each other, never with numbers: a new store may begin above 0.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from leasehold.core.words.operations import Change, Exists, KeyValue, Missing, ModifiedAt, Txn, TxnResult, ValueIs
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.limits.messages import KEY_BYTES_MAX, VALUE_BYTES_MAX
from leasehold.limits.metastorage import (
    COMPACTION_SLICE_ROWS,
    RANGE_PAGE_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
)
from leasehold.metastorage.contract import Compacted, FutureRevision, MetaStorage


class Place(Protocol):
    """Where a store lives: `open` again, after a close, finds what was there. One that sweeps in slices takes so many
    rows at once."""

    async def open(self, *, slice_rows: int = COMPACTION_SLICE_ROWS) -> MetaStorage: ...


def put(*pairs: tuple[bytes, bytes]) -> Txn:
    return Txn(then=tuple(Change(key, value) for key, value in pairs))


def delete(*names: bytes) -> Txn:
    return Txn(then=tuple(Change(name, None) for name in names))


async def value_at(storage: MetaStorage, key: bytes, revision: Revision | None = None) -> bytes | None:
    found = await storage.get(key, revision)
    return None if found is None else found.value


async def whole_range(
    storage: MetaStorage, start: bytes, end: bytes, revision: Revision | None = None, limit: int = 7
) -> list[KeyValue]:
    page = await storage.range(start, end, revision=revision, limit=limit)
    items = list(page.items)
    while page.next_start is not None:
        page = await storage.range(page.next_start, end, revision=page.revision, limit=limit)
        items += page.items
    return items


class StorageFixtures:
    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError

    @pytest.fixture
    async def storage(self, place: Place) -> AsyncIterator[MetaStorage]:
        storage = await place.open()
        yield storage
        await storage.close()


class MetaStorageSuite(StorageFixtures):
    # ------------------------------------------------------------ transactions

    async def test_a_put_can_be_read(self, storage: MetaStorage) -> None:
        result = await storage.txn(put((b"a", b"1")))
        assert result.succeeded
        found = await storage.get(b"a")
        assert found == KeyValue(key=b"a", value=b"1", created=result.revision, modified=result.revision, version=1)
        assert await storage.get(b"b") is None

    async def test_created_modified_and_version(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"a", b"1")))).revision
        second = (await storage.txn(put((b"a", b"1")))).revision
        assert second == first + 1, "writing the same value again is a write"
        assert await storage.get(b"a") == KeyValue(key=b"a", value=b"1", created=first, modified=second, version=2)
        await storage.txn(delete(b"a"))
        again = (await storage.txn(put((b"a", b"")))).revision
        assert again == second + 2
        assert await storage.get(b"a") == KeyValue(key=b"a", value=b"", created=again, modified=again, version=1)

    async def test_all_changes_of_a_transaction_share_a_revision(self, storage: MetaStorage) -> None:
        await storage.txn(put((b"gone", b"x")))
        result = await storage.txn(Txn(then=(Change(b"b", b"2"), Change(b"gone", None), Change(b"a", b"1"))))
        items = await whole_range(storage, b"a", b"z")
        assert [(item.key, item.modified) for item in items] == [(b"a", result.revision), (b"b", result.revision)]

    async def test_each_kind_of_compare(self, storage: MetaStorage) -> None:
        written = (await storage.txn(put((b"a", b"1"), (b"empty", b"")))).revision
        await storage.txn(put((b"gone", b"x")))
        await storage.txn(delete(b"gone"))
        expected = (
            (Exists(b"a"), True),
            (Exists(b"empty"), True),
            (Exists(b"gone"), False),
            (Exists(b"never"), False),
            (Missing(b"a"), False),
            (Missing(b"gone"), True),
            (Missing(b"never"), True),
            (ValueIs(b"a", b"1"), True),
            (ValueIs(b"a", b"2"), False),
            (ValueIs(b"empty", b""), True),
            (ValueIs(b"never", b""), False),
            (ValueIs(b"gone", b"x"), False),
            (ModifiedAt(b"a", written), True),
            (ModifiedAt(b"a", Revision(written + 1)), False),
            (ModifiedAt(b"a", Revision(0)), False),
            (ModifiedAt(b"never", Revision(0)), True),
            (ModifiedAt(b"gone", Revision(0)), True),
        )
        for compare, holds in expected:
            assert (await storage.txn(Txn(compares=(compare,)))).succeeded is holds, compare

    async def test_all_compares_must_hold_and_else_the_other_branch_runs(self, storage: MetaStorage) -> None:
        before = (await storage.txn(put((b"a", b"1")))).revision
        txn = Txn(
            compares=(Exists(b"a"), Missing(b"b")),
            then=(Change(b"b", b"then"),),
            otherwise=(Change(b"c", b"otherwise"),),
        )
        assert await storage.txn(txn) == TxnResult(succeeded=True, revision=Revision(before + 1))
        assert await storage.txn(txn) == TxnResult(succeeded=False, revision=Revision(before + 2))
        assert await value_at(storage, b"b") == b"then"
        assert await value_at(storage, b"c") == b"otherwise"

    async def test_a_branch_that_changes_nothing_takes_no_revision(self, storage: MetaStorage) -> None:
        before = (await storage.txn(put((b"a", b"1")))).revision
        assert await storage.txn(Txn()) == TxnResult(succeeded=True, revision=before)
        assert await storage.txn(delete(b"never")) == TxnResult(succeeded=True, revision=before)
        refused = Txn(compares=(Missing(b"a"),), then=(Change(b"a", b"2"),))
        assert await storage.txn(refused) == TxnResult(succeeded=False, revision=before)
        assert (await storage.txn(put((b"b", b"1")))).revision == before + 1

    async def test_a_key_twice_in_a_branch_is_refused(self, storage: MetaStorage) -> None:
        twice = (Change(b"a", b"1"), Change(b"b", b"1"), Change(b"a", None))
        for txn in (Txn(then=twice), Txn(otherwise=twice)):
            with pytest.raises(Refused) as refused:
                await storage.txn(txn)
            assert refused.value.code == "DUPLICATE_KEY"
        assert await storage.get(b"b") is None
        assert (await storage.txn(Txn(then=(Change(b"a", b"1"),), otherwise=(Change(b"a", b"2"),)))).succeeded

    async def test_one_of_many_racing_for_a_key_wins(self, storage: MetaStorage) -> None:
        race = [Txn(compares=(Missing(b"a"),), then=(Change(b"a", b"%d" % number),)) for number in range(50)]
        results = await asyncio.gather(*(storage.txn(txn) for txn in race))
        (winner,) = (number for number, result in enumerate(results) if result.succeeded)
        assert await value_at(storage, b"a") == b"%d" % winner

    async def test_concurrent_transactions_take_distinct_revisions(self, storage: MetaStorage) -> None:
        results = await asyncio.gather(*(storage.txn(put((b"k%03d" % number, b"v"))) for number in range(300)))
        revisions = sorted(result.revision for result in results)
        assert revisions == list(range(revisions[0], revisions[0] + 300))
        for number in (0, 150, 299):
            found = await storage.get(b"k%03d" % number)
            assert found is not None
            assert found.modified == results[number].revision

    async def test_counting_by_compare_and_swap_loses_nothing(self, storage: MetaStorage) -> None:
        async def count() -> None:
            for _ in range(5):
                while True:
                    found = await storage.get(b"n")
                    compare = Missing(b"n") if found is None else ModifiedAt(b"n", found.modified)
                    number = 0 if found is None else int(found.value)
                    if (
                        await storage.txn(Txn(compares=(compare,), then=(Change(b"n", b"%d" % (number + 1)),)))
                    ).succeeded:
                        break

        await asyncio.gather(*(count() for _ in range(6)))
        assert await value_at(storage, b"n") == b"30"

    # ------------------------------------------------------------ bounds

    async def test_keys_at_the_bound_pass_and_over_it_are_refused(self, storage: MetaStorage) -> None:
        longest = b"k" * KEY_BYTES_MAX
        assert (await storage.txn(put((longest, b"1")))).succeeded
        assert [item.key for item in await whole_range(storage, b"k", b"l", limit=1)] == [longest]
        for bad, code in ((longest + b"k", "TOO_LARGE"), (b"", "BAD_KEY")):
            for txn in (put((bad, b"1")), Txn(compares=(Exists(bad),)), Txn(otherwise=(Change(bad, None),))):
                with pytest.raises(Refused) as refused:
                    await storage.txn(txn)
                assert refused.value.code == code
            with pytest.raises(Refused):
                await storage.get(bad)

    async def test_values_at_the_bound_pass_and_over_it_are_refused(self, storage: MetaStorage) -> None:
        largest = bytes(VALUE_BYTES_MAX)
        assert (await storage.txn(put((b"a", largest)))).succeeded
        assert await value_at(storage, b"a") == largest
        with pytest.raises(Refused) as refused:
            await storage.txn(put((b"a", largest + b"1")))
        assert refused.value.code == "TOO_LARGE"
        assert refused.value.hint

    async def test_too_many_operations_are_refused(self, storage: MetaStorage) -> None:
        changes = tuple(Change(b"%06d" % number, None) for number in range(TRANSACTION_OPERATIONS_MAX + 1))
        compares = tuple(Missing(b"a") for _ in range(TRANSACTION_OPERATIONS_MAX + 1))
        for txn in (Txn(then=changes), Txn(otherwise=changes), Txn(compares=compares)):
            with pytest.raises(Refused) as refused:
                await storage.txn(txn)
            assert refused.value.code == "TOO_LARGE"

    async def test_a_transaction_larger_than_a_message_is_refused(self, storage: MetaStorage) -> None:
        value = bytes(VALUE_BYTES_MAX)
        count = TRANSACTION_BYTES_MAX // VALUE_BYTES_MAX + 1
        with pytest.raises(Refused) as refused:
            await storage.txn(put(*((b"%d" % number, value) for number in range(count))))
        assert refused.value.code == "TOO_LARGE"

    # ------------------------------------------------------------ ranges and history

    async def test_a_range_is_half_open_and_in_key_order(self, storage: MetaStorage) -> None:
        await storage.txn(put(*((name, b"v") for name in (b"b", b"a\x00", b"\xff", b"c", b"a", b"bb"))))
        assert [item.key for item in await whole_range(storage, b"a", b"c", limit=2)] == [b"a", b"a\x00", b"b", b"bb"]
        assert [item.key for item in await whole_range(storage, b"c", b"\xff\xff")] == [b"c", b"\xff"]
        assert await whole_range(storage, b"c", b"a") == []
        assert await whole_range(storage, b"b", b"b") == []

    async def test_pages_stay_at_their_revision_while_writes_go_on(self, storage: MetaStorage) -> None:
        await storage.txn(put(*((b"k%02d" % number, b"old") for number in range(20))))
        page = await storage.range(b"k", b"l", limit=6)
        seen = list(page.items)
        pages = 1
        while page.next_start is not None:
            assert len(page.items) == 6
            assert page.next_start == page.items[-1].key + b"\x00"
            await storage.txn(
                Txn(
                    then=(
                        Change(b"k19", b"new"),
                        Change(b"k%02d" % (pages * 6), None),
                        Change(b"k05x%d" % pages, b"new"),
                    )
                )
            )
            page = await storage.range(page.next_start, b"l", revision=page.revision, limit=6)
            seen += page.items
            pages += 1
        assert pages == 4
        assert [(item.key, item.value) for item in seen] == [(b"k%02d" % number, b"old") for number in range(20)]

    async def test_a_page_that_holds_all_has_no_next(self, storage: MetaStorage) -> None:
        await storage.txn(put((b"a", b"1"), (b"b", b"2")))
        page = await storage.range(b"a", b"z", limit=2)
        assert (len(page.items), page.next_start) == (2, None)

    async def test_a_page_has_a_bounded_size(self, storage: MetaStorage) -> None:
        await storage.txn(put(*((b"%05d" % number, b"") for number in range(RANGE_PAGE_MAX + 1))))
        page = await storage.range(b"0", b"1", limit=RANGE_PAGE_MAX + 1)
        assert len(page.items) == RANGE_PAGE_MAX
        assert page.next_start is not None
        with pytest.raises(Refused):
            await storage.range(b"0", b"1", limit=0)

    async def test_old_revisions_stay_readable(self, storage: MetaStorage) -> None:
        one = (await storage.txn(put((b"a", b"1"), (b"b", b"1")))).revision
        two = (await storage.txn(Txn(then=(Change(b"a", b"2"), Change(b"b", None))))).revision
        three = (await storage.txn(put((b"b", b"3")))).revision
        assert [await value_at(storage, b"a", at) for at in (one, two, three)] == [b"1", b"2", b"2"]
        assert [await value_at(storage, b"b", at) for at in (one, two, three)] == [b"1", None, b"3"]
        assert [item.key for item in await whole_range(storage, b"a", b"c", two)] == [b"a"]
        assert [item.version for item in await whole_range(storage, b"a", b"c", three)] == [2, 1]

    async def test_a_revision_that_does_not_exist_yet_is_refused(self, storage: MetaStorage) -> None:
        newest = (await storage.txn(put((b"a", b"1")))).revision
        with pytest.raises(FutureRevision):
            await storage.get(b"a", Revision(newest + 1))
        with pytest.raises(FutureRevision):
            await storage.range(b"a", b"b", revision=Revision(newest + 1), limit=1)

    # ------------------------------------------------------------ compaction

    async def test_compaction_keeps_what_is_still_visible(self, storage: MetaStorage) -> None:
        old = (await storage.txn(put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1")))).revision
        await storage.txn(Txn(then=(Change(b"a", b"2"), Change(b"b", None))))
        before = (await storage.txn(Txn(then=(Change(b"a", b"3"), Change(b"d", None))))).revision
        last = (await storage.txn(delete(b"c"))).revision
        await storage.compact(before)
        assert (await storage.status()).minimum == before
        expected = {b"a": (b"3", 3), b"c": (b"1", 1)}
        found = await whole_range(storage, b"a", b"z", before)
        assert {item.key: (item.value, item.version) for item in found} == expected
        assert [item.key for item in await whole_range(storage, b"a", b"z", last)] == [b"a"]
        assert [await value_at(storage, name, before) for name in (b"a", b"b", b"c", b"d")] == [b"3", None, b"1", None]
        for revision in (old, Revision(before - 1)):
            with pytest.raises(Compacted) as compacted:
                await storage.get(b"a", revision)
            assert compacted.value.minimum == before
            with pytest.raises(Compacted):
                await storage.range(b"a", b"z", revision=revision, limit=1)

    async def test_compaction_overtakes_a_paged_range(self, storage: MetaStorage) -> None:
        await storage.txn(put((b"a", b"1"), (b"b", b"1")))
        page = await storage.range(b"a", b"z", limit=1)
        assert page.next_start is not None
        await storage.compact((await storage.txn(put((b"b", b"2")))).revision)
        with pytest.raises(Compacted):
            await storage.range(page.next_start, b"z", revision=page.revision, limit=1)

    async def test_compaction_neither_goes_back_nor_beyond_the_newest(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"a", b"1")))).revision
        second = (await storage.txn(put((b"a", b"2")))).revision
        with pytest.raises(FutureRevision):
            await storage.compact(Revision(second + 1))
        await storage.compact(second)
        with pytest.raises(Compacted):
            await storage.compact(first)
        await storage.compact(second)
        assert (await storage.status()).minimum == second
        assert await value_at(storage, b"a") == b"2"

    async def test_compaction_changes_no_revision_and_no_version(self, storage: MetaStorage) -> None:
        for number in range(5):
            newest = (await storage.txn(put((b"a", b"%d" % number)))).revision
        before = await storage.get(b"a")
        await storage.compact(newest)
        assert await storage.get(b"a") == before
        result = await storage.txn(Txn(compares=(ModifiedAt(b"a", newest),), then=(Change(b"a", b"x"),)))
        assert result == TxnResult(succeeded=True, revision=Revision(newest + 1))
        after = await storage.get(b"a")
        assert after is not None
        assert after.version == 6
