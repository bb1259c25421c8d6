"""Processes without the cluster key, and with that of another cluster, ask a leader to let them take part."""

import pytest

from leasehold.core.membership.proofs import derive_keys, with_proof
from leasehold.core.words.messages import AllocateAnswer, AskIncarnation, JoinAnswer
from leasehold.errors import Refused
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.swim import CLUSTER_KEY_BYTES
from leasehold.testing.cluster import ADDRESS
from leasehold.testing.site import KEYS
from tests.scenarios.identity_words import allocate, hex_128, identity, join, refusal, serving, simulate, stored

FOREIGN = derive_keys(b"f" * CLUSTER_KEY_BYTES)


async def ask(cluster, request):
    connection = cluster.network.host("stranger").connect(ADDRESS)
    try:
        return await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
    finally:
        await connection.close()


def here(request, cluster_id):
    request_ = {"cluster_id": cluster_id}
    return type(request)(**{name: getattr(request, name) for name in request.__struct_fields__} | request_)


def test_a_process_without_the_cluster_key_changes_nothing():
    """Not even with the token, nonce and session of a node that it has seen."""

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        before = await stored(cluster)
        record = await identity(node)
        requests = (
            here(allocate(7, name="stranger"), before.cluster.cluster_id),
            here(join(nonce=10, session=20, token=int(record.token, 16), previous=1), before.cluster.cluster_id),
            here(join(nonce=10, session=20), "d" * 32),
            AskIncarnation(cluster_id=before.cluster.cluster_id, token=hex_128(1), node=1),
        )
        for request in requests:
            for sent in (request, with_proof(request, FOREIGN)):
                with pytest.raises(Refused) as caught:
                    await ask(cluster, sent)
                assert caught.value.code == "NOT_A_MEMBER", "and nothing else of it was looked at"
        after = await stored(cluster)
        assert (after.revision, after.nodes) == (before.revision, before.nodes)
        assert node.guard()

    simulate(scenario)


def test_a_node_without_the_cluster_key_ends_and_comes_in_with_it():
    async def scenario(cluster, group):
        node, own = cluster.nodes[0], cluster.keys
        for wrong, code in ((None, "NOT_A_MEMBER"), (FOREIGN, "COORDINATOR_UNPROVEN")):
            cluster.keys = wrong
            assert await refusal(cluster, node) == code
            assert not (await stored(cluster)).nodes
        claim = await identity(node)
        cluster.keys = own
        node.start(group)
        await serving(cluster, node)
        assert (await identity(node)).token == claim.token, "nothing of its claim was lost"

    simulate(scenario)


def test_what_a_member_said_may_be_said_again_and_changes_nothing():
    async def scenario(cluster, _group):
        cluster_id = (await stored(cluster)).cluster.cluster_id
        claim = with_proof(here(allocate(7), cluster_id), KEYS)
        assert await ask(cluster, claim) == AllocateAnswer(node=1)
        entry = with_proof(here(join(nonce=10, session=20, token=7), cluster_id), KEYS)
        joined = await ask(cluster, entry)
        assert isinstance(joined, JoinAnswer)
        before = await stored(cluster)
        assert await ask(cluster, claim) == AllocateAnswer(node=1)
        assert await ask(cluster, entry) == joined
        assert (await stored(cluster)).revision == before.revision

    simulate(scenario)


def test_a_coordinator_without_the_key_lets_anybody_in_and_says_so(caplog):
    async def scenario(cluster, group):
        assert not (await cluster.status()).anybody_may_join
        await cluster.kill_coordinator()
        cluster.keys = None
        caplog.clear()
        await cluster.start_coordinator(group)
        status = await cluster.status()
        assert status.anybody_may_join
        assert "ANYONE WHO CAN REACH THIS PORT MAY JOIN" in caplog.text
        assert isinstance(await ask(cluster, here(allocate(7), status.cluster_id)), AllocateAnswer)

    simulate(scenario)
