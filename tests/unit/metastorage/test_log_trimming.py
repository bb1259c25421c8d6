"""What is deleted from the log, and that nothing is deleted which an entry or the newest checkpoint names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.log.entry import BEGINNING, draft
from leasehold.core.words.codec import encode
from leasehold.core.words.records import CheckpointChunk, CheckpointRow, LogCheckpoint, LogPosition
from leasehold.errors import Corrupt, Indefinite
from leasehold.ids import Revision, Term
from leasehold.limits.log import LOG_ENTRY_INLINE_BYTES_MAX, STORE_SWAP_KEYS_MAX
from leasehold.metastorage.log.log import StoredCheckpoint, Trimmed
from leasehold.metastorage.log.store import Swap
from leasehold.testing.requests import RequestFate
from tests.unit.core.log.log_words import entry_id, writing
from tests.unit.metastorage.log_ground import Ground, made, sized

LARGE = LOG_ENTRY_INLINE_BYTES_MAX + 1


def chunk(*keys: bytes, value: bytes = b"v") -> CheckpointChunk:
    return CheckpointChunk(rows=tuple(CheckpointRow(key, value, Revision(1), Revision(1), 1) for key in keys))


async def checkpoint_at(ground: Ground, position: LogPosition, *chunks: CheckpointChunk) -> LogCheckpoint:
    stored = [await ground.log.write_chunk(position, one) for one in chunks]
    return LogCheckpoint(position=position, minimum=Revision(position.revision), chunks=tuple(stored))


async def swapped(ground: Ground, checkpoint: LogCheckpoint) -> StoredCheckpoint:
    fence = await ground.log.term()
    assert fence is not None
    stored = await ground.log.swap_checkpoint(checkpoint, await ground.log.checkpoint(), fence)
    assert stored is not None
    return stored


class TestCheckpoint:
    async def test_chunks_are_read_as_they_were_written(self):
        ground = await made()
        await ground.lead(1)
        chunks = [chunk(b"a", b"b"), chunk(b"c", value=b"x" * LARGE)]
        written = await checkpoint_at(ground, (await ground.head()).position, *chunks)
        assert [one.size_bytes for one in written.chunks] == [len(encode(one)) for one in chunks]
        assert sorted(name[-2:] for name in ground.names("chunk")) == ["00", "00", "01"]
        assert await ground.log.checkpoint() is None
        stored = await swapped(ground, written)
        assert await ground.log.checkpoint() == stored
        assert [await ground.log.read_chunk(stored.checkpoint, at) for at in range(2)] == chunks

    async def test_a_second_try_writes_the_same_keys(self):
        ground = await made()
        position = (await ground.head()).position
        first = await checkpoint_at(ground, position, chunk(b"a"), chunk(b"b"))
        names = ground.names("chunk")
        assert await checkpoint_at(ground, position, chunk(b"a"), chunk(b"b")) == first
        assert ground.names("chunk") == names

    async def test_only_the_term_that_stands_swaps_it_in_and_only_over_what_it_saw(self):
        ground = await made()
        _, fence = await ground.lead(1)
        position = (await ground.head()).position
        first = await swapped(ground, await checkpoint_at(ground, position, chunk(b"a")))
        second = await checkpoint_at(ground, position, chunk(b"b"))
        assert await ground.log.swap_checkpoint(second, None, fence) is None
        await ground.lead(2)
        assert await ground.log.swap_checkpoint(second, first, fence) is None
        assert await ground.log.checkpoint() == first

    async def test_a_damaged_chunk_is_not_taken(self):
        ground = await made()
        written = await checkpoint_at(ground, (await ground.head()).position, chunk(b"a"))
        (name,) = ground.names("chunk")
        damaged = encode(chunk(b"b"))
        assert len(damaged) == written.chunks[0].size_bytes
        ground.kept.swap(Swap(unchanged={}, puts={f"chunk/{name}": damaged}))
        with pytest.raises(Corrupt, match="a checkpoint of the log is damaged"):
            await ground.log.read_chunk(written, 0)

    async def test_a_chunk_that_is_gone_is_trimmed(self):
        ground = await made()
        written = await checkpoint_at(ground, (await ground.head()).position, chunk(b"a", value=b"x" * LARGE))
        ground.kept.swap(Swap(unchanged={}, deletes=(f"chunk/{ground.names('chunk')[1]}",)))
        with pytest.raises(Trimmed):
            await ground.log.read_chunk(written, 0)


class TestLastUntil:
    async def test_it_is_the_last_entry_that_lies_below_as_a_whole(self):
        ground = await made()
        bodies = (writing(1), writing(2, 3, 4), writing(minimum=2), writing(minimum=3), writing(5), writing(6, 7))
        positions = [BEGINNING, *[(await ground.append(body, None)).position for body in bodies]]
        for revision, number in {0: 0, 1: 1, 2: 1, 3: 1, 4: 4, 5: 5, 6: 5, 7: 6, 8: 6}.items():
            for after in positions[: number + 1]:
                found = await ground.log.last_until(Revision(revision), after, positions[-1])
                assert found == positions[number]
        assert await ground.log.last_until(Revision(1), positions[4], positions[-1]) == positions[4]

    async def test_a_log_that_another_leader_trims_meanwhile(self):
        ground = await made()
        positions = [(await ground.append(writing(revision), None)).position for revision in range(1, 6)]
        await ground.log.trim(LogCheckpoint(position=positions[3], minimum=Revision(4), chunks=()))
        with pytest.raises(Trimmed):
            await ground.log.last_until(Revision(2), BEGINNING, positions[-1])


async def test_trimming_deletes_up_to_the_position_and_nothing_after_it():
    ground = await made()
    _, fence = await ground.lead(1)
    for revision, body in enumerate((writing(1), sized(2, LARGE), writing(3), sized(4, LARGE), writing(5)), start=1):
        one = await ground.append(body, fence)
        if revision == 3:
            position = one.position
    older = await checkpoint_at(ground, (await ground.log.last_until(Revision(1), BEGINNING, position)), chunk(b"a"))
    newest = await checkpoint_at(ground, position, chunk(b"b"))
    newer = await checkpoint_at(ground, (await ground.head()).position, chunk(b"c"))
    for _ in range(2):
        await ground.log.trim(newest)
        assert ground.names("entry") == [f"{number:016d}" for number in (4, 5)]
        assert [name[:16] for name in ground.names("part")] == [f"{4:016d}"] * 2
        assert [one.number for one, _ in await ground.log.entries_after(3)] == [4, 5]
        assert await ground.log.read_chunk(newest, 0) == chunk(b"b")
        assert await ground.log.read_chunk(newer, 0) == chunk(b"c"), "one that is being written"
        with pytest.raises(Trimmed):
            await ground.log.entries_after(2)
        with pytest.raises(Trimmed):
            await ground.log.read_chunk(older, 0)


class TestOrphans:
    async def ground(self) -> Ground:
        """Two entries with parts; one part each of others that were never appended."""
        ground = await made()
        _, fence = await ground.lead(1)
        await ground.append(sized(1, LARGE), fence, number=11)
        await self.half_append(ground, number=91)
        await ground.append(sized(2, LARGE), fence, number=12)
        await self.half_append(ground, number=92)
        return ground

    async def half_append(self, ground: Ground, number: int) -> None:
        head = await ground.head()
        ground.fates.of({1: RequestFate.LOST_BEFORE})
        body = sized(head.position.revision + 1, LARGE)
        with pytest.raises(Indefinite):
            await ground.log.append(draft(head.position, entry_id(number), Term(1), body), head, None)
        ground.fates.of({})

    def owners(self, ground: Ground) -> list[int]:
        return [int(name[17:49], 16) for name in ground.names("part")]

    async def delete(self, ground: Ground, first: int = 1) -> None:
        fence = await ground.log.term()
        assert fence is not None
        await ground.log.delete_orphans(fence, first)

    async def test_parts_that_no_entry_names_go(self):
        ground = await self.ground()
        assert self.owners(ground) == [11, 11, 12, 12, 91, 92]
        await self.delete(ground)
        assert self.owners(ground) == [11, 11, 12, 12]
        assert [one.number for one, _ in await ground.log.entries_after(0)] == [1]

    async def test_what_is_of_another_program_stays(self):
        ground = await self.ground()
        ground.kept.swap(Swap(unchanged={}, puts={"part/other": b"x"}))
        await self.delete(ground)
        assert "other" in ground.names("part")
        assert len(ground.names("part")) == 5

    async def test_nothing_goes_once_another_term_has_begun(self):
        ground = await self.ground()
        fence = await ground.log.term()
        await ground.lead(2)
        assert fence is not None
        await ground.log.delete_orphans(fence, 1)
        assert self.owners(ground) == [11, 11, 12, 12, 91, 92]

    async def test_the_parts_of_what_is_trimmed_go(self):
        ground = await self.ground()
        first = await ground.log.entry(1)
        assert first is not None
        ground.kept.swap(Swap(unchanged={}, deletes=(f"entry/{1:016d}",)))
        await self.delete(ground)
        assert self.owners(ground) == [12, 12]

    async def test_what_was_looked_at_is_not_looked_at_again(self):
        ground = await self.ground()
        await self.delete(ground, first=3)
        assert self.owners(ground) == [11, 11, 12, 12, 91]
        ground.fates.of({})
        await self.delete(ground, first=4)
        assert ground.fates.asked[1:] == ["page"]

    async def test_what_lies_at_the_end_or_beyond_is_not_looked_at(self):
        ground = await self.ground()
        fence = await ground.log.term()
        assert fence is not None
        for end in (1, 2, 3):
            ground.fates.of({})
            await ground.log.delete_orphans(fence, 1, end)
            assert self.owners(ground) == ([11, 11, 12, 12, 91, 92] if end < 3 else [11, 11, 12, 12, 92])
            assert ("page" in ground.fates.asked) == (end > 1)

    async def test_many_go_in_several_swaps_each_under_the_fence(self):
        ground = await made()
        _, fence = await ground.lead(1)
        for number in range(2 * STORE_SWAP_KEYS_MAX):
            ground.kept.swap(Swap(unchanged={}, puts={f"part/{1:016d}-{entry_id(number)}-0000": b"p"}))
        ground.swaps.clear()
        await self.delete(ground)
        assert ground.names("part") == []
        assert len(ground.swaps) == 3
        assert all(swap.unchanged == {"log/term": fence.version} for swap in ground.swaps)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["small", "large", "half"]), max_size=7), st.integers(0, 7), st.booleans())
async def test_all_that_the_log_needs_stays_and_nothing_else(kinds, trimmed, tidied_before):
    ground = await made()
    _, fence = await ground.lead(1)
    orphans = TestOrphans()
    bodies = {}
    last = (await ground.head()).position
    for at, kind in enumerate(kinds):
        if kind == "half":
            await orphans.half_append(ground, number=900 + at)
            continue
        one = await ground.append(sized(len(bodies) + 1, LARGE) if kind == "large" else writing(len(bodies) + 1), fence)
        bodies[one.entry.number] = one.body
        if one.entry.number <= trimmed:
            last = one.position
    if tidied_before:
        await orphans.delete(ground)
    checkpoint = await checkpoint_at(ground, last, chunk(b"a"))
    await swapped(ground, checkpoint)
    await ground.log.trim(checkpoint)
    await orphans.delete(ground)
    head = (await ground.head()).position
    number, left = last.number, {}
    while number < head.number:
        found = await ground.log.entries_after(number)
        left |= {one.number: blob for one, blob in found}
        number = found[-1][0].number
    assert left == {number: body for number, body in bodies.items() if number > last.number}
    assert await ground.log.read_chunk(checkpoint, 0) == chunk(b"a")
    assert len(ground.names("part")) == 2 * sum(len(body) == LARGE for body in left.values())
