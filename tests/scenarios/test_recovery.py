"""The weak points of recovery on the node's side, R1 to R10, each as the interleaving that would show it.

Those that are the coordinator's to close are in `test_admission.py` and `test_snapshots.py`.
"""

import asyncio
import threading

import msgspec
import pytest

from leasehold.coordinator.runtime import DEFAULT_SETTINGS
from leasehold.core.catalog.catalog import Catalog, Diverged
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.messages import AskSnapshot, RecoveryFinished, Renewal, SessionOpened, Watched, WatchFailed
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DroppedRecord, NodeRecord
from leasehold.ids import Revision
from leasehold.limits.metastorage import RETENTION_HOLD_NS
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import Reconciler
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.loop import run_virtual
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.oracle import Oracle
from leasehold.testing.threads import NoThreads
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import run
from tests.scenarios.bad_words import until
from tests.scenarios.test_durable_first import FILE, TABLE, Disk
from tests.sim.data_words import Ground as Tables
from tests.sim.data_words import on_disk
from tests.sim.recovery_words import case_of, reach
from tests.unit.node.scripted_leader import with_a_leader

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


def leased(ground):
    return ground.published.lease.deadline_ns > ground.clock.now_ns()


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


# ---------------------------------------------------------------- R7: a leap skips what listeners wait for


def overtake(ground):
    """The node falls out of its watch: what comes next is not kept."""
    ground.leader.minimum = ground.history.latest
    return ground.leader.say(WatchFailed(code="COMPACTED", minimum=ground.leader.minimum))


def test_R7_a_leap_of_a_running_node_is_heard_by_all_who_listen():
    """A thread that waits for a revision between, the lease, the reconciler's catalog: all hear of it in one step."""

    async def scenario(ground, group):
        ground.history.put(1)
        ground.start(group)
        await until(lambda: leased(ground))
        woken = []

        def wait() -> None:
            clock = BoottimeClock()
            until_ns = clock.now_ns() + 60 * SECOND_NS
            while ground.published.view.revision < 3 and clock.now_ns() < until_ns:
                run(ground.published.wait_for(Revision(3), until_ns))
            woken.append(ground.published.view.revision >= 3)

        waiting = threading.Thread(target=wait)
        waiting.start()
        ground.history.put(2)
        ground.history.take_back(1)
        ground.history.put(4)
        await overtake(ground)
        await until(lambda: ground.shown == 4)
        assert ground.agent.durable is ground.published.view, "what effects follow is what is shown"
        await until(lambda: ground.leader.told(Renewal)[-1].applied == 4)
        waiting.join(60)
        assert woken == [True]
        assert sorted(ground.published.view.dropped) == [2, 4]

    with_a_leader(scenario)


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


# ---------------------------------------------------------------- R8: the chain after a snapshot


def test_R8_the_chain_goes_on_from_the_hash_of_the_snapshot():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.history.put(2)
        ground.leader.minimum = ground.history.latest
        ground.start(group)
        await until(lambda: leased(ground))
        assert ground.published.view.lineage == ground.history.lineages[2]
        assert (ground.disk.state.applied, ground.disk.state.lineage) == (2, ground.history.lineages[2])
        ground.history.put(3)
        await ground.leader.push()
        await until(lambda: ground.disk.state.lineage == ground.history.lineages[3])

    with_a_leader(scenario)


def test_R8_what_does_not_follow_from_the_snapshot_ends_the_process():
    """A revision was lost on the way, right after the leap: a chain that began anew would not notice."""

    async def scenario(ground, group):
        async def life():
            with pytest.raises(Diverged) as caught:
                await ground.make().run()
            return caught.value

        ground.history.put(1)
        ground.history.put(2)
        ground.leader.minimum = ground.history.latest
        living = group.create_task(life())
        await until(lambda: leased(ground))
        ground.history.put(3)
        ground.history.put(4)
        await ground.leader.say(Watched(batch=ground.history.batches[3]))
        error = await living
        assert error.code == "DIVERGED"
        assert "`leasehold node reset --dir /data/n1`" in error.hint
        assert ground.disk.state.applied == 2, "nothing of it was stored"

    with_a_leader(scenario)


# ---------------------------------------------------------------- R9: durable before effects show


def test_R9_no_file_goes_by_a_leap_before_the_leap_survives_the_machine():
    async def scenario(ground, group):
        dropped = DroppedRecord(table=TABLE, name="d.t", pending=(1,))
        ground.history.commit(Change(keys.dropped(TABLE), encode(dropped)))
        ground.history.put(9)
        ground.leader.minimum = ground.history.latest
        disk = Disk(ground.disk)
        agent = ground.make(compares_disk=True)
        reconciler = Reconciler(
            agent=agent,
            published=ground.published,
            disk=disk,
            since_start=by_bucket([FILE]),
            vault=ground.vault,
            clock=ground.clock,
            threads=NoThreads(),
        )
        group.create_task(agent.run())
        group.create_task(reconciler.run())
        await until(lambda: disk.went_at is not None)
        assert disk.went_at == 2
        assert ground.leader.told(RecoveryFinished), "and not before this recovery was over"
        assert agent.recovered

    with_a_leader(scenario)


# ---------------------------------------------------------------- R10: delivered twice


def test_R10_a_revision_that_is_delivered_again_changes_nothing():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.history.put(2)
        ground.start(group)
        await until(lambda: leased(ground) and ground.disk.state.applied == 2)
        view, stored = ground.published.view, ground.disk.state
        for batch in ground.history.batches:
            await ground.leader.say(Watched(batch=batch))
        await asyncio.sleep(1)
        assert ground.published.view is view
        assert ground.disk.state is stored
        ground.history.put(3)
        await ground.leader.push()
        await until(lambda: ground.shown == 3)

    with_a_leader(scenario)


def test_R10_what_a_watch_still_brings_during_a_leap_is_not_applied_beside_it():
    """The stream that is about to end goes on telling of revisions that the snapshot has."""

    async def scenario(ground, group):
        shown = []

        class Noting(Published):
            def publish(self, view):
                shown.append(view.revision)
                super().publish(view)

        ground.history.put(1)
        ground.start(group, published=Noting)
        await until(lambda: leased(ground))
        shown.clear()
        ground.disk.latency_ns = lambda: SECOND_NS
        ground.history.put(2)
        ground.history.put(3)
        await overtake(ground)
        await until(lambda: ground.leader.asked_snapshots)
        for batch in ground.history.batches:
            await ground.leader.say(Watched(batch=batch))
        await until(lambda: ground.disk.state.applied == 3)
        ground.disk.latency_ns = lambda: 0
        await until(lambda: ground.agent.durable.revision == 3)
        assert shown == [3], "one leap"

    with_a_leader(scenario)
