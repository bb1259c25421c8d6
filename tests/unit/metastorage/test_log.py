"""Entries and the leader record as keys of a store: what one request does, and what is refused."""

import msgspec
import pytest

from leasehold.core.log.entry import BEGINNING, draft
from leasehold.core.words.codec import encode
from leasehold.core.words.records import LogFormatRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Indefinite
from leasehold.ids import EntryId, Term
from leasehold.limits.log import LOG_ENTRY_INLINE_BYTES_MAX, LOG_FORMAT_VERSION
from leasehold.metastorage.log.log import FORMAT, HEAD, Log, Trimmed
from leasehold.metastorage.log.store import Swap
from leasehold.testing.log_store import KeptLog, MemoryLogStore
from leasehold.testing.requests import RequestFate
from tests.unit.core.log.log_words import entry_id, writing
from tests.unit.metastorage.log_ground import LOG_ID, Ground, made, sized


class TestMaking:
    async def test_a_log_is_made_once(self):
        ground = Ground()
        assert await ground.log.make(LOG_ID) == LOG_ID
        assert await ground.log.make(EntryId("2" * 32)) == LOG_ID
        assert (await ground.head()).position == BEGINNING
        assert sorted(ground.kept.values) == [FORMAT, HEAD]

    async def test_of_two_that_make_it_at_once_both_have_the_same(self):
        ground = Ground()
        ground.fates.of({3: RequestFate.LOST_AFTER})
        with pytest.raises(Indefinite):
            await ground.log.make(LOG_ID)
        assert await ground.log.make(EntryId("2" * 32)) == LOG_ID

    async def test_a_newer_format_is_refused(self):
        ground = await made()
        newer = LogFormatRecord(format_version=LOG_FORMAT_VERSION + 1, log_id=LOG_ID)
        ground.kept.swap(Swap(unchanged={}, puts={FORMAT: encode(newer)}))
        with pytest.raises(Corrupt) as caught:
            await ground.log.make(LOG_ID)
        assert caught.value.code is ErrorCode.NEWER_VERSION

    async def test_a_head_without_a_format_is_no_log(self):
        ground = Ground()
        ground.kept.swap(Swap(unchanged={}, puts={HEAD: encode(BEGINNING)}))
        with pytest.raises(Corrupt, match="without its format"):
            await ground.log.make(LOG_ID)
        assert sorted(ground.kept.values) == [HEAD]

    @pytest.mark.parametrize("key", ["log/of-another-program", "entry/1"])
    async def test_no_log_is_made_among_keys_of_another_program(self, key: str):
        ground = Ground()
        ground.kept.swap(Swap(unchanged={}, puts={key: b"theirs"}))
        with pytest.raises(Corrupt, match="keys of another program"):
            await ground.log.make(LOG_ID)
        assert sorted(ground.kept.values) == [key]

    async def test_a_store_without_a_log_has_no_head(self):
        with pytest.raises(Corrupt, match="holds no log"):
            await Ground().head()


class TestAppending:
    async def test_head_and_entry_are_written_at_once(self):
        ground = await made()
        _, fence = await ground.lead(1)
        head = await ground.head()
        one = draft(head.position, entry_id(7), Term(1), writing(1))
        after = await ground.log.append(one, head, fence)
        assert after is not None
        assert after == await ground.head()
        assert after.position == one.position
        assert ground.swaps[-1].unchanged.keys() == {"log/head", "log/term", "entry/0000000000000001"}
        assert ground.swaps[-1].puts.keys() == {"log/head", "entry/0000000000000001"}
        assert await ground.log.entries_after(0) == [(msgspec.structs.replace(one.entry, body=one.body), one.body)]

    async def test_nothing_is_appended_to_another_head(self):
        ground = await made()
        _, fence = await ground.lead(1)
        old = await ground.head()
        await ground.append(writing(1), fence)
        one = draft(old.position, entry_id(7), Term(1), writing(1))
        assert await ground.log.append(one, old, fence) is None
        assert (await ground.head()).position.id != entry_id(7)

    async def test_nothing_is_appended_under_an_ended_term(self):
        ground = await made()
        _, fence = await ground.lead(1)
        head = await ground.head()
        await ground.lead(2, "c2")
        assert await ground.log.append(draft(head.position, entry_id(7), Term(1), writing(1)), head, fence) is None
        assert await ground.head() == head

    async def test_a_beat_fails_no_append(self):
        ground = await made()
        standing, fence = await ground.lead(1)
        head = await ground.head()
        beaten = await ground.log.beat(standing, msgspec.structs.replace(standing.record, beat=1))
        assert beaten == await ground.log.leader()
        one = draft(head.position, entry_id(7), Term(1), writing(1))
        assert await ground.log.append(one, head, fence) is not None

    async def test_an_old_head_is_no_head(self):
        ground = await made()
        old = ground.kept.copy()
        await ground.append(writing(1), None)
        await ground.head()
        ground.kept.values = old.values
        with pytest.raises(Indefinite, match="an old head: 0 after 1"):
            await ground.head()


class TestLeading:
    async def test_of_two_elections_one_wins(self):
        ground = await made()
        assert (await ground.log.leader(), await ground.log.term()) == (None, None)
        standing, fence = await ground.lead(1)
        assert (await ground.log.leader(), await ground.log.term()) == (standing, fence)
        assert await ground.log.elect(None, standing.record) is None

    async def test_an_election_ends_the_term_before(self):
        ground = await made()
        first, fence = await ground.lead(1)
        second, next_fence = await ground.lead(2, "c2")
        assert next_fence != fence
        assert await ground.log.term() == next_fence
        assert await ground.log.beat(first, first.record) is None
        assert await ground.log.leader() == second


class TestParts:
    async def test_a_body_of_the_largest_inline_size_lies_in_its_entry(self):
        ground = await made()
        one = await ground.append(sized(1, LOG_ENTRY_INLINE_BYTES_MAX), None)
        assert ground.names("part") == []
        assert (await ground.log.entries_after(0))[0][1] == one.body

    @pytest.mark.parametrize(
        ("size", "parts"),
        [
            (LOG_ENTRY_INLINE_BYTES_MAX + 1, 2),
            (2 * LOG_ENTRY_INLINE_BYTES_MAX, 2),
            (2 * LOG_ENTRY_INLINE_BYTES_MAX + 1, 3),
        ],
    )
    async def test_a_larger_body_lies_in_parts(self, size, parts):
        ground = await made()
        one = await ground.append(sized(1, size), None, number=7)
        assert ground.names("part") == [f"{1:016d}-{entry_id(7)}-{at:04d}" for at in range(parts)]
        stored = await ground.log.entry(1)
        assert stored is not None
        assert (stored.body, stored.parts) == (b"", parts)
        assert await ground.log.entries_after(0) == [(stored, one.body)]

    async def test_all_parts_are_there_before_the_entry(self):
        ground = await made()
        await ground.append(sized(1, 2 * LOG_ENTRY_INLINE_BYTES_MAX + 1), None)
        written = [min(swap.puts).partition("/")[0] for swap in ground.swaps]
        assert written == ["log", "part", "part", "part", "entry"]

    @pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER])
    async def test_a_part_without_an_answer_is_sent_again_and_those_before_it_are_not(self, fate):
        ground = await made()
        head = await ground.head()
        one = draft(head.position, entry_id(7), Term(0), sized(1, 3 * LOG_ENTRY_INLINE_BYTES_MAX))
        ground.fates.of({1: fate})
        with pytest.raises(Indefinite):
            await ground.log.append(one, head, None)
        assert await ground.head() == head
        ground.fates.of({})
        assert await ground.log.append(one, head, None) is not None
        assert ground.fates.asked == ["swap"] * 3, "the second part, the third, and the entry"
        assert (await ground.log.entries_after(0))[0][1] == one.body

    async def test_another_entry_writes_all_of_its_own_parts(self):
        ground = await made()
        head = await ground.head()
        body = sized(1, 2 * LOG_ENTRY_INLINE_BYTES_MAX)
        ground.fates.of({1: RequestFate.LOST_BEFORE})
        with pytest.raises(Indefinite):
            await ground.log.append(draft(head.position, entry_id(7), Term(0), body), head, None)
        await ground.append(body, None, number=8)
        assert ground.names("part") == [
            f"{1:016d}-{entry_id(7)}-0000",
            f"{1:016d}-{entry_id(8)}-0000",
            f"{1:016d}-{entry_id(8)}-0001",
        ]
        assert (await ground.log.entries_after(0))[0][1] == encode(body)

    async def test_a_missing_part_is_trimmed(self):
        ground = await made()
        await ground.append(sized(1, 2 * LOG_ENTRY_INLINE_BYTES_MAX), None)
        ground.kept.swap(Swap(unchanged={}, deletes=(f"part/{ground.names('part')[1]}",)))
        with pytest.raises(Trimmed):
            await ground.log.entries_after(0)


class TestReading:
    async def test_entries_come_in_order_and_a_large_one_alone(self):
        ground = await made()
        bodies = [writing(1), writing(2), sized(3, LOG_ENTRY_INLINE_BYTES_MAX + 1), writing(4), writing(5)]
        for body in bodies:
            await ground.append(body, None)
        for after, expected in ((0, [1, 2]), (1, [2]), (2, [3, 4, 5]), (3, [4, 5]), (4, [5])):
            found = await ground.log.entries_after(after)
            assert [(one.number, blob) for one, blob in found] == [
                (number, encode(bodies[number - 1])) for number in expected
            ]

    async def test_where_so_many_take_too_long_fewer_are_read_at_once_and_then_more_again(self):
        ground, fits = await made(), 5
        for revision in range(1, 31):
            await ground.append(writing(revision), None)

        class SlowWay(MemoryLogStore):
            async def page(self, directory, start="", *, limit):
                if limit > fits:
                    raise Indefinite("no answer in time")
                return await super().page(directory, start, limit=limit)

        log, read, failed, most = Log(SlowWay(ground.kept)), 0, 0, 0
        while read < 30:
            try:
                found = await log.entries_after(read)
            except Indefinite:
                failed += 1
                continue
            assert found[0][0].number == read + 1
            read, most = read + len(found), max(most, len(found))
        assert most == fits
        assert failed < 10
        fits = 1_000
        for _ in range(20):
            found = await log.entries_after(0)
        assert len(found) > 20

    async def test_what_comes_after_a_gap_is_not_read(self):
        ground = await made()
        for revision in range(1, 5):
            await ground.append(writing(revision), None)
        ground.kept.swap(Swap(unchanged={}, deletes=(f"entry/{3:016d}",)))
        assert [one.number for one, _ in await ground.log.entries_after(0)] == [1, 2]
        with pytest.raises(Trimmed, match="entry 3"):
            await ground.log.entries_after(2)
        assert await ground.log.entry(3) is None


async def test_two_clients_have_one_log():
    kept = KeptLog()
    one, other = Log(MemoryLogStore(kept)), Log(MemoryLogStore(kept))
    await one.make(LOG_ID)
    head = await other.head()
    assert await one.append(draft(head.position, entry_id(7), Term(0), writing(1)), head, None) is not None
    assert await other.append(draft(head.position, entry_id(8), Term(0), writing(1)), head, None) is None
    assert (await other.head()).position.id == entry_id(7)
