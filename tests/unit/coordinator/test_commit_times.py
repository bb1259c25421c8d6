"""Commit times: written with each transaction, never decreasing, and seen by no node."""

import asyncio
from contextlib import aclosing

import pytest

from leasehold.coordinator.data.history import committed_at
from leasehold.core.words import keys
from leasehold.core.words.commit_times import decode_commit_time, encode_commit_time
from leasehold.errors import Corrupt
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.requests import RequestFate
from tests.unit.coordinator.test_writer import horizon, running, says

T0_US = 1_800_000_000_000_000


def test_bytes_of_a_commit_time():
    """As they were stored first."""
    assert encode_commit_time(T0_US) == bytes.fromhex("0006651728988000")
    assert decode_commit_time(encode_commit_time(T0_US)) == T0_US
    with pytest.raises(Corrupt):
        decode_commit_time(b"1")


async def test_commit_times_follow_the_clock_and_never_decrease():
    store = MemoryStore()
    async with running(store) as ground:
        assert await committed_at(ground.storage, ground.writer.catalog.revision) is None, "made without a leader"
        found = []
        for table, wall_us in enumerate((T0_US, T0_US + 5, T0_US - 1_000, T0_US + 4, T0_US + 6)):
            ground.wall_us = wall_us
            revision = await ground.writer.submit(says(horizon(table)))
            found.append(await committed_at(ground.storage, revision) - T0_US)
        assert found == [0, 5, 5, 5, 6]
        assert all(keys.COMMIT_TIME not in [one.key for one in batch.changes] for batch, _ in ground.seen)
        await ground.history()  # the lineage does not cover them
    async with running(store) as ground:  # the clock of the next leader is far behind
        revision = await ground.writer.submit(says(horizon(9)))
        assert await committed_at(ground.storage, revision) == T0_US + 6


async def test_a_command_that_changes_nothing_takes_no_commit_time():
    async with running() as ground:
        ground.wall_us = T0_US
        revision = await ground.writer.submit(says())
        assert await committed_at(ground.storage, revision) is None


async def test_what_was_asked_for_by_a_time_gets_no_further_revision():
    """A transaction under way, and one after the clock was set back."""
    async with running() as ground:
        ground.wall_us = T0_US
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def before(request):
            if request == "txn":
                begun.set()
                await may_end.wait()
            return RequestFate.ANSWERED

        ground.storage.before = before
        (under_way,) = ground.submit(says(horizon(1)))
        await begun.wait()
        ground.wall_us += 3
        asked = asyncio.ensure_future(ground.writer.revision_until(ground.writer.commit_time_us()))
        await asyncio.sleep(0)
        may_end.set()
        assert await asked == await under_way
        assert await committed_at(ground.storage, await under_way) == T0_US
        ground.wall_us = T0_US - 7
        assert await committed_at(ground.storage, await ground.writer.submit(says(horizon(2)))) == T0_US + 4


async def test_no_watcher_of_the_watched_range_sees_them():
    async with running() as ground:
        revision = await ground.writer.submit(says(horizon(1)))
        async with aclosing(ground.storage.watch(keys.WATCH_START, keys.WATCH_END, revision)) as batches:
            batch = await asyncio.wait_for(anext(batches), 1)
        assert [one.key for one in batch.changes] == [keys.horizon(1), keys.LINEAGE]
