"""Writes, scans, replicas and drops between production decisions on simulated disks and networks."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from random import Random

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.words.messages import AskTable, BytesEnd, Receipt, RowsEnd, TableFacts
from leasehold.core.words.messages import Rows as RowsMessage
from leasehold.errors import LeaseholdError, NotFound
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import CLIENT
from leasehold.testing.rows import RowId
from leasehold.testing.writers import Habits, WriteFate, Written
from tests.sim.data_words import TABLE, Ground, on_disk, simulate

# ---------------------------------------------------------------- writing and reading


@pytest.mark.parametrize("seed", range(3))
def test_what_was_committed_is_read_back_each_row_once(seed: int) -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(buckets=3)
        released: Counter[RowId] = Counter()
        for node in ground.cluster.nodes:
            node.data.on_released = lambda _passed, _ticket, rows: released.update(rows)
        expected: Counter[RowId] = Counter()
        writer = ground.writer(Habits(dies=0, doubles=0.5))
        for count in (0, 1, 50):
            written = await writer.write(TABLE, count)
            assert written.fate is WriteFate.COMMITTED
            assert len(written.rows) == count
            expected.update(written.rows)
        assert await ground.read() == expected
        assert released == expected
        for record in ground.manifest():
            assert len(record.holders) == 2
            assert all(ground.holds(ground.node(node), record) for node in record.holders)

    simulate(scenario, seed=seed)


def test_a_writer_that_dies_leaves_nothing_that_is_seen() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        written = await ground.writer(Habits(dies=1)).write(TABLE, 10)
        assert written.fate is WriteFate.DIED
        assert await ground.read() == Counter()
        assert any(node.data.disk.listing() for node in ground.cluster.nodes), "staged, and not yet expired"
        written = await ground.writer().resolve(written)
        assert written.fate is WriteFate.ABORTED
        await ground.wait_for(lambda: not any(node.data.disk.listing() for node in ground.cluster.nodes))

    simulate(scenario)


def test_a_node_killed_in_the_middle_of_a_stage_costs_a_second_try_elsewhere() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        cluster = ground.cluster
        facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
        first = ground.node(facts.buckets[0].replicas[0])
        held = cluster.network.hold(CLIENT, first.name, lambda message: isinstance(message, RowsEnd))
        writing = ground.group.create_task(ground.writer().write(TABLE, 10))
        await ground.wait_for(first.data.disk.half_written)
        await first.kill()
        assert first.data.disk.half_written(), "as the process left it"
        cluster.network.release(held)
        written = await writing
        assert written.fate is WriteFate.COMMITTED
        assert await ground.read() == Counter(written.rows)
        (record,) = ground.manifest()
        assert first.published.node not in record.holders
        first.start(ground.group)
        await ground.wait_for(lambda: ground.holds(first, record))
        assert first.data.disk.listing() == {on_disk(record)}
        assert first.data.disk.half_written() == frozenset()

    simulate(scenario)


def test_a_row_that_does_not_fit_the_schema_is_refused_and_none_of_the_write_is_seen() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        first = ground.cluster.nodes[0]
        hosts = [node.name for node in ground.cluster.nodes]
        holds = [
            ground.cluster.network.hold(CLIENT, host, lambda message: isinstance(message, RowsMessage))
            for host in hosts
        ]
        writing = ground.group.create_task(ground.writer().write(TABLE, 10))
        await ground.wait_for(lambda: any(node.data.disk.half_written() for node in ground.cluster.nodes))
        await ground.cluster.sql(f"ALTER TABLE {TABLE} DROP COLUMN b")
        for hold in holds:
            ground.cluster.network.release(hold)
        written = await writing
        assert (written.fate, written.error) == (WriteFate.ABORTED, "SCHEMA_CHANGED")
        assert await ground.read() == Counter()
        assert first.guard() is not None

    simulate(scenario)


# ---------------------------------------------------------------- crashes


def test_a_replica_that_loses_what_it_had_not_synced_was_never_a_holder() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
        first, second = (ground.node(node) for node in facts.buckets[0].replicas)
        # Its disk takes so long that it is moved into place and not synced when the machine goes.
        second.data.disk.latency_ns = lambda: 2 * SECOND_NS
        writing = ground.group.create_task(ground.writer().write(TABLE, 10))
        await ground.wait_for(second.data.disk.listing)
        (one,) = second.data.disk.listing()
        assert not second.data.disk.holds(one.table, one.bucket, one.segment)
        await second.kill(silent=True)
        second.crash(Random(2))
        assert second.data.disk.listing() == frozenset()
        written = await writing
        assert written.fate is WriteFate.COMMITTED
        (record,) = ground.manifest()
        assert record.holders == (first.published.node,)
        assert await ground.read() == Counter(written.rows)
        second.data.disk.latency_ns = lambda: 0
        second.start(ground.group)
        await ground.wait_for(lambda: len(ground.manifest()[0].holders) == 2)
        assert ground.holds(second, record)
        await first.kill()
        assert await ground.read() == Counter(written.rows), "the other holder serves"

    simulate(scenario)


def test_what_a_killed_process_had_moved_and_not_synced_is_durable_before_it_is_reported() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
        second = ground.node(facts.buckets[0].replicas[1])
        second.data.disk.latency_ns = lambda: 2 * SECOND_NS
        writing = ground.group.create_task(ground.writer().write(TABLE, 10))
        await ground.wait_for(second.data.disk.listing)
        await second.kill()
        second.data.disk.latency_ns = lambda: 0
        written = await writing
        assert written.fate is WriteFate.COMMITTED
        assert second.data.disk.listing()
        second.start(ground.group)
        await ground.wait_for(lambda: len(ground.manifest()[0].holders) == 2)
        await second.kill(silent=True)
        second.crash(Random(2))
        assert ground.holds(second, ground.manifest()[0])

    simulate(scenario)


def test_I15_a_commit_of_a_node_that_started_anew_since_is_refused() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        asked = asyncio.Event()
        commits: list[int] = []

        def on_commit(*_: object) -> None:
            commits.append(ground.cluster.loop.now_ns())
            for coordinator in ground.cluster.coordinators:
                ground.cluster.network.partition(CLIENT, coordinator.name)
            asked.set()

        writing = ground.group.create_task(ground.writer(on_commit=on_commit).write(TABLE, 10))
        await asked.wait()
        (holder,) = [node for node in ground.cluster.nodes if node.data.disk.listing()]
        await holder.kill(silent=True)
        holder.crash(Random(1))
        holder.start(ground.group)
        await ground.wait_for(holder.guard)
        ground.cluster.network.heal_all()
        written = await writing
        assert (written.fate, written.error) == (WriteFate.ABORTED, "TOO_FEW_HOLDERS")
        assert len(commits) == 1
        assert await ground.read() == Counter()

    simulate(scenario)


async def staged_under_an_older_leader(ground: Ground, *, loses_the_encoder: bool) -> Written:
    """A write whose coordinator ends between the answers of the nodes and the commit, and another one that starts."""
    (coordinator,) = ground.cluster.coordinators
    staged = asyncio.Event()

    def on_commit(*_: object) -> None:
        ground.cluster.network.partition(CLIENT, coordinator.name)
        staged.set()

    facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
    writing = ground.group.create_task(ground.writer(on_commit=on_commit).write(TABLE, 10))
    await staged.wait()
    await coordinator.kill()
    if loses_the_encoder:
        await ground.node(facts.buckets[0].replicas[0]).kill()
    ground.cluster.network.heal_all()
    await coordinator.start(ground.group)
    return await writing


def test_a_write_goes_on_over_a_restart_of_the_coordinator_with_all_its_holders() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3)
        written = await staged_under_an_older_leader(ground, loses_the_encoder=False)
        assert written.fate is WriteFate.COMMITTED
        (record,) = ground.manifest()
        assert len(record.holders) == 3, "the new leader waits a moment for those that have not found it yet"
        assert await ground.read() == Counter(written.rows)

    simulate(scenario)


def test_a_write_is_committed_under_the_seals_of_the_holders_that_are_left() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        written = await staged_under_an_older_leader(ground, loses_the_encoder=True)
        assert written.fate is WriteFate.COMMITTED
        (record,) = ground.manifest()
        assert len(record.holders) == 1
        assert await ground.read() == Counter(written.rows)

    simulate(scenario)


def test_a_write_that_nobody_vouches_for_to_the_new_leader_ends_definitely() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        written = await staged_under_an_older_leader(ground, loses_the_encoder=True)
        assert (written.fate, written.error) == (WriteFate.ABORTED, "SEAL_UNKNOWN")
        assert await ground.read() == Counter()

    simulate(scenario)


# ---------------------------------------------------------------- drops and fences


def test_a_dropped_table_leaves_no_file_anywhere_not_on_a_node_that_was_down_either() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=3, buckets=2)
        await ground.write(20)
        files = {on_disk(one) for one in ground.manifest()}
        down = ground.cluster.nodes[1]
        await down.kill()
        dropping = ground.group.create_task(ground.cluster.sql(f"DROP TABLE {TABLE}"))
        await asyncio.sleep(1)
        assert not dropping.done(), "the lease of the node that is down has not ended"
        assert ground.removed == Counter(), "INV-DROP-1"
        receipt = await dropping
        assert isinstance(receipt, Receipt)
        others = [node for node in ground.cluster.nodes if node is not down]
        await ground.wait_for(lambda: not any(node.data.disk.listing() for node in others))
        assert down.data.disk.listing() == files
        down.start(ground.group)
        await ground.wait_for(lambda: not down.data.disk.listing())
        await ground.wait_for(lambda: not any(node.data.disk.trashed() for node in ground.cluster.nodes))
        assert ground.removed == Counter(dict.fromkeys(files, 3))
        with pytest.raises(NotFound):
            await ground.read()

    simulate(scenario)


def test_a_drop_ends_a_running_scan_within_a_batch() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await ground.write(40)
        views: list[int] = []
        for node in ground.cluster.nodes:
            node.data.batch_delay_ns = lambda: 500 * MILLISECOND_NS
            node.data.on_released = lambda passed, _ticket, _rows: views.append(passed.view.revision)
        reading = ground.group.create_task(_error(ground.reader.scan(TABLE)))
        await ground.wait_for(lambda: len(views) == 2)
        receipt = await ground.cluster.sql(f"DROP TABLE {TABLE}")
        assert isinstance(receipt, Receipt)
        assert receipt.elapsed_ns < SECOND_NS
        released = len(views)
        error = await reading
        assert error is not None
        assert error.code == "TABLE_DROPPED"
        assert len(views) == released
        assert released < 10

    simulate(scenario)


def test_a_fenced_node_takes_and_serves_nothing_and_another_does() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        written = await ground.write(8)
        (record,) = ground.manifest()
        served: Counter[str] = Counter()
        for node in ground.cluster.nodes:
            node.data.on_released = lambda _passed, _ticket, _rows, name=node.name: served.update([name])
        fenced = ground.node(record.holders[0])
        for coordinator in ground.cluster.coordinators:
            ground.cluster.network.partition(fenced.name, coordinator.name)
        await ground.wait_for(lambda: fenced.guard() is None)
        for _ in range(3):
            assert await ground.read() == Counter(written.rows)
        assert served[fenced.name] == 0
        more = await ground.write(8)
        added = next(one for one in ground.manifest() if one.id != record.id)
        assert fenced.published.node not in added.holders
        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: ground.holds(fenced, added))
        assert await ground.read() == Counter(written.rows) + Counter(more.rows)

    simulate(scenario)


def test_a_node_that_is_fenced_between_the_rows_and_their_end_names_no_holder() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        facts = await ground.reader.client.look_up(AskTable(cluster_id=None, name=TABLE), TableFacts, Asking())
        first, second = (ground.node(node) for node in facts.buckets[0].replicas)
        ground.cluster.network.partition(CLIENT, second.name)  # else it would be asked as well
        held = ground.cluster.network.hold(first.name, second.name, lambda one: isinstance(one, BytesEnd))
        writing = ground.group.create_task(ground.writer().write(TABLE, 8))
        await ground.wait_for(second.data.disk.half_written)
        for coordinator in ground.cluster.coordinators:
            ground.cluster.network.partition(second.name, coordinator.name)
        await ground.wait_for(lambda: second.guard() is None)
        ground.cluster.network.release(held)
        written = await writing
        assert written.fate is WriteFate.COMMITTED
        assert ground.manifest()[0].holders == (first.published.node,)

    simulate(scenario)


def test_a_paused_node_releases_nothing_until_it_goes_on() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await ground.write(40)
        released: list[int] = []
        (holder,) = [node for node in ground.cluster.nodes if node.data.disk.listing()]
        holder.data.batch_delay_ns = lambda: 100 * MILLISECOND_NS
        holder.data.on_released = lambda passed, _ticket, _rows: released.append(passed.view.revision)
        reading = ground.group.create_task(ground.read())
        await ground.wait_for(lambda: len(released) == 2)
        holder.pause()
        await asyncio.sleep(5)
        assert len(released) == 2
        holder.resume()
        assert sum((await reading).values()) == 40

    simulate(scenario)


async def _error(work: Awaitable[object]) -> LeaseholdError | None:
    try:
        await work
    except LeaseholdError as error:
        return error
    return None
