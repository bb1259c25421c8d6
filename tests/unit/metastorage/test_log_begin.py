"""A log that begins with a checkpoint: in one swap, and only where there is none."""

import pytest

from leasehold.core.log.entry import DraftEntry, draft
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    CheckpointChunk,
    CheckpointRow,
    LeaderRecord,
    LogBody,
    LogCheckpoint,
    LogPosition,
    LogTransaction,
)
from leasehold.ids import ChainHash, EntryId, Generation, Revision, Term
from leasehold.limits.log import LOG_ENTRY_INLINE_BYTES_MAX
from tests.unit.metastorage.log_ground import LOG_ID, Ground, made

OTHER = EntryId("2" * 32)
POSITION = LogPosition(number=1, id=OTHER, chain=ChainHash(b"c" * 32), revision=Revision(7), log_bytes=0)
LEADER = LeaderRecord(generation=Generation(2), term=Term(9), holder="", beat=0, duration_ns=0)
ROWS = (CheckpointRow(b"c/k", b"v", Revision(3), Revision(7), 2),)


def first(size: int) -> DraftEntry:
    changes = (Change(b"c/k", b"x" * size),)
    return draft(POSITION, EntryId("3" * 32), Term(9), LogBody(transactions=(LogTransaction(Revision(8), changes),)))


async def begin(ground: Ground, entry: DraftEntry | None, log_id: EntryId = LOG_ID) -> bool:
    chunk = await ground.log.write_chunk(POSITION, CheckpointChunk(rows=ROWS))
    checkpoint = LogCheckpoint(position=POSITION, minimum=Revision(7), chunks=(chunk,))
    return await ground.log.begin(log_id, checkpoint, LEADER, entry)


@pytest.mark.parametrize("size", [None, 1, 2 * LOG_ENTRY_INLINE_BYTES_MAX])
async def test_an_empty_store_gets_a_whole_log_and_the_same_again_is_done(size: int | None) -> None:
    ground, entry = Ground(), None if size is None else first(size)
    assert await ground.log.is_empty()
    for _ in range(2):
        assert await begin(ground, entry)
    assert not await ground.log.is_empty()
    head = (await ground.log.head()).position
    assert head == (POSITION if entry is None else entry.position)
    found = await ground.log.checkpoint()
    assert found is not None
    assert (await ground.log.read_chunk(found.checkpoint, 0)).rows == ROWS
    if entry is not None:
        assert [body for _, body in await ground.log.entries_after(1)] == [entry.body]
    standing, fence = await ground.log.leader(), await ground.log.term()
    assert standing is not None
    assert fence is not None
    assert (standing.record, fence.term) == (LEADER, 9)


async def test_a_log_that_is_there_stays_as_it_is() -> None:
    """A late restore must not replace what a coordinator, or another restore, has begun."""
    for ground in (await made(), Ground()):
        if await ground.log.is_empty():
            assert await begin(ground, first(1))
        before = {key: one for key, one in ground.kept.values.items() if not key.startswith("chunk/")}
        assert not await begin(ground, None, OTHER)
        assert not await begin(ground, first(2), OTHER)
        assert {key: one for key, one in ground.kept.values.items() if not key.startswith("chunk/")} == before


async def test_chunks_of_a_restore_that_was_interrupted_are_no_log() -> None:
    ground = Ground()
    await ground.log.write_chunk(POSITION, CheckpointChunk(rows=ROWS))
    assert await ground.log.is_empty()
    assert await ground.log.make(LOG_ID) == LOG_ID
