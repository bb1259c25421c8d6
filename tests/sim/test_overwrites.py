"""Writes that replace rows, of two clients on one table at once, while rows are deleted and scans are read."""

import asyncio
import itertools
from collections import Counter
from functools import partial
from random import Random

import pytest

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.oracle import Oracle
from leasehold.testing.readers import SimulatedReader
from leasehold.testing.write_news import WriteEnded, Wrote
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written
from tests.few import few
from tests.sim.contest_words import Contested, contest
from tests.sim.data_words import ALWAYS_ONE, TABLE, Ground, simulate

DELETES = 25
RECENT = 6
"""Deleted are rows of so many writes."""
APPENDS = Habits(tasks_max=2, pause_max_ns=300 * MILLISECOND_NS)
OVERWRITES = Habits(tasks_max=2, pause_max_ns=300 * MILLISECOND_NS, overwrites=0.7, takes_all=0.1)


def test_an_overwrite_takes_the_rows_of_its_range_and_keeps_the_others() -> None:
    async def scenario(ground: Ground) -> None:
        told: list[Wrote] = []
        await ground.create(buckets=2)
        writer = ground.writer(
            Habits(tasks_max=1, pause_max_ns=0, dies=0, doubles=0, takes_all=0), on_commit=told.append
        )
        there = set((await writer.write(TABLE, 12)).rows)
        while not any(one.kept for one in told):
            written = await writer.overwrite(TABLE, 3)
            assert written.fate is WriteFate.COMMITTED
            where = told[-1].where
            assert where is not None
            low, high = (int(one.values[0]) for one in where)
            there = {one for one in there if not low <= one <= high} | set(written.rows)
            assert await ground.read() == Counter(there)

    simulate(scenario)


def test_an_overwrite_without_new_rows_empties_the_table() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(12)
        written = await ground.writer(ALWAYS_ONE).overwrite(TABLE, 0)
        assert written.fate is WriteFate.COMMITTED
        assert await ground.read() == Counter()

    simulate(scenario)


def test_rows_that_are_added_meanwhile_refuse_an_overwrite() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        before = await ground.write(12)
        writer = ground.writer(Habits(pause_max_ns=5 * SECOND_NS, dies=0, doubles=0, takes_all=1))
        overwriting = ground.group.create_task(writer.overwrite(TABLE, 3))
        await asyncio.sleep(0.1)
        added = await ground.write(4)
        written = await overwriting
        assert (written.fate, written.error) == (WriteFate.ABORTED, "CONFLICT")
        assert await ground.read() == Counter((*before.rows, *added.rows))

    simulate(scenario)


class Contest(Contested):
    """Two clients that append and replace rows, one that deletes some, and readers, of whom one is slow."""

    def __init__(self, random: Random, oracle: Oracle) -> None:
        super().__init__(random, oracle)
        self.written: list[Written] = []
        self.wrote: list[Wrote] = []

    async def run(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        for node in cluster.nodes:
            node.data.on_released = self.released_by(node)
        await cluster.start(group)
        await cluster.sql("CREATE DATABASE d")
        await cluster.sql(f"CREATE TABLE {TABLE} (a INT, b INT) CLUSTERED BY (a) INTO 2 BUCKETS")
        rows = itertools.count(1)

        common = partial(self.common, cluster, group)
        how = {"rows": rows, "on_commit": self.committing, "on_written": self.ended}
        clients = [SimulatedWriter(**common(f"w{n}"), habits=one, **how) for n, one in enumerate((OVERWRITES, APPENDS))]
        clients += [
            SimulatedReader(**common(f"r{n}"), think_ns=n, on_scanned=self.scanned) for n in (0, 20 * MILLISECOND_NS)
        ]
        tasks = [group.create_task(one.run([TABLE])) for one in clients]
        for _ in range(DELETES):
            await asyncio.sleep(self.random.random())
            written = [row for one in self.wrote[-RECENT:] for row in one.rows]
            if written:
                await cluster.sql(f"DELETE FROM {TABLE} WHERE a = {self.random.choice(written)}")
        for one in tasks:
            one.cancel()
        await asyncio.wait(tasks)

    def committing(self, wrote: Wrote) -> None:
        self.wrote.append(wrote)
        self.oracle.saw(wrote)

    def ended(self, written: Written) -> None:
        self.written.append(written)
        assert written.fate is not WriteFate.UNKNOWN, "nothing is broken"
        committed = written.fate is WriteFate.COMMITTED
        self.oracle.saw(WriteEnded(transaction=written.transaction, committed=committed))


@pytest.mark.parametrize("seed", few(2, (1, *range(3, 9))))
def test_every_invariant_holds_while_clients_replace_the_rows_of_each_other(seed: int) -> None:
    one = contest(Contest, seed)
    committed = {each.transaction for each in one.written if each.fate is WriteFate.COMMITTED}
    replacing = [each for each in one.wrote if each.where is not None and each.transaction in committed]
    assert len(replacing) >= 2
    assert any(each.kept for each in replacing)
    assert any(each.error in {"CONFLICT", "REWRITE_STALE", "ROWS_TAKEN_AWAY"} for each in one.written)
    assert len(one.scans) >= 10
