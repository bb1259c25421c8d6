"""Ids whose nodes never join: a leader gives them up after UNJOINED_KEPT_NS on its clock, and none is used again."""

import asyncio

import pytest

from leasehold.core.identity import hash_secret
from leasehold.core.messages import AllocateAnswer, JoinAnswer
from leasehold.core.proofs import with_proof
from leasehold.core.records import Allocated, Claiming
from leasehold.errors import Refused
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.membership import UNJOINED_KEPT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import ADDRESS
from tests.scenarios.identity_words import allocate, hex_128, identity, join, refusal, serving, simulate, stored
from tests.scenarios.test_strangers import here

LATE_S = (UNJOINED_KEPT_NS + 3 * HOUSEKEEPING_INTERVAL_NS) / SECOND_NS
EARLY_S = 0.9 * UNJOINED_KEPT_NS / SECOND_NS


async def ask(cluster, request):
    cluster_id = (await stored(cluster)).cluster.cluster_id
    connection = cluster.network.host("slow").connect(ADDRESS)
    try:
        return await connection.call(with_proof(here(request, cluster_id), cluster.keys), timeout_ns=CALL_TIMEOUT_NS)
    finally:
        await connection.close()


async def write(node, record):
    vault = node.disk.open()
    await vault.write_identity(record)
    await vault.close()


@pytest.mark.parametrize("knows_its_id", [True, False], ids=["it had its id", "the answer was lost"])
def test_a_node_that_comes_too_late_is_refused_and_keeps_its_token(knows_its_id):
    """INV-ID-1, INV-ID-3: it ends with what to type, and gets no other id by itself, however often it starts."""

    async def scenario(cluster, _group):
        node, token = cluster.nodes[0], hex_128(7)
        assert await ask(cluster, allocate(7, name=node.name)) == AllocateAnswer(node=1)
        record = Claiming(token=token)
        if knows_its_id:
            cluster_id = (await stored(cluster)).cluster.cluster_id
            record = Allocated(token=token, node=1, cluster_id=cluster_id, incarnation=0)
        await write(node, record)
        await asyncio.sleep(LATE_S)
        for _ in range(2):
            assert await refusal(cluster, node) == "REMOVED"
            assert (await identity(node)).token == token
        known = (await stored(cluster)).nodes
        assert list(known) == [1]
        assert known[1].removed
        assert known[1].token_hash == hash_secret(token)
        assert await ask(cluster, allocate(8, name=node.name)) == AllocateAnswer(node=2), "its name is free"

    simulate(scenario)


def test_a_node_that_comes_in_time_joins_and_is_never_given_up():
    async def scenario(cluster, group):
        assert await ask(cluster, allocate(7, name="slow")) == AllocateAnswer(node=1)
        cluster.nodes[0].start(group)
        await serving(cluster, cluster.nodes[0])
        await asyncio.sleep(EARLY_S)
        assert isinstance(await ask(cluster, join(nonce=1, session=2, token=7, name="slow")), JoinAnswer)
        await cluster.nodes[0].kill()
        await asyncio.sleep(2 * LATE_S)
        assert not any(one.removed for one in (await stored(cluster)).nodes.values()), "both have joined once"
        cluster.nodes[0].start(group)
        await serving(cluster, cluster.nodes[0])

    simulate(scenario)


def test_a_node_that_asks_on_keeps_its_id_and_so_does_one_under_a_new_leader():
    async def scenario(cluster, group):
        for number in (7, 8):
            await ask(cluster, allocate(number, name=f"x{number}"))
        await asyncio.sleep(EARLY_S)
        await ask(cluster, allocate(7, name="x7"))
        await asyncio.sleep(LATE_S - EARLY_S)
        known = (await stored(cluster)).nodes
        assert [known[1].removed, known[2].removed] == [False, True]
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        await asyncio.sleep(EARLY_S)
        assert not (await stored(cluster)).nodes[1].removed, "a leader counts from when it first knew of it"
        await asyncio.sleep(LATE_S - EARLY_S)
        assert (await stored(cluster)).nodes[1].removed

    simulate(scenario)


def test_ids_that_nobody_uses_do_not_run_out(monkeypatch):
    """As many as there may be nodes, and again: after each time an honest node would get in."""
    most = 16
    monkeypatch.setattr("leasehold.core.admission.NODES_MAX", most)

    async def scenario(cluster, group):
        for first in (1, most + 1, 2 * most + 1):
            for number in range(first, first + most):
                await ask(cluster, allocate(number, name=f"x{number}"))
            with pytest.raises(Refused) as caught:
                await ask(cluster, allocate(10 * most, name="honest"))
            assert caught.value.code == "TOO_MANY_NODES"
            await asyncio.sleep(LATE_S)
        cluster.nodes[0].start(group)
        await serving(cluster, cluster.nodes[0])
        assert (await identity(cluster.nodes[0])).node == 3 * most + 1

    simulate(scenario)
