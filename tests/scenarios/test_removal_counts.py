"""What is counted before a node is removed, and what changes while its lease is waited for: nothing is lost unasked."""

import asyncio

import pytest

from leasehold.coordinator.writer import Writer
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.records import BucketRecord
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.requests import undisturbed
from tests.scenarios.identity_words import serving, stored
from tests.scenarios.removal_words import NewestWriter, remove, replicas, simulate
from tests.scenarios.test_removal import housekeeping
from tests.sim.coordinator_words import run
from tests.unit.core.replicas.test_replication import segment


async def written(cluster, key, *holders):
    """An entry of the manifest, as commits make them."""
    entry = segment(1, *holders, table=key[0], bucket=key[1])
    await NewestWriter.newest.submit(lambda _: (put(keys.segment(*key, entry.id), entry),))


async def outcome(cluster, name, **how):
    try:
        return (await remove(cluster, name, **how)).lost
    except Refused as error:
        return error.code


async def begun(group, removes, cluster, name):
    """The task of a removal that waits for the lease of its node."""
    waits = asyncio.Event()
    removing = group.create_task(removes(cluster, name, on_wait=lambda _: waits.set()))
    await waits.wait()
    return removing


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_two_holders_that_are_removed_at_once_one_stays(seed):
    """Both leases run out at about the same time, and the other's tombstone is not in the first census of either."""

    async def scenario(cluster, group):
        for node in cluster.nodes[:2]:
            cluster.network.partition(node.name, COORDINATOR)
        await written(cluster, (2, 0), 1, 2)
        both = [group.create_task(outcome(cluster, name)) for name in ("n1", "n2")]
        assert sorted([await one for one in both], key=str) == [0, "ONLY_HOLDER"]
        catalog = await stored(cluster)
        assert [catalog.nodes[one].removed for one in (1, 2)].count(True) == 1

    simulate(scenario, nodes=4, seed=seed, oracle=False)


def test_a_table_that_is_made_meanwhile_is_placed_on_nodes_that_stay():
    async def scenario(cluster, group):
        removing = await begun(group, remove, cluster, "n4")
        assert cluster.nodes[3].guard(), "it serves still"
        for number in range(4):
            await run(cluster, f"CREATE TABLE d.u{number} (a INT) TBLPROPERTIES ('replication' = '1')")
        buckets = (await stored(cluster)).buckets.values()
        assert 4 not in {node for one in buckets for node in one.replicas}
        await removing

    simulate(scenario, nodes=4)


def test_what_is_written_to_a_bucket_that_came_meanwhile_is_not_lost():
    async def scenario(cluster, group):
        removing = await begun(group, outcome, cluster, "n4")
        await run(cluster, "CREATE TABLE d.u (a INT) TBLPROPERTIES ('replication' = '1')")
        key = max((await stored(cluster)).buckets)
        moved = BucketRecord(table=key[0], bucket=0, replicas=(4,), in_sync=(4,))
        await NewestWriter.newest.submit(lambda _: (put(keys.bucket(*key), moved),))
        await written(cluster, key, 4)
        assert await removing == "ONLY_HOLDER"
        assert not (await stored(cluster)).nodes[4].removed
        await serving(cluster, cluster.nodes[3])

    simulate(scenario, nodes=4, oracle=False)


def test_a_node_that_stays_after_all_gets_what_it_was_passed_over_for():
    """Two of three nodes are removed at once. The lease of one lasts: by the time it has ended, too few are left."""

    async def scenario(cluster, group):
        await run(cluster, "ALTER CLUSTER SET lease_duration = '60s'")
        stays = cluster.nodes[2]
        await cluster.wait_for(lambda: stays.published.lease.deadline_ns - stays.clock.now_ns() > 30 * SECOND_NS)
        staying = await begun(group, outcome, cluster, "n3")
        await cluster.nodes[1].stop()
        await remove(cluster, "n2")
        await housekeeping()
        assert replicas(cluster) == (1,)
        assert not staying.done()
        assert await staying == "TOO_FEW_NODES"
        await serving(cluster, stays)
        await housekeeping()
        assert replicas(cluster) == (1, 3)

    simulate(scenario)


def test_tombstones_that_are_decided_in_one_transaction_count_on_each_other(monkeypatch):
    async def scenario(cluster, group):
        for node in cluster.nodes[:2]:
            await node.stop()
        waiting, submit = [], Writer.submit

        async def submits(self, decide):
            waiting.append(decide)
            try:
                return await submit(self, decide)
            finally:
                waiting.remove(decide)

        monkeypatch.setattr(Writer, "submit", submits)

        async def until_both_wait(request):
            if request == "txn":
                await cluster.wait_for(lambda: len(waiting) == 3)
                cluster.coordinators[0].before = undisturbed
            return await undisturbed(request)

        cluster.coordinators[0].before = until_both_wait
        group.create_task(written(cluster, (2, 0), 1, 2))
        both = [group.create_task(outcome(cluster, name)) for name in ("n1", "n2")]
        assert sorted([await one for one in both], key=str) == [0, "ONLY_HOLDER"]

    simulate(scenario, nodes=4, oracle=False)
