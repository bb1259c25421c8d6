"""Tokens and certificates in a simulated cluster: what they open, and that it ends at the nodes too."""

import asyncio

import pytest

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.access.request_rights import check_read
from leasehold.core.membership.identity import hash_login, hash_secret, node_login
from leasehold.core.words.messages import LoggedIn, LogInByCertificate, LogInByToken, PlanScan, Receipt, ScanPlan
from leasehold.errors import Unauthenticated
from leasehold.ids import LoginToken, Revision, UserToken
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.cluster import SimulatedCluster
from leasehold.wire.ports import CALLER
from tests.sim.test_users import Users, simulate

SHOWN = UserToken("lht_" + "a" * 64)
MADE = f"CREATE TOKEN k FOR USER u HASH '{hash_secret(SHOWN).hex()}'"
PLAN = PlanScan(cluster_id=None, name="db.t", columns=None)


async def opened(users: Users, request: LogInByToken | LogInByCertificate, caller: Caller | None = None) -> LoginToken:
    """A login of u, who may scan db.t with it at every node."""
    mark = CALLER.set(caller)
    try:
        answer = await users.ask(request, LoggedIn)
    finally:
        CALLER.reset(mark)
    users.tokens["program"] = answer.token
    plan = await users.ask(PLAN, ScanPlan, "program")
    await known(users.cluster, answer.revision)
    for node in users.cluster.nodes:
        check_read(node_login(answer.token), plan.facts.table, (), node.published.view)
    return answer.token


async def known(cluster: SimulatedCluster, revision: Revision) -> None:
    await cluster.wait_for(lambda: all(one.published.view.revision >= revision for one in cluster.nodes))


async def is_over(users: Users, token: LoginToken, revision: Revision) -> None:
    """Neither the leader nor any node that knows `revision` knows the login."""
    await users.refused(users.ask(PLAN, ScanPlan, "program"), Unauthenticated)
    plan = await users.ask(PLAN, ScanPlan, "root")
    await known(users.cluster, revision)
    for node in users.cluster.nodes:
        with pytest.raises(Unauthenticated):
            check_read(token, plan.facts.table, (), node.published.view)


BY_TOKEN = LogInByToken(cluster_id=None, user="u", token=SHOWN)
BY_CERTIFICATE, U = LogInByCertificate(cluster_id=None), Caller(CallerRole.CLIENT, "u", ends_s=2**40)


def test_what_a_token_has_opened_ends_with_the_token() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        await users.sql(MADE, "u")
        token = await opened(users, BY_TOKEN)
        await users.sql("SHOW TABLES", "u")
        receipt = await users.sql("DROP TOKEN k", "u")
        assert isinstance(receipt, Receipt)
        assert receipt.revision is not None
        await is_over(users, token, receipt.revision)
        refused = await users.refused(users.ask(BY_TOKEN, LoggedIn), Unauthenticated)
        assert refused.code == "WRONG_USER_TOKEN"
        await users.sql("SHOW TABLES", "u")

    simulate(scenario)


def test_a_token_expires_by_the_clock_of_whoever_leads() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        await users.sql(f"{MADE} EXPIRES '60s'", "u")
        token = await opened(users, BY_TOKEN)
        cluster = users.cluster
        assert cluster.leading is not None
        await cluster.leading.kill()
        await users.sql("SHOW TABLES", "program")
        began_ns = cluster.loop.now_ns()
        while token_is_known(cluster, token):
            assert cluster.loop.now_ns() - began_ns < 60 * SECOND_NS + 2 * HOUSEKEEPING_INTERVAL_NS
            await asyncio.sleep(1)
        await is_over(users, token, Revision(0))
        await users.refused(users.ask(BY_TOKEN, LoggedIn), Unauthenticated)

    simulate(scenario, coordinators=2)


def token_is_known(cluster: SimulatedCluster, token: LoginToken) -> bool:
    return any(hash_login(token) in one.published.view.logins for one in cluster.nodes)


def test_what_a_certificate_has_opened_ends_when_certificates_are_off() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        await users.sql("ALTER USER u SET CERTIFICATE ON", "root")
        token = await opened(users, BY_CERTIFICATE, U)
        receipt = await users.sql("ALTER USER u SET CERTIFICATE OFF", "root")
        assert isinstance(receipt, Receipt)
        assert receipt.revision is not None
        await is_over(users, token, receipt.revision)
        await users.sql("SHOW TABLES", "u")

    simulate(scenario)
