"""Streams that are written while their driver dies at any moment and leaders change: each batch is committed once."""

from collections import Counter
from random import Random

import pytest

from leasehold.testing.stream_writers import SimulatedStream
from leasehold.testing.write_news import Wrote
from leasehold.testing.writers import Habits, WriteFate
from tests.few import few
from tests.sim.data_words import TABLE, Ground, simulate

BATCHES = 30


@pytest.mark.parametrize("seed", few(3, range(30)))
def test_each_batch_of_a_stream_is_there_once_however_often_it_runs(seed: int) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(buckets=2)
        told: list[Wrote] = []
        habits = Habits(tasks_max=2, pause_max_ns=0, dies=0.2, doubles=0.2)
        stream = SimulatedStream(ground.writer(habits, on_commit=told.append), Random(seed))
        ended = Counter[str | None]()
        rows = Counter[int]()
        numbers = Counter[int]()
        for _ in range(BATCHES):
            written = await stream.batch(TABLE)
            ended[written.error] += 1
            if written.fate is WriteFate.COMMITTED:
                rows.update(written.rows)
                assert told[-1].batch is not None
                numbers[told[-1].batch.number] += 1
        assert await ground.read() == rows
        assert set(rows.values()) <= {1}
        assert set(numbers.values()) == {1}
        assert sorted(numbers) == list(range(len(numbers)))
        assert ended["BATCH_COMMITTED"], "some ran again"

    simulate(scenario)
