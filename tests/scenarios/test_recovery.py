"""The weak points of recovery on the node's side, R1 to R5 and R7, each as the interleaving that would show it.

Those of a leap are in `test_leaps.py`; those that are the coordinator's to close are in `test_admission.py`,
`test_snapshots.py` and `test_compactions.py`.
"""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import AskSnapshot, RecoveryFinished, SessionOpened, Watched
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DroppedRecord, NodeRecord
from leasehold.limits.metastorage import RETENTION_HOLD_NS
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import run_virtual
from leasehold.testing.oracle import Oracle
from tests.sim.data_words import Ground as Tables
from tests.sim.data_words import on_disk
from tests.sim.recovery_words import case_of, reach

FEW = msgspec.structs.replace(DEFAULT_SETTINGS, retention_revisions=100)


class Over(Exception):
    pass


def simulate(scenario, *, seed=1, settings=DEFAULT_SETTINGS, watched=True):
    """Three nodes that serve; with every invariant held unless the scenario looks for itself."""

    async def main(random):
        oracle = Oracle(INVARIANTS, now_ns=asyncio.get_running_loop().now_ns) if watched else None
        cluster = SimulatedCluster(random, nodes=3, oracle=oracle, settings=settings)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


def items_of(cluster):
    """What the store holds of the watched range."""
    page = cluster.store.page(keys.WATCH_START, keys.WATCH_END, None, 100_000)
    return {one.key: one.value for one in page.items}


async def churn(cluster, times):
    """Many more revisions than keys: databases that come and go."""
    for number in range(times):
        await cluster.sql(f"CREATE DATABASE gone{number}")
        await cluster.sql(f"DROP DATABASE gone{number}")


# ---------------------------------------------------------------- R1: effects and the applied revision


@pytest.mark.parametrize("seed", range(4))
def test_R1_a_machine_that_crashes_after_an_effect_still_holds_what_led_to_it(seed):
    """The files of a dropped table go, and the machine loses power at once: its vault knows of the drop."""

    async def scenario(cluster, group):
        tables = Tables(cluster, group)
        await tables.create(replication=3)
        await tables.write(30)
        (record, *_) = tables.manifest()
        node = cluster.nodes[0]
        await cluster.wait_for(lambda: tables.holds(node, record))
        gone = asyncio.Event()
        node.data.disk.on_removed = lambda *_: gone.set()
        dropping = group.create_task(cluster.sql("DROP TABLE d.t"))
        await gone.wait()
        await node.kill()
        node.crash(cluster.random)
        held = Catalog.restored(
            node.disk.state.applied,
            node.disk.state.lineage,
            [Change(key, value) for key, value in sorted(node.disk.state.items.items())],
        )
        assert record.table in held.dropped
        node.start(group)
        await dropping
        await cluster.wait_for(node.guard)
        await cluster.wait_for(lambda: not node.data.disk.listing())

    simulate(scenario, seed=seed, watched=False)


def test_R1_no_file_goes_while_the_vault_is_behind_what_the_node_shows():
    """The drop is over, and every node shows it; the disk under this one's vault takes its time."""

    async def scenario(cluster, group):
        tables = Tables(cluster, group)
        await tables.create(replication=3)
        await tables.write(30)
        (record, *_) = tables.manifest()
        node = cluster.nodes[0]
        await cluster.wait_for(lambda: tables.holds(node, record))
        slow_ns = 20 * RECONCILE_INTERVAL_NS
        node.disk.latency_ns = lambda: slow_ns
        await cluster.sql("DROP TABLE d.t")
        await cluster.wait_for(lambda: record.table in node.published.view.dropped)
        await cluster.wait_for(lambda: not any(tables.holds(one, record) for one in cluster.nodes[1:]))
        assert on_disk(record) in node.data.disk.listing()
        await cluster.wait_for(lambda: not node.data.disk.listing())
        dropped = decode_record(DroppedRecord, node.disk.durable.items[keys.dropped(record.table)])
        assert dropped.name == "d.t", "a machine that crashes now knows of it"

    simulate(scenario, watched=False)


# ---------------------------------------------------------------- R2: a snapshot carries no trace of deletes


@pytest.mark.parametrize("seed", range(3))
def test_R2_what_was_deleted_while_a_node_was_away_is_deleted_by_its_leap(seed):
    async def scenario(cluster, group):
        node, other = cluster.nodes[:2]
        for number in range(5):
            await cluster.sql(f"CREATE DATABASE d{number}")
        await cluster.wait_for(lambda: len(node.agent.durable.databases) == 5)
        await node.kill()
        for number in range(4):
            await cluster.sql(f"DROP DATABASE d{number}")
        await churn(cluster, 60)
        node.start(group)
        await cluster.wait_for(node.guard)
        assert await case_of(cluster, node) == "c"
        await cluster.wait_for(lambda: node.disk.state.items == other.disk.state.items == items_of(cluster))
        assert sorted(node.published.view.database_names) == ["d4"]

    simulate(scenario, seed=seed)


# ---------------------------------------------------------------- R3: no progress


def test_R3_a_slow_node_gets_in_although_compaction_runs_behind_the_writes():
    """While the node takes its snapshot more revisions are made than are kept. What follows the snapshot is held for
    it: it replays that, and needs no second one."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await node.kill()
        await asyncio.sleep(RETENTION_HOLD_NS / SECOND_NS)  # a new leader forgets nothing before
        await churn(cluster, 60)
        lacks = node.disk.state.applied + 1
        await cluster.wait_for(lambda: cluster.store.status().minimum > lacks)
        asked = []
        stream = cluster.coordinators[0].process.stream

        def counting(request):
            if isinstance(request, AskSnapshot):
                asked.append(cluster.store.status().latest)
                node.disk.latency_ns = lambda: 10 * SECOND_NS
            return stream(request)

        cluster.coordinators[0].process.stream = counting
        writing = group.create_task(write_on(cluster))
        node.start(group)
        await cluster.wait_for(lambda: node.agent and node.agent.durable.revision >= max(asked, default=2**40))
        kept = cluster.store.status()
        assert kept.latest - asked[0] > FEW.retention_revisions, "without the hold, what follows would be gone"
        assert kept.minimum <= asked[0] + 1
        node.disk.latency_ns = lambda: 0
        await cluster.wait_for(lambda: node.agent.recovered)
        await cluster.wait_for(node.guard)
        assert (len(asked), await case_of(cluster, node)) == (1, "c")
        newest = cluster.store.status().latest
        await cluster.wait_for(lambda: cluster.store.status().minimum > newest)  # the hold has ended with its use
        writing.cancel()

    simulate(scenario, settings=FEW)


async def write_on(cluster):
    while True:
        await churn(cluster, 1)
        await asyncio.sleep(0.5)


# ---------------------------------------------------------------- R4: admitted behind, serves stale


@pytest.mark.parametrize("seed", range(3))
def test_R4_a_node_that_is_let_in_many_revisions_behind_serves_nothing_before_it_has_them(seed):
    """What it says of its recovery is slow: by the time that it arrives, much has been written that the node lacks."""

    async def scenario(cluster, group):
        node, leader = cluster.nodes[0], cluster.coordinators[0].name
        await node.kill()
        saying = await reach(cluster, group, node, RecoveryFinished)
        hearing = cluster.network.hold(leader, node.name, lambda message: isinstance(message, Watched))
        for number in range(30):
            await cluster.sql(f"CREATE DATABASE d{number}")
        cluster.network.release(saying)
        await asyncio.sleep(2)
        entered = decode_record(NodeRecord, items_of(cluster)[keys.node(node.published.node)])
        assert entered.member
        assert entered.incarnation == node.published.incarnation
        behind = cluster.store.status().latest - node.published.view.revision
        assert 20 < behind <= DEFAULT_SETTINGS.catch_up_difference, "it was near enough to be let in"
        assert node.guard() is None, "and has no lease"
        cluster.network.release(hearing)
        await cluster.wait_for(node.guard)
        assert node.guard().view.nodes[entered.id].member, "it shows the revision that let it in"

    simulate(scenario, seed=seed)


# ---------------------------------------------------------------- R5: a gap between reading and subscribing


@pytest.mark.parametrize("seed", range(3))
def test_R5_what_is_written_while_a_session_opens_is_neither_lost_nor_doubled(seed):
    """The answer to the opening is on its way; what was made since LM was read comes by the watch that began before."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await node.kill()
        held = []

        def opening(message):
            held.extend([message] if isinstance(message, SessionOpened) else [])
            return isinstance(message, SessionOpened)

        hold = cluster.network.hold(cluster.coordinators[0].name, node.name, opening)
        node.start(group)
        await cluster.wait_for(lambda: held)
        for number in range(5):
            await cluster.sql(f"CREATE DATABASE d{number}")
        cluster.network.release(hold)
        await cluster.wait_for(node.guard)
        assert sorted(node.published.view.database_names) == [f"d{number}" for number in range(5)]
        await cluster.wait_for(lambda: node.disk.state.items == items_of(cluster))

    simulate(scenario, seed=seed)


# ---------------------------------------------------------------- R7: a leap skips what follows from its changes


def test_R7_the_files_of_a_table_that_a_leap_takes_away_go():
    """A running node was cut off while the table was dropped and forgotten; its leap is all that it hears of that."""

    async def scenario(cluster, group):
        tables = Tables(cluster, group)
        await tables.create(replication=3)
        await tables.write(30)
        records = tables.manifest()
        node = cluster.nodes[0]
        await cluster.wait_for(lambda: all(tables.holds(node, one) for one in records))
        process = node.agent
        cluster.network.partition(node.name, cluster.coordinators[0].name)
        await cluster.sql("DROP TABLE d.t")
        await churn(cluster, 60)
        assert {on_disk(one) for one in records} <= set(node.data.disk.listing())
        cluster.network.heal_all()
        await cluster.wait_for(lambda: not node.data.disk.listing())
        await cluster.wait_for(node.guard)
        assert node.agent is process, "the same process"
        assert await case_of(cluster, node) == "c"

    simulate(scenario, watched=False)
