"""The weak points of node identity, continued: other clusters (I11), definite rejections (I20), other names, one live
session.
"""

import asyncio

import msgspec
import pytest

from leasehold.core.words.messages import AllocateAnswer, JoinAnswer
from leasehold.core.words.records import Claiming, Joining
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.metastorage import MemoryStore
from tests.scenarios.identity_words import (
    allocate,
    identity,
    in_an_office,
    join,
    refusal,
    serving,
    simulate,
    stored,
)

# ---------------------------------------------------------------- I11 and I20: another cluster


def another_cluster(cluster):
    """The coordinator's directory was exchanged: another cluster answers at the same address."""
    cluster.store = MemoryStore()


def test_I11_a_node_of_another_cluster_is_not_let_in():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.kill()
        await cluster.kill_coordinator()
        another_cluster(cluster)
        await cluster.start_coordinator(group)
        await cluster.initialise()
        before = await identity(node)
        assert await refusal(cluster, node) == "OTHER_CLUSTER"
        assert await identity(node) == before, "and its identity is as it was"
        assert len((await stored(cluster)).nodes) == 0

    simulate(scenario)


@pytest.mark.parametrize("request_", [allocate(1), join(nonce=10, session=20)])
def test_I11_a_claim_and_a_join_for_another_cluster_are_refused(request_):
    async def scenario(office):
        await office.ask(allocate(1))
        (answer,) = await office.ask(msgspec.structs.replace(request_, cluster_id="d" * 32))
        assert answer.code == "OTHER_CLUSTER"

    in_an_office(scenario)


def test_I11_a_process_that_runs_while_another_cluster_takes_the_address_waits_for_its_own(caplog):
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await cluster.kill_coordinator()
        own = cluster.store
        another_cluster(cluster)
        await cluster.start_coordinator(group)
        await cluster.initialise()
        await cluster.wait_for(lambda: "ignoring the coordinator" in caplog.text)
        assert "it answered: this is cluster" in caplog.text
        assert len((await stored(cluster)).nodes) == 0
        await cluster.kill_coordinator()
        cluster.store = own
        await cluster.start_coordinator(group)
        await serving(cluster, node)

    simulate(scenario)


def test_I20_a_definite_rejection_ends_the_process_at_once():
    async def scenario(cluster, group):
        first, second = cluster.nodes
        first.start(group)
        await serving(cluster, first)
        second.calls_itself = first.name
        began_ns = cluster.loop.now_ns()
        assert await refusal(cluster, second) == "NAME_TAKEN"
        assert cluster.loop.now_ns() - began_ns < SECOND_NS, "nothing was asked twice"
        second.calls_itself = "another"
        second.start(group)
        await serving(cluster, first, second)

    simulate(scenario, nodes=2)


def test_I20_what_is_not_a_rejection_is_asked_again_for_as_long_as_it_takes():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        cluster.network.partition(node.name, COORDINATOR)
        node.start(group)
        await asyncio.sleep(120)
        assert not node.task.done()
        assert await identity(node) is None, "it has not even heard of a cluster"
        cluster.network.heal_all()
        await serving(cluster, node)

    simulate(scenario)


# ---------------------------------------------------------------- another name


@pytest.mark.parametrize("crash", [False, True], ids=["killed", "crashed"])
def test_a_node_under_another_name_is_the_same_node_and_its_old_names_are_free(crash):
    """Each of its processes has another name, and the first two are cut on their way in: the id goes with the token."""

    async def scenario(cluster, group):
        node, other = cluster.nodes
        for name, unheard, held in (("first", AllocateAnswer, Claiming), ("second", JoinAnswer, Joining)):
            node.calls_itself = name
            hold = cluster.network.hold(COORDINATOR, node.name, lambda one, kind=unheard: isinstance(one, kind))
            node.start(group)
            await asyncio.sleep(1)
            assert (await stored(cluster)).nodes[1].name == name, "the leader has heard, the node has not"
            await node.kill()
            node.crash(cluster.random) if crash else None
            cluster.network.release(hold)
            assert isinstance(await identity(node), held)
        for name in ("third", "fourth"):
            node.calls_itself = name
            node.start(group)
            await serving(cluster, node)
            await node.kill() if name == "third" else None
        other.calls_itself = "third"
        other.start(group)
        await serving(cluster, node, other)
        assert {one.id: one.name for one in (await cluster.status()).nodes} == {1: "fourth", 2: "third"}
        assert [one.guard().view.nodes[1].name for one in (node, other)] == ["fourth", "fourth"]
        assert (await identity(node)).node == 1

    simulate(scenario, nodes=2)


def test_a_node_that_takes_the_name_of_another_is_refused_and_keeps_its_own():
    async def scenario(cluster, group):
        first, second = cluster.nodes
        for node in cluster.nodes:
            node.start(group)
            await serving(cluster, node)
        await second.kill()
        before = await identity(second)
        second.calls_itself = first.name
        assert await refusal(cluster, second) == "NAME_TAKEN"
        after = await identity(second)
        assert (after.node, after.token) == (before.node, before.token)
        assert {one.id: one.name for one in (await cluster.status()).nodes} == {1: "n1", 2: "n2"}
        assert first.guard()
        second.calls_itself = "n2"
        second.start(group)
        await serving(cluster, first, second)

    simulate(scenario, nodes=2)


# ---------------------------------------------------------------- one live session per id


def test_a_join_waits_for_the_lease_before_it_and_no_longer():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.kill()
        began_ns = cluster.loop.now_ns()
        node.start(group)
        await serving(cluster, node)
        waited_ns = cluster.loop.now_ns() - began_ns
        assert 2 * SECOND_NS < waited_ns < 4 * SECOND_NS

    simulate(scenario)


def test_a_clean_stop_lets_the_next_process_in_at_once():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.agent.surrender()
        assert node.guard() is None
        await node.kill()
        began_ns = cluster.loop.now_ns()
        node.start(group)
        await serving(cluster, node)
        assert cluster.loop.now_ns() - began_ns < SECOND_NS

    simulate(scenario)
