"""Certificates that count no more: one that is revoked while its node serves, and those of a node that was removed."""

import asyncio
from contextlib import contextmanager

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.membership.proofs import with_proof
from leasehold.core.words.messages import NodeRemoved, RemoveNode
from leasehold.errors import LeaseholdError
from leasehold.limits.units import SECOND_NS
from leasehold.testing.site import KEYS
from leasehold.wire.ports import CALLER
from tests.scenarios.identity_words import allocate, serving, simulate, stored
from tests.scenarios.test_certified import of_node, refused
from tests.scenarios.test_strangers import here

ANN, OTHER_OF_ANN = Caller(CallerRole.CLIENT, "ann", "a1"), Caller(CallerRole.CLIENT, "ann", "a2")


def certificate(node, serial, begins_s=0):
    return Caller(CallerRole.NODE, node.name, serial, begins_s)


@contextmanager
def asking(caller):
    """Whoever asks now has that certificate: there are no contexts in virtual time, and a session keeps its own."""
    mark = CALLER.set(caller)
    try:
        yield
    finally:
        CALLER.reset(mark)


async def code(cluster, caller, text):
    """With which code a statement of that client is refused."""
    with asking(caller):
        try:
            await cluster.sql(text)
        except LeaseholdError as error:
            return str(error.code)
    return None


def test_a_node_whose_certificate_is_revoked_ends_and_no_other_does():
    async def scenario(cluster, group):
        one, other = cluster.nodes
        other.start(group)
        await serving(cluster, other)
        ended = asyncio.get_running_loop().create_future()
        with asking(certificate(one, "1")):
            one.start(group, on_end=ended.set_result)
            await serving(cluster, one)
        began_ns = cluster.loop.now_ns()
        await cluster.sql("ALTER CLUSTER REVOKE CERTIFICATE '1'")
        assert not one.guard(), "no lease of it outlasts the statement"
        assert cluster.loop.now_ns() - began_ns < 5 * SECOND_NS
        assert (await ended).code == "CERTIFICATE_REVOKED"
        for request in await of_node(one, (await stored(cluster)).cluster.cluster_id):
            assert await refused(cluster, certificate(one, "1"), request) == "CERTIFICATE_REVOKED"
        for _ in range(10):
            await asyncio.sleep(1)
            assert other.guard(), "it keeps its session and its lease"
        assert (await cluster.sql("SHOW REVOKED CERTIFICATES")).rows == (("1",),)
        await cluster.sql("ALTER CLUSTER UNREVOKE CERTIFICATE '1'")
        with asking(certificate(one, "1")):
            one.start(group)
            await serving(cluster, one)

    simulate(scenario, nodes=2)


def test_a_revoked_client_is_refused_but_for_the_statement_that_has_begun():
    async def scenario(cluster, group):
        cluster.nodes[0].start(group)
        await serving(cluster, cluster.nodes[0])
        assert await code(cluster, ANN, "CREATE DATABASE d") is None
        assert await code(cluster, ANN, "ALTER CLUSTER REVOKE CERTIFICATE 'A1'") is None
        for text in ("SHOW DATABASES", "DROP DATABASE d", "ALTER CLUSTER UNREVOKE CERTIFICATE 'a1'"):
            assert await code(cluster, ANN, text) == "CERTIFICATE_REVOKED"
        assert await code(cluster, OTHER_OF_ANN, "ALTER CLUSTER UNREVOKE CERTIFICATE 'a1'") is None
        assert await code(cluster, ANN, "DROP DATABASE d") is None

    simulate(scenario)


def test_the_name_of_a_removed_node_needs_a_certificate_that_is_issued_later():
    async def scenario(cluster, group):
        one, other = cluster.nodes
        other.start(group)
        await serving(cluster, other)
        ended = asyncio.get_running_loop().create_future()
        with asking(certificate(one, "1")):
            one.start(group, on_end=ended.set_result)
            await serving(cluster, one)
        await cluster.ask(RemoveNode(cluster_id=None, name=one.name, force=True), NodeRemoved)
        assert (await ended).code == "REMOVED", "and not that its certificate is old"
        catalog = await stored(cluster)
        since_s = catalog.certified_names[one.name].from_s
        assert since_s > 0
        anew = with_proof(here(allocate(7, name=one.name), catalog.cluster.cluster_id), KEYS)
        for old in (certificate(one, "1", since_s - 1), certificate(one, "1")):
            assert await refused(cluster, old, anew) == "CERTIFICATE_REVOKED"
            assert await code(cluster, old, "CREATE DATABASE d") == "CERTIFICATE_REVOKED"
        assert await refused(cluster, certificate(one, "2", since_s), anew) is None

    simulate(scenario, nodes=2)
