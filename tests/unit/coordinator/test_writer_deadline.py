"""A leadership that ends while a command waits: what changes nothing would be answered without any transaction."""

import asyncio

import pytest

from leasehold.coordinator.writer import Writer
from leasehold.errors import Indefinite, gravest
from leasehold.metastorage.contract import LeadershipLost
from tests.unit.coordinator.test_writer import Ground, MemoryStore, settle

END_NS = 1_000


class EndsAt:
    """The leadership of a ground, with a deadline of its own."""

    def __init__(self, leadership):
        self.term = leadership.term
        self.fence = leadership.fence

    def deadline_ns(self):
        return END_NS


@pytest.mark.parametrize("late_ns", [0, 1, 10**9])
async def test_the_clock_is_read_after_a_command_is_taken_from_the_queue(late_ns):
    ground = Ground(MemoryStore())
    await ground.lead()
    decided = []
    now_ns = END_NS - 1
    ends = EndsAt(ground.leadership)
    writer = Writer(ground.storage, ends, ground.writer.catalog, lambda *_: None, lambda: now_ns, lambda: 0)
    asked = asyncio.ensure_future(writer.submit(lambda catalog: decided.append(catalog) or ()))
    await asyncio.sleep(0)
    now_ns = END_NS + late_ns  # it waits; the process was paused, say
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run())
    assert isinstance(gravest(caught.value), LeadershipLost)
    assert isinstance((await settle([asked]))[0], Indefinite), "nothing to do, says a catalog that may be old"
    assert not decided
    await ground.storage.close()


async def test_a_command_that_is_taken_in_time_is_answered():
    ground = Ground(MemoryStore())
    await ground.lead()
    ends = EndsAt(ground.leadership)
    writer = Writer(ground.storage, ends, ground.writer.catalog, lambda *_: None, lambda: END_NS - 1, lambda: 0)
    async with asyncio.TaskGroup() as group:
        run = group.create_task(writer.run())
        assert await writer.submit(lambda _catalog: ()) == ground.writer.catalog.revision
        run.cancel()
    await ground.storage.close()
