"""Requests with all the secrets of a node, from a process whose certificate names another, or that shows none."""

import pytest

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.membership.proofs import with_proof
from leasehold.core.words.messages import AskIncarnation, AskSnapshot, Initialise, OpenSession, ReportProcessEnd, Rows
from leasehold.errors import LeaseholdError
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.testing.cluster import ADDRESS
from leasehold.testing.site import KEYS
from leasehold.wire.ports import CALLER
from tests.scenarios.identity_words import allocate, hex_128, identity, join, serving, simulate, stored
from tests.scenarios.test_strangers import here

OTHER_NODE = Caller(CallerRole.NODE, "another")
COORDINATOR = Caller(CallerRole.COORDINATOR, "c1")
CLIENT = Caller(CallerRole.CLIENT, "ann")
STRANGER = Caller(CallerRole.STRANGER)


async def refused(cluster, caller, request):
    """With which code a request is refused that comes from `caller`, by a call, a stream or a session."""
    connection = cluster.network.host("stranger").connect(ADDRESS)
    mark = CALLER.set(caller)
    try:
        if isinstance(request, OpenSession):
            session = await connection.session()
            await session.send(request)
            await session.receive()
        elif isinstance(request, AskSnapshot):
            async for _ in connection.stream(request, timeout_ns=CALL_TIMEOUT_NS):
                break
        else:
            await connection.call(request, timeout_ns=CALL_TIMEOUT_NS)
    except LeaseholdError as error:
        return str(error.code)
    finally:
        CALLER.reset(mark)
        await connection.close()
    return None


async def of_node(node, cluster_id):
    """What the node itself may ask, with its token, session and proofs."""
    record, speaks = await identity(node), {"cluster_id": cluster_id, "node": 1, "incarnation": 1}
    return (
        with_proof(here(allocate(7, name=node.name), cluster_id), KEYS),
        with_proof(
            here(
                join(nonce=10, session=20, token=int(record.token, 16), previous=1, name=node.name),
                cluster_id,
            ),
            KEYS,
        ),
        with_proof(AskIncarnation(cluster_id=cluster_id, token=record.token, node=1), KEYS),
        OpenSession(session=hex_128(20), watch_from=1, **speaks),
        AskSnapshot(session=hex_128(20), **speaks),
        ReportProcessEnd(proof=hex_128(1).encode(), **speaks),
    )


def test_the_secrets_of_a_node_are_worth_nothing_with_another_certificate():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        before = await stored(cluster)
        for request in await of_node(node, before.cluster.cluster_id):
            for caller in (OTHER_NODE, COORDINATOR):
                assert await refused(cluster, caller, request) == "NOT_THIS_NODE", (caller, request)
            for caller in (CLIENT, STRANGER):
                assert await refused(cluster, caller, request) == "WRONG_DOOR", (caller, request)
        after = await stored(cluster)
        assert (after.revision, after.nodes) == (before.revision, before.nodes)
        assert node.guard()

    simulate(scenario)


def test_a_stranger_gives_a_meta_storage_no_cluster_and_changes_nothing_in_an_open_one():
    async def scenario(cluster, _group):
        before = await stored(cluster)
        assert await refused(cluster, STRANGER, Initialise(cluster_id=hex_128(9))) == "OPEN_CLUSTER"
        for text in ("SHOW NODES", "CREATE DATABASE d"):
            mark = CALLER.set(STRANGER)
            try:
                with pytest.raises(LeaseholdError) as caught:
                    await cluster.sql(text)
            finally:
                CALLER.reset(mark)
            assert caught.value.code == "OPEN_CLUSTER"
        assert (await stored(cluster)).revision == before.revision
        assert isinstance(await cluster.sql("SHOW NODES"), Rows)

    simulate(scenario)
