"""Rows on nodes that lose their files, are removed, or come new: who is counted on, and where the copies go."""

import asyncio
from collections import Counter

import pytest

from leasehold.core.data.node_removal import remove_node
from leasehold.core.membership.proofs import with_proof
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import (
    AskIncarnation,
    CommitTransaction,
    JoinWait,
    Message,
    NewestIncarnation,
    NodeRemoved,
)
from leasehold.core.words.records import Allocated, BucketRecord
from leasehold.errors import LeaseholdError
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import AT_LENGTH, CLIENT, SimulatedNode
from leasehold.testing.disk import SegmentDisk
from leasehold.testing.site import KEYS
from tests.sim.data_words import TABLE, Ground, simulate
from tests.stored import stored_catalog

ROWS = 20


def wipe(node: SimulatedNode) -> None:
    """Its segments are gone, its vault is not."""
    node.data.disk = SegmentDisk()


def bucket(ground: Ground) -> BucketRecord:
    """The one bucket of the table, as the store holds it."""
    (found,) = stored_catalog(ground.cluster.store).buckets.values()
    return found


async def written(ground: Ground, writes: int = 2) -> Counter[int]:
    """The rows of so many writes."""
    rows: Counter[int] = Counter()
    for _ in range(writes):
        rows.update((await ground.writer().write(TABLE, ROWS)).rows)
    return rows


async def remove(ground: Ground, node: SimulatedNode, *, force: bool = False) -> NodeRemoved:
    return await remove_node(ground.cluster.client(), node.name, AT_LENGTH, force=force)


async def placed() -> None:
    await asyncio.sleep(2 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)


# ---------------------------------------------------------------- I7: identity kept, data wiped


def test_I7_a_node_whose_data_was_wiped_is_not_counted_on_until_it_has_fetched_them() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        rows = await written(ground)
        whole, wiped = (ground.node(node) for node in bucket(ground).replicas)
        await wiped.kill()
        wipe(wiped)
        ground.cluster.network.partition(whole.name, wiped.name)
        wiped.start(ground.group)
        await ground.wait_for(wiped.guard)
        assert bucket(ground).in_sync == (whole.published.node,), "before it had its first lease"
        assert all(record.holders == (whole.published.node,) for record in ground.manifest())
        assert await ground.read() == rows, "from the one that holds them"

        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: len(bucket(ground).in_sync) == 2)
        for record in ground.manifest():
            assert len(record.holders) == 2
            assert ground.holds(wiped, record)

    simulate(scenario)


def test_I7_the_last_holder_of_lost_rows_stays_named_and_says_that_it_lacks_them() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await written(ground, 1)
        (record,) = ground.manifest()
        (node,) = (ground.node(one) for one in record.holders)
        await node.kill()
        wipe(node)
        node.start(ground.group)
        await ground.wait_for(node.guard)
        await placed()
        assert ground.manifest() == [record]
        with pytest.raises(LeaseholdError) as caught:
            await ground.read()
        assert caught.value.code == "NO_REPLICA" or "SEGMENT_MISSING" in str(caught.value)

    simulate(scenario)


# ---------------------------------------------------------------- removal


def test_rows_of_a_removed_node_are_copied_to_another_one() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        rows = await written(ground)
        kept, gone = (ground.node(node) for node in bucket(ground).replicas)
        await gone.stop()
        removed = await remove(ground, gone)
        assert (removed.buckets, removed.lost) == (1, 0)
        await ground.wait_for(lambda: gone.published.node not in bucket(ground).replicas)
        await ground.wait_for(lambda: len(bucket(ground).in_sync) == 2)
        for record in ground.manifest():
            assert len(record.holders) == 2
            assert gone.published.node not in record.holders
            assert all(ground.holds(ground.node(node), record) for node in record.holders)
        await kept.stop()
        assert await ground.read() == rows, "the copies are whole"

    simulate(scenario)


def test_what_only_the_removed_node_held_is_given_up_by_force_alone() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=1)
        await written(ground, 1)
        (record,) = ground.manifest()
        (gone,) = (ground.node(node) for node in record.holders)
        with pytest.raises(LeaseholdError) as caught:
            await remove(ground, gone)
        assert caught.value.code == "ONLY_HOLDER"
        assert TABLE in caught.value.text
        assert gone.guard(), "it has never lost its lease"
        await gone.stop()
        assert (await remove(ground, gone, force=True)).lost == 1
        await placed()
        (record,) = ground.manifest()
        assert record.holders == ()
        assert bucket(ground).replicas != (gone.published.node,)

    simulate(scenario)


def test_a_commit_that_comes_late_counts_no_removed_node() -> None:
    """Its rows were staged on a node that is removed before the commit."""

    async def scenario(ground: Ground) -> None:
        await ground.create()
        gone = ground.node(bucket(ground).replicas[1])
        network, leader = ground.cluster.network, ground.cluster.coordinators[0].name
        seen: list[CommitTransaction] = []

        def is_commit(message: Message) -> bool:
            if isinstance(message, CommitTransaction):
                seen.append(message)
            return isinstance(message, CommitTransaction)

        held = network.hold(CLIENT, leader, is_commit)
        writing = ground.group.create_task(ground.writer().write(TABLE, ROWS))
        await ground.wait_for(lambda: seen)
        assert {holder.node for one in seen[0].segments for holder in one.holders} == {1, gone.published.node}
        await gone.stop()
        await remove(ground, gone)
        network.release(held)
        done = await writing
        for record in ground.manifest():
            assert record.holders
            assert gone.published.node not in record.holders
        await ground.wait_for(lambda: gone.published.node not in bucket(ground).replicas)
        await ground.wait_for(lambda: len(bucket(ground).in_sync) == 2)
        assert await ground.read() == Counter(done.rows)

    simulate(scenario)


# ---------------------------------------------------------------- a disk that holds more than it should


def test_what_is_no_more_to_be_here_goes_once_the_recovery_is_accepted_and_not_before() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create()
        await written(ground, 1)
        (record,) = ground.manifest()
        node = ground.node(record.holders[1])
        one = OnDisk(record.table, record.bucket, record.id)
        await node.kill()
        await ground.cluster.sql(f"DROP TABLE {TABLE}")
        coordinator = ground.cluster.coordinators[0]
        ground.cluster.network.partition(node.name, coordinator.name)
        node.start(ground.group)
        await asyncio.sleep(30)
        assert node.data.disk.listing() == {one}, "it has heard of nothing"
        ground.cluster.network.heal_all()
        await ground.wait_for(lambda: not node.data.disk.listing())
        assert node.agent is not None
        assert node.agent.recovered

    simulate(scenario)


# ---------------------------------------------------------------- adoption


def test_who_shows_the_token_hears_the_newest_incarnation_once_nobody_lives() -> None:
    async def scenario(ground: Ground) -> None:
        node = ground.cluster.nodes[2]
        vault = node.disk.copy().open()
        record = await vault.identity()
        assert isinstance(record, Allocated)
        unproven = AskIncarnation(cluster_id=record.cluster_id, token=record.token, node=record.node)
        request = with_proof(unproven, KEYS)

        async def ask() -> object:
            connection = ground.cluster.network.host(CLIENT).connect(ground.cluster.coordinators[0].address)
            try:
                return await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
            finally:
                await connection.close()

        assert isinstance(await ask(), JoinWait)
        await node.kill()
        for _ in range(20):
            answer = await ask()
            if not isinstance(answer, JoinWait):
                break
            await asyncio.sleep(answer.wait_ns / SECOND_NS)
        assert answer == NewestIncarnation(incarnation=node.published.incarnation, name=node.name)

    simulate(scenario)
