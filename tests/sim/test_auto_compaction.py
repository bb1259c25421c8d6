"""Tables that nodes compact by themselves, while rows are written and deleted and processes are killed."""

import asyncio
import itertools
from collections import Counter
from functools import partial
from random import Random

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import TransactionRecord, TransactionState
from leasehold.ids import TransactionId
from leasehold.limits.units import MILLISECOND_NS
from leasehold.limits.upkeep import AUTO_SEGMENTS_MAX
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.coordinator_calls import Account
from leasehold.testing.oracle import Oracle
from leasehold.testing.readers import SimulatedReader
from leasehold.testing.rows import RowId
from leasehold.testing.write_news import WriteEnded
from leasehold.testing.writers import Habits, SimulatedWriter, WriteFate, Written
from tests.few import few
from tests.sim.contest_words import Contested, contest
from tests.sim.data_words import TABLE, Ground, simulate

BUSY = Habits(rows_max=6, tasks_max=1, pause_max_ns=150 * MILLISECOND_NS, dies=0, doubles=0)


async def create(cluster: SimulatedCluster, *, buckets: int = 1) -> None:
    await cluster.sql("CREATE DATABASE d")
    await cluster.sql(
        f"CREATE TABLE {TABLE} (a INT, b INT) CLUSTERED BY (a) INTO {buckets} BUCKETS"
        " TBLPROPERTIES ('replication' = '2', 'compact' = 'auto')"
    )


async def many(ground: Ground) -> Counter[RowId]:
    """More small segments than a bucket should have; the rows in them."""
    rows: Counter[RowId] = Counter()
    for _ in range(AUTO_SEGMENTS_MAX + 1):
        rows.update((await ground.write(1)).rows)
    return rows


def test_more_than_so_many_small_segments_become_one_with_the_same_rows() -> None:
    async def scenario(ground: Ground) -> None:
        await create(ground.cluster)
        rows = await many(ground)
        await ground.wait_for(lambda: len(ground.manifest()) == 1)
        assert await ground.read() == rows
        assert len(ground.manifest()[0].holders) == 2

    simulate(scenario)


def test_a_table_that_does_not_say_so_is_left_alone() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await many(ground)
        await asyncio.sleep(30)
        assert len(ground.manifest()) == AUTO_SEGMENTS_MAX + 1
        await ground.cluster.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('compact' = 'auto')")
        await ground.wait_for(lambda: len(ground.manifest()) == 1)

    simulate(scenario)


def test_deleted_rows_do_not_come_back() -> None:
    async def scenario(ground: Ground) -> None:
        await create(ground.cluster)
        rows = await many(ground)
        gone = next(iter(rows))
        await ground.cluster.sql(f"DELETE FROM {TABLE} WHERE a = {gone}")
        await ground.wait_for(lambda: len(ground.manifest()) == 1)
        assert await ground.read() == rows - Counter([gone])
        assert ground.manifest()[0].rows == AUTO_SEGMENTS_MAX

    simulate(scenario)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_node_that_is_away_holds_up_no_compaction(number: int) -> None:
    async def scenario(ground: Ground) -> None:
        await create(ground.cluster)
        rows = await many(ground)
        await ground.node(number).kill()
        await ground.wait_for(lambda: len(ground.manifest()) == 1)
        assert await ground.read() == rows

    simulate(scenario)


class Busy(Contested):
    """A table that two clients write and one reads, while rows are deleted and processes are killed."""

    def __init__(self, random: Random, oracle: Oracle) -> None:
        super().__init__(random, oracle)
        self.compactions: dict[TransactionId, TransactionRecord] = {}
        self.committed_ones = 0

    async def run(self, cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        cluster.store.on_commit.append(self.committed)
        await cluster.start(group)
        for node in cluster.nodes:
            node.data.batch_rows, node.data.on_released = 2, self.released_by(node)
        await create(cluster, buckets=2)
        rows, written = itertools.count(1), list[RowId]()

        def ended(one: Written) -> None:
            if one.fate is not WriteFate.UNKNOWN:
                committed = one.fate is WriteFate.COMMITTED
                self.oracle.saw(WriteEnded(transaction=one.transaction, committed=committed))
            written.extend(one.rows)

        common = partial(self.common, cluster, group)
        how = {"rows": rows, "habits": BUSY, "on_commit": self.oracle.saw, "on_written": ended}
        clients: list[SimulatedWriter | SimulatedReader]
        clients = [SimulatedWriter(**common(f"w{number}"), **how) for number in range(2)]
        clients.append(SimulatedReader(**common("r"), on_scanned=self.scanned))
        tasks = [group.create_task(one.run([TABLE])) for one in clients]
        for _ in range(7):
            await asyncio.sleep(2 + 4 * self.random.random())
            if written and self.random.random() < 0.5:
                await cluster.sql(f"DELETE FROM {TABLE} WHERE a = {self.random.choice(written)}")
            node = self.random.choice(cluster.nodes)
            match self.random.randrange(4):
                case 0:
                    await node.kill()
                    await asyncio.sleep(self.random.random())
                    node.start(group)
                case 1:
                    node.pause()
                    await asyncio.sleep(5 * self.random.random())
                    node.resume()
                case 2:
                    await cluster.kill_coordinator()
                    await asyncio.sleep(self.random.random())
                    await cluster.start_coordinator(group)
                case _:
                    pass
        for one in tasks:
            one.cancel()
        await asyncio.wait(tasks)

    def committed(self, batch: RevisionChanges) -> None:
        for change in batch.changes:
            if change.key.startswith(keys.TRANSACTIONS) and change.value is not None:
                record = decode_record(TransactionRecord, change.value)
                if record.compacts is not None:
                    self.compactions[record.id] = record
        states = [one.state for one in self.compactions.values()]
        self.committed_ones = states.count(TransactionState.COMMITTED)
        opened = [(one.table, one.compacts) for one in self.compactions.values() if one.state is TransactionState.OPEN]
        assert len(opened) == len(set(opened)), "a bucket is compacted once at a time"


@pytest.mark.parametrize("seed", few(1, range(1, 9)))
def test_every_invariant_holds_while_nodes_compact_and_processes_end(seed: int) -> None:
    one = contest(Busy, seed)
    assert one.committed_ones >= 2
    assert len(one.scans) >= 10


def test_a_node_needs_no_right_and_no_login() -> None:
    async def scenario(ground: Ground) -> None:
        cluster = ground.cluster
        await create(cluster)
        rows = await many(ground)
        await cluster.sql("CREATE USER root PASSWORD 'p'")
        await ground.wait_for(lambda: len(ground.manifest()) == 1)
        reader = SimulatedReader(**{**ground.common(), "account": Account("root", ("p",))})
        assert Counter((await reader.scan(TABLE)).rows) == rows

    simulate(scenario)
