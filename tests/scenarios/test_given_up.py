"""Ids whose nodes never join: a leader gives them up after UNJOINED_KEPT_NS on its clock, and none is used again."""

import asyncio

import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.proofs import with_proof
from leasehold.core.words import keys
from leasehold.core.words.messages import AllocateAnswer, JoinAnswer
from leasehold.core.words.records import Allocated, Claiming, NodeRecord
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.membership import NODES_MAX, UNJOINED_KEPT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import ADDRESS
from tests.scenarios.identity_words import (
    allocate,
    hex_128,
    identity,
    in_an_office,
    join,
    refusal,
    serving,
    simulate,
    stored,
)
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


def joined(number):
    """A node of which a process has joined once."""
    return NodeRecord(
        id=number,
        name=f"n{number}",
        address="h:1",
        token_hash=hash_secret(hex_128(number)),
        incarnation=1,
        nonce=None,
        session_hash=b"s",
        removed=False,
    )


def test_ids_that_nobody_uses_do_not_run_out():
    """As many as there may be nodes, and again: after each time an honest node would get in."""
    rounds, most, honest = 3, 16, 20 * NODES_MAX
    others = [joined(10 * NODES_MAX + number) for number in range(NODES_MAX - most)]

    async def scenario(office):
        await office.writer.submit(lambda _: tuple(put(keys.node(one.id), one) for one in others))
        for first in range(1, rounds * most, most):
            numbers = range(first, first + most)
            answers = await office.ask(*(allocate(one, name=f"x{one}") for one in numbers))
            assert answers == [AllocateAnswer(node=one) for one in numbers]
            (refused,) = await office.ask(allocate(honest, name="honest"))
            assert refused.code == "TOO_MANY_NODES"
            await asyncio.sleep(LATE_S)
            await office.registration.give_up()
        node = rounds * most + 1
        assert await office.ask(allocate(honest, name="honest")) == [AllocateAnswer(node=node)]
        (answer,) = await office.ask(join(node, honest, nonce=1, session=2, name="honest"))
        assert isinstance(answer, JoinAnswer)

    in_an_office(scenario)
