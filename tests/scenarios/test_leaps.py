"""The weak points of a leap on the node's side, R7 to R10, each as the interleaving that would show it."""

import asyncio
import threading

import pytest

from leasehold.core.catalog.catalog import Diverged
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import RecoveryFinished, Renewal, Watched, WatchFailed
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DroppedRecord
from leasehold.ids import Revision
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.reconciler import Reconciler
from leasehold.testing.on_disk import by_bucket
from leasehold.testing.threads import NoThreads
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import run
from tests.scenarios.bad_words import until
from tests.scenarios.test_durable_first import FILE, TABLE, Disk
from tests.unit.node.scripted_leader import with_a_leader


def leased(ground):
    return ground.published.lease.deadline_ns > ground.clock.now_ns()


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
