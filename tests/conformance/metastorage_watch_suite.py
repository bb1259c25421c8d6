"""What every meta storage's watch must do. A backend subclasses `WatchSuite` and gives `place`."""

import asyncio
from contextlib import aclosing, suppress

import pytest

from leasehold.core.words.operations import Change, Missing, RevisionChanges, Txn
from leasehold.errors import Indefinite
from leasehold.ids import Revision
from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.metastorage import REPLAY_BYTES_MAX, REPLAY_REVISIONS_MAX
from leasehold.limits.sessions import WATCH_QUEUE_REVISIONS_MAX
from leasehold.metastorage.contract import Compacted, MetaStorage
from tests.conformance.metastorage_suite import Place, StorageFixtures, delete, put, value_at, whole_range

START, END = b"c/", b"c0"


async def take(watch, count: int) -> list[RevisionChanges]:
    return [await anext(watch) for _ in range(count)]


async def take_into(seen: list[Revision], watch) -> None:
    async for batch in watch:
        seen += (batch.revision,)


async def write_many(storage: MetaStorage, count: int) -> Revision:
    """That many revisions of one change each; answers the last one."""
    last = Revision(0)
    for begin in range(0, count, 1_000):
        results = await asyncio.gather(
            *(
                storage.txn(put((b"c/k%d" % (number % 10), b"%d" % number)))
                for number in range(begin, min(count, begin + 1_000))
            )
        )
        last = max(last, *(result.revision for result in results))
    return last


class WatchSuite(StorageFixtures):
    RACING = 240
    """So many writes race with readers and compaction."""

    async def test_replays_then_goes_live(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        second = (await storage.txn(Txn(then=(Change(b"c/b", b"2"), Change(b"c/a", None))))).revision
        async with aclosing(storage.watch(START, END, first)) as watch:
            assert await take(watch, 2) == [
                RevisionChanges(first, (Change(b"c/a", b"1"),)),
                RevisionChanges(second, (Change(b"c/a", None), Change(b"c/b", b"2"))),
            ]
            waiting = asyncio.create_task(anext(watch))
            third = (await storage.txn(put((b"c/a", b"3")))).revision
            assert await waiting == RevisionChanges(third, (Change(b"c/a", b"3"),))

    async def test_begins_in_the_middle_or_at_the_next_revision(self, storage: MetaStorage) -> None:
        await storage.txn(put((b"c/a", b"1")))
        second = (await storage.txn(put((b"c/a", b"2")))).revision
        async with aclosing(storage.watch(START, END, second)) as middle:
            assert (await anext(middle)).revision == second
        async with aclosing(storage.watch(START, END, Revision(second + 1))) as later:
            waiting = asyncio.create_task(anext(later))
            third = (await storage.txn(put((b"c/a", b"3")))).revision
            assert (await waiting).revision == third

    async def test_begins_in_the_future(self, storage: MetaStorage) -> None:
        newest = (await storage.txn(put((b"c/a", b"1")))).revision
        async with aclosing(storage.watch(START, END, Revision(newest + 3))) as watch:
            waiting = asyncio.create_task(anext(watch))
            for _ in range(3):
                last = (await storage.txn(put((b"c/a", b"2")))).revision
            assert (await waiting).revision == last == newest + 3

    async def test_begins_beyond_any_revision(self, storage: MetaStorage) -> None:
        async with aclosing(storage.watch(START, END, Revision(2**64 - 1))) as watch:
            waiting = asyncio.create_task(anext(watch))
            await storage.txn(put((b"c/a", b"1")))
            await storage.status()
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    async def test_sees_only_its_range(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"b", b"x"), (b"c/", b"1"), (b"c/z", b"1"), (b"c0", b"x")))).revision
        await storage.txn(put((b"c", b"x"), (b"d", b"x")))
        async with aclosing(storage.watch(START, END, first)) as watch:
            assert await anext(watch) == RevisionChanges(first, (Change(b"c/", b"1"), Change(b"c/z", b"1")))
            waiting = asyncio.create_task(anext(watch))
            await storage.txn(put((b"c0", b"y"), (b"a", b"y")))
            last = (await storage.txn(put((b"c0", b"z"), (b"c/m", b"z"), (b"a", b"z")))).revision
            assert await waiting == RevisionChanges(last, (Change(b"c/m", b"z"),))

    async def test_what_changes_nothing_is_not_seen(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        async with aclosing(storage.watch(START, END, first)) as watch:
            await anext(watch)
            waiting = asyncio.create_task(anext(watch))
            await storage.txn(delete(b"c/never"))
            await storage.txn(Txn(compares=(Missing(b"c/a"),), then=(Change(b"c/a", b"2"),)))
            last = (await storage.txn(Txn(then=(Change(b"c/never", None), Change(b"c/a", b"3"))))).revision
            assert await waiting == RevisionChanges(last, (Change(b"c/a", b"3"),))

    async def test_no_gap_and_no_repeat_while_many_write(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/start", b"")))).revision
        writers, each = 8, 40
        last = first + writers * each

        async def write(name: int) -> list[tuple[Revision, bytes]]:
            done: list[tuple[Revision, bytes]] = []
            for number in range(each):
                value = b"%d-%d" % (name, number)
                result = await storage.txn(put((b"c/%d" % name, value), (b"c/shared", value), (b"x/%d" % name, b"")))
                done.append((result.revision, value))
            return done

        async def follow(from_revision: Revision) -> list[RevisionChanges]:
            seen: list[RevisionChanges] = []
            async with aclosing(storage.watch(START, END, from_revision)) as watch:
                async for batch in watch:
                    seen.append(batch)
                    if batch.revision == last:
                        break
            return seen

        async def follow_late() -> list[RevisionChanges]:
            # Begins in the midst of the writing: from the first revision, through history, into the live part.
            async with aclosing(storage.watch(START, END, first)) as watch:
                await take(watch, 60)
            return await follow(first)

        results = await asyncio.gather(follow(first), follow_late(), *(write(name) for name in range(writers)))
        early, late, *written = results
        values = {revision: value for part in written for revision, value in part}
        assert early == late
        assert [batch.revision for batch in early] == list(range(first, last + 1))
        for batch in early[1:]:
            value = values[batch.revision]
            name = value.split(b"-")[0]
            assert batch.changes == (Change(b"c/" + name, value), Change(b"c/shared", value))

    async def test_an_event_is_durable_before_it_is_seen(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"0")))).revision
        async with aclosing(storage.watch(START, END, Revision(first + 1))) as watch:
            for number in range(1, 20):
                writing = asyncio.create_task(storage.txn(put((b"c/a", b"%d" % number))))
                batch = await anext(watch)
                found = await storage.get(b"c/a", batch.revision)
                assert found is not None
                assert found.value == b"%d" % number
                await writing

    async def test_compacted_when_too_old(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        second = (await storage.txn(put((b"c/a", b"2")))).revision
        await storage.txn(delete(b"c/a"))
        await storage.compact(second)
        with pytest.raises(Compacted) as compacted:
            await anext(storage.watch(START, END, first))
        assert compacted.value.minimum == second
        async with aclosing(storage.watch(START, END, second)) as watch:
            assert [batch.changes[0].value for batch in await take(watch, 2)] == [b"2", None]

    async def test_a_delete_at_the_oldest_revision_is_replayed(self, storage: MetaStorage) -> None:
        await storage.txn(put((b"c/a", b"1")))
        gone = (await storage.txn(delete(b"c/a"))).revision
        await storage.compact(gone)
        async with aclosing(storage.watch(START, END, gone)) as watch:
            assert await anext(watch) == RevisionChanges(gone, (Change(b"c/a", None),))

    async def test_compaction_does_not_disturb_a_watch_that_keeps_up(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        async with aclosing(storage.watch(START, END, first)) as watch:
            await anext(watch)
            waiting = asyncio.create_task(anext(watch))
            for _ in range(5):
                newest = (await storage.txn(put((b"elsewhere", b"")))).revision
            await storage.compact(newest)
            last = (await storage.txn(put((b"c/a", b"2")))).revision
            assert (await waiting).revision == last

    async def test_replays_a_history_longer_than_one_read(self, storage: MetaStorage) -> None:
        last = await write_many(storage, REPLAY_REVISIONS_MAX + 10)
        first = last - REPLAY_REVISIONS_MAX - 9
        async with aclosing(storage.watch(START, END, Revision(first))) as watch:
            seen = await take(watch, REPLAY_REVISIONS_MAX + 10)
        assert [batch.revision for batch in seen] == list(range(first, last + 1))

    async def test_replays_a_history_with_more_bytes_than_one_read(self, storage: MetaStorage) -> None:
        value = bytes(VALUE_BYTES_MAX)
        first = (await storage.txn(put((b"c/a", value), (b"c/b", value)))).revision
        last = first + REPLAY_BYTES_MAX // VALUE_BYTES_MAX
        for _ in range(first, last):
            await storage.txn(put((b"c/a", value), (b"c/b", value)))
        async with aclosing(storage.watch(START, END, first)) as watch:
            seen = await take(watch, last - first + 1)
        assert [batch.revision for batch in seen] == list(range(first, last + 1))
        assert all(len(batch.changes) == 2 for batch in seen)

    async def test_a_slow_watcher_loses_nothing(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        async with aclosing(storage.watch(START, END, first)) as watch:
            assert (await anext(watch)).revision == first
            last = await write_many(storage, WATCH_QUEUE_REVISIONS_MAX + 1_500)
            seen = await take(watch, last - first)
            assert [batch.revision for batch in seen] == list(range(first + 1, last + 1))
            waiting = asyncio.create_task(anext(watch))
            live = (await storage.txn(put((b"c/a", b"2")))).revision
            assert (await waiting).revision == live

    async def test_a_slow_watcher_that_compaction_overtakes_is_told(self, storage: MetaStorage) -> None:
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        async with aclosing(storage.watch(START, END, first)) as watch:
            assert (await anext(watch)).revision == first
            last = await write_many(storage, WATCH_QUEUE_REVISIONS_MAX + 1_500)
            await storage.compact(last)
            seen: list[Revision] = []
            with pytest.raises(Compacted) as compacted:
                await take_into(seen, watch)
            assert compacted.value.minimum == last
            assert seen == list(range(first + 1, first + 1 + len(seen))), "what was delivered has no gap"
            assert len(seen) < last - first

    async def test_readers_that_race_with_compaction_get_all_of_what_was_or_are_told(self, place: Place) -> None:
        """Pages at one revision, single keys and watches; what is swept goes in slices that fall between them."""
        storage = await place.open(slice_rows=3)
        held: dict[bytes, bytes] = {}
        states: dict[Revision, dict[bytes, bytes]] = {}
        changes: dict[Revision, tuple[Change, ...]] = {}

        async def write(number: int) -> None:
            name = b"c/%02d" % (number * 5 % 12)
            change = Change(name, None if name in held and number % 3 == 0 else b"%d" % number)
            held.pop(name, None)
            if change.value is not None:
                held[name] = change.value
            revision = (await storage.txn(Txn(then=(change,)))).revision
            states[revision], changes[revision] = dict(held), (change,)

        async def write_and_compact() -> None:
            for number in range(12, self.RACING):
                await write(number)
                if number % 4 == 0:
                    await storage.compact(Revision(max(states) - 6))

        async def read(revision: Revision, limit: int) -> None:
            with suppress(Compacted):
                found = await whole_range(storage, START, END, revision, limit)
                assert {item.key: item.value for item in found} == states[revision]
                assert await value_at(storage, b"c/05", revision) == states[revision].get(b"c/05")

        async def follow(revision: Revision) -> None:
            async with aclosing(storage.watch(START, END, revision)) as watch:
                with suppress(Compacted):
                    for expected in range(revision, revision + 5):
                        assert await anext(watch) == RevisionChanges(Revision(expected), changes[Revision(expected)])

        for number in range(12):
            await write(number)
        writing = asyncio.create_task(write_and_compact())
        while not writing.done():
            newest = max(states)
            await asyncio.gather(read(Revision(newest - 1), 3), read(Revision(newest - 5), 1), follow(newest - 7))
        await writing
        await read(max(states), 3)
        await storage.close()

    async def test_close_ends_watches(self, place: Place) -> None:
        storage = await place.open()
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        watch = storage.watch(START, END, first)
        await anext(watch)
        waiting = asyncio.create_task(anext(watch))
        await storage.status()
        await storage.close()
        with pytest.raises(Indefinite):
            await waiting

    async def test_replay_after_reopening(self, place: Place) -> None:
        storage = await place.open()
        first = (await storage.txn(put((b"c/a", b"1")))).revision
        second = (await storage.txn(Txn(then=(Change(b"c/a", None), Change(b"c/b", b"2"))))).revision
        await storage.close()
        storage = await place.open()
        async with aclosing(storage.watch(START, END, first)) as watch:
            assert await take(watch, 2) == [
                RevisionChanges(first, (Change(b"c/a", b"1"),)),
                RevisionChanges(second, (Change(b"c/a", None), Change(b"c/b", b"2"))),
            ]
        await storage.close()
