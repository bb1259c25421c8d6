"""Nodes that are removed: told, waited for, never heard again; their names free, their buckets placed elsewhere."""

import asyncio

import pytest

from leasehold.core.words import keys
from leasehold.core.words.messages import NodeRemoved, RemoveNode
from leasehold.errors import Refused
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.requests import RequestFate, is_transaction, undisturbed
from tests.scenarios.identity_words import identity, refusal, serving, stored
from tests.scenarios.removal_words import NewestWriter, begin, refused, remove, replicas, simulate
from tests.sim.coordinator_words import run, the_leader

LEASE_NS = 4 * SECOND_NS


# ---------------------------------------------------------------- the node


def test_a_node_that_runs_is_told_and_its_lease_is_waited_for():
    async def scenario(cluster, group):
        node = cluster.nodes[2]
        waits = []
        began_ns = cluster.loop.now_ns()
        removing = group.create_task(remove(cluster, "n3", on_wait=waits.append))
        await cluster.wait_for(lambda: not node.guard())
        assert not removing.done(), "it gets no lease any more"
        assert not (await stored(cluster)).nodes[3].removed
        removed = await removing
        assert cluster.loop.now_ns() - began_ns < LEASE_NS
        await cluster.wait_for(lambda: node.task is None, at_most_ns=SECOND_NS)
        assert (removed.node, removed.name, removed.already) == (3, "n3", False)
        assert {one.nodes for one in waits} == {("n3",)}
        assert all(0 < one.at_most_ns < LEASE_NS for one in waits)
        assert await refusal(cluster, node) == "REMOVED"
        assert [one.name for one in (await cluster.status()).nodes] == ["n1", "n2"]

    simulate(scenario)


def test_what_a_node_is_told_that_is_removed_while_it_runs():
    async def scenario(cluster, group):
        late = cluster.nodes[3]
        ended = begin(group, late)
        await serving(cluster, late)
        await remove(cluster, "n4")
        error = await ended
        assert error.code == "REMOVED"
        assert "leasehold node reset" in error.hint

    simulate(scenario, nodes=4, started=3)


def test_a_node_that_is_cut_off_serves_until_its_lease_ends_and_is_removed_after_that():
    async def scenario(cluster, group):
        node = cluster.nodes[2]
        cluster.network.partition(node.name, COORDINATOR)
        removing = group.create_task(remove(cluster, "n3"))
        await asyncio.sleep(1)
        assert node.guard(), "nothing can tell it"
        await removing
        assert node.guard() is None
        cluster.network.heal_all()
        await cluster.wait_for(lambda: node.task is None)
        assert await refusal(cluster, node) == "REMOVED"

    simulate(scenario)


def test_one_that_gave_its_lease_back_is_waited_for_by_nobody():
    async def scenario(cluster, _group):
        await cluster.nodes[2].stop()
        began_ns = cluster.loop.now_ns()
        await remove(cluster, "n3")
        assert cluster.loop.now_ns() - began_ns < SECOND_NS

    simulate(scenario)


def test_a_statement_does_not_wait_for_a_removed_node():
    async def scenario(cluster, _group):
        await remove(cluster, "n3")
        receipt = await run(cluster, "DROP TABLE d.t")
        assert {one.node for one in receipt.settled} == {1, 2}
        assert receipt.elapsed_ns < SECOND_NS

    simulate(scenario)


# ---------------------------------------------------------------- asking


def test_who_asks_twice_hears_the_same():
    async def scenario(cluster, group):
        first = group.create_task(remove(cluster, "n3"))
        second = group.create_task(remove(cluster, "3"))
        assert await first == await second
        again = await remove(cluster, "n3")
        assert (again.node, again.already) == (3, True)

    simulate(scenario)


def test_a_removal_goes_on_when_nobody_waits_for_it():
    async def scenario(cluster, group):
        removing = group.create_task(remove(cluster, "n3"))
        await asyncio.sleep(1)
        removing.cancel()
        await asyncio.sleep(LEASE_NS / SECOND_NS)
        assert (await stored(cluster)).nodes[3].removed

    simulate(scenario)


def test_the_next_leader_is_asked_for_it_again():
    async def scenario(cluster, group):
        removing = group.create_task(remove(cluster, "n3"))
        await asyncio.sleep(1)
        await cluster.kill_coordinator()
        assert not (await stored(cluster)).nodes[3].removed
        await cluster.start_coordinator(group)
        assert (await removing).node == 3
        assert (await stored(cluster)).nodes[3].removed

    simulate(scenario)


def test_a_removal_that_is_refused_leaves_its_node_as_it_is():
    async def scenario(cluster, _group):
        assert await refused(cluster, "n9") == "NOT_FOUND"
        await remove(cluster, "n3")
        assert await refused(cluster, "n2") == "TOO_FEW_NODES"
        await asyncio.sleep(LEASE_NS / SECOND_NS)
        assert all(node.guard() for node in cluster.nodes[:2])
        assert cluster.nodes[1].published.incarnation == 1
        await run(cluster, "DROP TABLE d.t")
        await remove(cluster, "n2")
        assert await refused(cluster, "n1") == "LAST_NODE"
        assert (await remove(cluster, "n1", force=True)).node == 1

    simulate(scenario)


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.LATE])
def test_a_removal_whose_write_is_unclear_is_found_out_by_asking_again(fate):
    """The store's answer is lost, before or after it wrote: the leader asks the log what happened."""

    async def scenario(cluster, _group):
        await cluster.nodes[2].stop()
        await asyncio.sleep(1)
        leading = the_leader(cluster)
        lost = []

        async def lose(request):
            if is_transaction(request) and not lost and keys.node(3) in NewestWriter.newest.drafted:
                lost.append(request)
                return fate
            return await undisturbed(request)

        leading.before = lose
        assert (await remove(cluster, "n3")).node == 3
        assert lost
        assert (await stored(cluster)).nodes[3].removed
        assert await refusal(cluster, cluster.nodes[2]) == "REMOVED"

    simulate(scenario, coordinators=3)


def test_a_store_without_room_is_asked_again_until_it_has_some():
    async def scenario(cluster, _group):
        await cluster.nodes[2].stop()
        await asyncio.sleep(1)
        leading = cluster.coordinators[0]
        declined = []

        async def decline(request):
            if request == "txn" and len(declined) < 3 and keys.node(3) in NewestWriter.newest.drafted:
                declined.append(request)
                raise Refused("no space is left", code="DISK_FULL", hint="free space")
            return await undisturbed(request)

        leading.before = decline
        assert (await remove(cluster, "n3")).node == 3
        assert len(declined) == 3
        assert (await stored(cluster)).nodes[3].removed

    simulate(scenario)


# ---------------------------------------------------------------- ids and names


def test_I10_an_id_that_was_removed_is_given_to_nobody_again():
    async def scenario(cluster, group):
        node, late = cluster.nodes[2:]
        await remove(cluster, "n3")
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        late.calls_itself = "n3"
        begin(group, late)
        await serving(cluster, late)
        assert late.published.node == 4, "the name is free, the id is not"
        assert await refusal(cluster, node) == "REMOVED"
        catalog = await stored(cluster)
        assert [(one, catalog.nodes[one].removed) for one in sorted(catalog.nodes)] == [
            (1, False),
            (2, False),
            (3, True),
            (4, False),
        ]
        # By its name the living one is meant, by its number the dead one.
        assert (await remove(cluster, "3")).already
        assert not (await remove(cluster, "n3")).already

    simulate(scenario, nodes=4, started=3)


def test_I10_a_request_that_is_repeated_late_does_not_reach_the_next_owner_of_the_name():
    async def scenario(cluster, group):
        late = cluster.nodes[3]
        await remove(cluster, "n3")
        late.calls_itself = "n3"
        begin(group, late)
        await serving(cluster, late)
        again = await cluster.ask(RemoveNode(cluster_id=None, name="n3", node=3), NodeRemoved)
        assert (again.node, again.already) == (3, True)
        assert late.guard()

    simulate(scenario, nodes=4, started=3)


def test_clean_then_rejoin():
    """A wiped directory is no proof of an id: its old name is free once the old node is removed, and not before."""

    async def scenario(cluster, group):
        node, wiped = cluster.nodes[2:]
        await node.kill()
        wiped.calls_itself = "n3"
        error = await begin(group, wiped)
        assert error.code == "NAME_TAKEN"
        assert "`leasehold node remove n3`" in error.hint
        assert "n3" in error.text
        await remove(cluster, "n3")
        begin(group, wiped)
        await serving(cluster, wiped)
        assert wiped.published.node == 4
        assert (await identity(wiped)).node == 4

    simulate(scenario, nodes=4, started=3)


# ---------------------------------------------------------------- buckets


async def housekeeping():
    await asyncio.sleep(2 * HOUSEKEEPING_INTERVAL_NS / SECOND_NS)


def test_buckets_of_a_removed_node_go_to_another_one():
    async def scenario(cluster, _group):
        assert replicas(cluster) == (1, 2)
        removed = await remove(cluster, "n2")
        assert removed.buckets == 1
        await housekeeping()
        assert replicas(cluster) == (1, 3)

    simulate(scenario)


def test_a_bucket_with_too_few_replicas_gets_one_from_the_next_node_that_comes():
    async def scenario(cluster, group):
        assert await refused(cluster, "n2") == "TOO_FEW_NODES"
        await remove(cluster, "n2", force=True)
        await housekeeping()
        assert replicas(cluster) == (1,)
        late = cluster.nodes[2]
        begin(group, late)
        await serving(cluster, late)
        await housekeeping()
        assert replicas(cluster) == (1, 3)

    simulate(scenario, started=2)


def test_a_leader_that_is_new_goes_on_with_what_the_last_one_began():
    async def scenario(cluster, group):
        await remove(cluster, "n2")
        assert replicas(cluster) == (1, 2), "it was killed before it came to that"
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        await serving(cluster, cluster.nodes[0], cluster.nodes[2])
        await housekeeping()
        assert replicas(cluster) == (1, 3)

    simulate(scenario)


def test_a_drop_waits_for_no_files_of_a_removed_node():
    async def scenario(cluster, _group):
        await cluster.nodes[1].kill()
        await run(cluster, "DROP TABLE d.t")
        await asyncio.sleep(1)
        assert [one.pending for one in (await stored(cluster)).dropped.values()] == [(2,)]
        await remove(cluster, "n2")
        await housekeeping()
        assert not (await stored(cluster)).dropped

    simulate(scenario)
