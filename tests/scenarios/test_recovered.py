"""A cluster that goes on from an older state of its meta storage, with processes of the lost state still about."""

import asyncio
from pathlib import Path

import pytest

from leasehold.coordinator.generation import begin_generation
from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS, first_records
from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import ClusterFacts, Initialise
from leasehold.core.words.operations import Change, RevisionChanges, Txn
from leasehold.core.words.records import ClusterRecord, CountersRecord
from leasehold.errors import Corrupt, NotInitialised, Refused
from leasehold.limits.membership import GENERATION_GAP
from leasehold.limits.units import SECOND_NS
from leasehold.node.directory.adoption import Adopting
from leasehold.testing.cluster import ADDRESS, COORDINATOR, SimulatedCluster
from leasehold.testing.loop import run_virtual
from leasehold.testing.metastorage import MemoryMetaStorage, MemoryStore
from leasehold.testing.site import KEYS

WALL_S = 1_800_000_000
LONGEST_NS = 60 * SECOND_NS
KEPT = Path("before-adopt-1")


class Over(Exception):
    pass


def simulate(scenario, *, seed=1):
    """Runs a scenario on a cluster of three nodes that serve."""

    async def main(random):
        cluster = SimulatedCluster(random, nodes=3)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await cluster.sql("CREATE DATABASE kept")
                await asyncio.sleep(1)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


async def recover(cluster, backup, *, longest_lease_ns, wall_s=WALL_S):
    """What `leasehold recover` does, on a backup that takes the lost store's place."""
    cluster.store = backup
    storage = MemoryMetaStorage(backup)
    begun = await begin_generation(storage, wall_s=wall_s, longest_lease_ns=longest_lease_ns)
    await storage.close()
    return begun


async def refusal(node):
    """The code with which a process of the node ends."""
    try:
        async with asyncio.TaskGroup() as own:
            node.start(own)
    except* Refused as errors:
        (error,) = errors.exceptions
    await node.kill()
    return error.code


async def adopt(cluster, node):
    """What `leasehold node adopt` does in its directory."""
    vault = node.disk.open()
    host = cluster.network.host("operator")
    adopting = Adopting(
        node.name,
        vault,
        (ADDRESS,),
        host,
        node.clock,
        lambda _: None,
        entropy=cluster.entropy,
        set_aside=lambda: KEPT,
        keys=KEYS,
    )
    adopted = await adopting.adopt()
    await vault.close()
    return adopted


def databases(node):
    return {one.name for one in node.published.view.databases.values()}


def test_R6_nodes_within_the_backup_come_back_and_nodes_beyond_it_once_they_are_adopted():
    async def scenario(cluster, group):
        first, second, third = cluster.nodes
        await third.stop()
        backup = cluster.store.backup()
        await cluster.sql("CREATE DATABASE lost")
        await asyncio.sleep(1)
        for node in (first, second):
            await node.kill()
        await cluster.kill_coordinator()
        begun = await recover(cluster, backup, longest_lease_ns=3 * SECOND_NS)
        assert begun.nodes == ("n1", "n2", "n3")
        await cluster.start_coordinator(group)

        third.start(group)
        await cluster.wait_for(third.guard)
        for node in (first, second):
            assert await refusal(node) == "BEYOND_RECOVERY"
            adopted = await adopt(cluster, node)
            assert (adopted.changed, adopted.kept) == (True, KEPT)
            assert adopted.incarnation > adopted.before + GENERATION_GAP
            node.start(group)
        await cluster.wait_for(lambda: all(node.guard() for node in cluster.nodes))
        for node in cluster.nodes:
            assert databases(node) == {"kept"}
            assert node.published.view.cluster.generation == WALL_S
        await cluster.sql("CREATE DATABASE next")
        assert all("next" in databases(node) for node in cluster.nodes)

    simulate(scenario)


def test_R6_no_statement_returns_while_a_lease_of_the_lost_state_may_serve():
    async def scenario(cluster, group):
        first = cluster.nodes[0]
        backup = cluster.store.backup()
        await cluster.sql("ALTER CLUSTER SET lease_duration = '60s'")
        await asyncio.sleep(1)
        cluster.network.partition(first.name, cluster.coordinators[0].name)
        await cluster.kill_coordinator()
        assert first.guard().lease.deadline_ns - first.clock.now_ns() > 50 * SECOND_NS
        for node in cluster.nodes[1:]:
            await node.kill()
        await recover(cluster, backup, longest_lease_ns=LONGEST_NS)
        await cluster.start_coordinator(group)
        dropping = group.create_task(cluster.sql("DROP DATABASE kept"))
        await asyncio.wait([dropping], timeout=50)
        assert first.guard()
        assert not dropping.done()
        await dropping
        assert not first.guard()

    simulate(scenario)


def test_R6_the_process_of_a_lost_incarnation_is_superseded_and_no_number_is_given_out_twice():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        for one in cluster.nodes:
            await one.kill()
        backup = cluster.store.backup()
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.TaskGroup() as own:
                node.start(own)
                await cluster.wait_for(node.guard)
                await cluster.sql("CREATE DATABASE lost")
                lost, term = node.published.view.counters, cluster.leading.leader.grantor.term
                await cluster.kill_coordinator()
                await recover(cluster, backup, longest_lease_ns=3 * SECOND_NS)
                await cluster.start_coordinator(group)
                await asyncio.sleep(60)
        assert ended.value.exceptions[0].code == "OTHER_GENERATION"
        counters = decode_record(CountersRecord, cluster.store.get(keys.COUNTERS, None).value)
        assert counters.next_object > lost.next_object
        assert counters.next_procedure > lost.next_procedure
        assert cluster.leading.leader.grantor.term > term

    simulate(scenario)


def test_R6_a_node_that_the_backup_does_not_know_is_waited_for_and_told_though_it_runs_on():
    async def scenario(cluster, group):
        stranger, *known = cluster.nodes
        await cluster.sql("ALTER CLUSTER SET lease_duration = '60s'")
        await cluster.wait_for(lambda: stranger.guard().lease.deadline_ns - stranger.clock.now_ns() > 50 * SECOND_NS)
        for one in known:
            await one.kill()
        cluster.network.partition(stranger.name, COORDINATOR)
        await cluster.kill_coordinator()
        empty = MemoryStore()
        cluster.store = empty
        await cluster.start_coordinator(group)
        begin = Initialise(cluster_id=stranger.published.cluster_id)  # a backup from before any node
        await cluster.ask(begin, ClusterFacts)
        await cluster.sql("CREATE DATABASE kept")
        await cluster.kill_coordinator()
        await recover(cluster, empty, longest_lease_ns=LONGEST_NS)
        await cluster.start_coordinator(group)
        dropping = group.create_task(cluster.sql("DROP DATABASE kept"))
        await asyncio.wait([dropping], timeout=50)
        assert stranger.guard()
        assert not dropping.done()
        await dropping
        assert not stranger.guard()
        await cluster.wait_for(lambda: not cluster_record(cluster).strangers)
        cluster.network.heal_all()
        await asyncio.sleep(60)
        raise AssertionError("it goes on, and was never told")

    async def ending_in_a_refusal(cluster, group):
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.TaskGroup() as own:
                stranger = cluster.nodes[0]
                await stranger.kill()
                stranger.start(own)
                await cluster.wait_for(stranger.guard)
                await scenario(cluster, group)
        assert ended.value.exceptions[0].code == "OTHER_GENERATION"

    simulate(ending_in_a_refusal)


def cluster_record(cluster):
    return decode_record(ClusterRecord, cluster.store.get(keys.CLUSTER, None).value)


def test_R6_the_same_backup_restored_twice_refuses_the_first_recovery_and_adopts_it():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        for one in cluster.nodes:
            await one.kill()
        backup = cluster.store.backup()
        numbers = []
        for wall_s in (WALL_S, WALL_S + 3600):
            await cluster.kill_coordinator()
            await recover(cluster, backup.backup(), longest_lease_ns=3 * SECOND_NS, wall_s=wall_s)
            await cluster.start_coordinator(group)
            if wall_s > WALL_S:
                assert await refusal(node) == "BEYOND_RECOVERY"
                assert (await adopt(cluster, node)).changed
            node.start(group)
            await cluster.wait_for(node.guard)
            await cluster.sql("CREATE DATABASE d")
            (made,) = [one.id for one in node.published.view.databases.values() if one.name == "d"]
            numbers.append((made, node.published.view.nodes[node.published.node].incarnation))
            await node.kill()
        (first, second) = numbers
        assert all(later > earlier + 3600 for earlier, later in zip(first, second, strict=True))

    simulate(scenario)


def test_a_store_of_two_times_has_no_next_generation():
    """As a file that was brought back with the log of a later time beside it."""

    async def scenario(cluster, _group):
        for number in range(3):
            await cluster.sql(f"CREATE DATABASE d{number}")
        store = cluster.store.backup()
        earlier, later = store.newest - 2, store.newest - 1

        class TwoTimes(MemoryMetaStorage):
            async def watch(self, start, end, from_revision):
                async for batch in super().watch(start, end, from_revision):
                    if batch.revision == earlier:
                        before = batch.changes
                    yield RevisionChanges(later, before) if batch.revision == later else batch

        with pytest.raises(Corrupt, match=f"revision {later} "):
            await begin_generation(TwoTimes(store), wall_s=WALL_S, longest_lease_ns=0)
        assert store.newest == cluster.store.newest, "nothing was written"

    simulate(scenario)


def test_a_store_without_a_cluster_has_no_next_generation():
    async def main(_random):
        storage = MemoryMetaStorage(MemoryStore())
        with pytest.raises(NotInitialised):
            await begin_generation(storage, wall_s=WALL_S, longest_lease_ns=0)
        assert (await storage.status()).latest == 0

    run_virtual(main, 1)


def test_a_store_with_a_record_that_can_t_be_read_is_left_as_it_is():
    async def main(_random):
        storage = MemoryMetaStorage(MemoryStore())
        damaged = Change(keys.segment(1, 0, "f" * 32), b"what")
        await storage.txn(Txn(then=(*first_records("c" * 32, DEFAULT_SETTINGS), damaged)))
        before = (await storage.status()).latest
        with pytest.raises(Corrupt):
            await begin_generation(storage, wall_s=WALL_S, longest_lease_ns=0)
        assert (await storage.status()).latest == before

    run_virtual(main, 1)
