"""Delegated logins in a simulated cluster: what they open at the leader and at nodes, and what ends them there."""

import asyncio

import pytest

from leasehold.core.access.request_rights import check_append, check_read
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import (
    AskStatus,
    ClusterStatus,
    DelegateLogin,
    LoggedIn,
    LogInByToken,
    Message,
    OpenTransaction,
    PlanScan,
    Receipt,
    ScanPlan,
    TransactionFacts,
)
from leasehold.errors import Forbidden
from leasehold.ids import ObjectId, SchemaVersion, TransactionId
from tests.sim.test_tokens import MADE, PLAN, SHOWN, is_over, known
from tests.sim.test_users import Users, simulate

TRANSACTION = TransactionId("7" * 32)


async def delegated(users: Users, table: ObjectId, transaction: TransactionId | None = None, of: str = "u") -> LoggedIn:
    """A delegated login of u, which all nodes know; `program` asks with it."""
    request = DelegateLogin(cluster_id=None, table=table, transaction=transaction)
    answer = await users.ask(request, LoggedIn, of)
    users.tokens["program"] = answer.token
    await known(users.cluster, answer.revision)
    return answer


async def table_of(users: Users) -> ObjectId:
    return (await users.ask(PLAN, ScanPlan, "root")).facts.table


def test_a_delegated_login_opens_one_table_to_read_or_to_write_and_nothing_else() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("CREATE TABLE db.other (a INT)", "root")
        await users.sql("GRANT SELECT, INSERT ON DATABASE db TO u", "root")
        other = PlanScan(cluster_id=None, name="db.other", columns=None)
        table, second = await table_of(users), (await users.ask(other, ScanPlan, "root")).facts.table
        opening = OpenTransaction(
            cluster_id=(await users.ask(AskStatus(), ClusterStatus)).cluster_id,
            transaction=TRANSACTION,
            table=table,
            schema_version=SchemaVersion(1),
        )
        await users.ask(opening, TransactionFacts, "u")

        reads = (await delegated(users, table)).token
        await users.ask(PLAN, ScanPlan, "program")
        for refused in (other, opening, DelegateLogin(cluster_id=None, table=table)):
            await users.refused(users.ask(refused, Message, "program"), Forbidden)
        for text in ("SHOW TABLES", "DROP TABLE db.t", "ALTER USER u PASSWORD 'p'", MADE, "EXPLAIN DROP TABLE db.t"):
            await users.refused(users.sql(text, "program"), Forbidden)

        writes = (await delegated(users, table, TRANSACTION)).token
        await users.ask(opening, TransactionFacts, "program")
        await users.refused(users.ask(PLAN, Message, "program"), Forbidden)
        for node in users.cluster.nodes:
            view = node.published.view
            check_read(node_login(reads), table, (), view)
            check_append(node_login(writes), table, TRANSACTION, view)
            with pytest.raises(Forbidden):
                check_read(node_login(reads), second, (), view)
            with pytest.raises(Forbidden):
                check_append(node_login(reads), table, TRANSACTION, view)
            with pytest.raises(Forbidden):
                check_read(node_login(writes), table, (), view)

    simulate(scenario)


@pytest.mark.parametrize(
    "ending", ["DROP TOKEN k", "ALTER USER u PASSWORD 'another'", "DROP USER u"], ids=lambda text: text.split()[1]
)
def test_a_delegated_login_ends_with_what_its_own_login_ends_with(ending: str) -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        await users.sql(MADE, "u")
        opened = await users.ask(LogInByToken(cluster_id=None, user="u", token=SHOWN), LoggedIn)
        users.tokens["by token"] = opened.token
        token = (await delegated(users, await table_of(users), of="by token")).token
        receipt = await users.sql(ending, "root")
        assert isinstance(receipt, Receipt)
        assert receipt.revision is not None
        await is_over(users, token, receipt.revision)

    simulate(scenario)


def test_a_revoked_right_counts_at_once_and_the_login_is_no_longer_good_for_anything() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        table = await table_of(users)
        token = (await delegated(users, table)).token
        await users.sql("REVOKE SELECT ON TABLE db.t FROM u", "root")
        await users.refused(users.ask(PLAN, Message, "program"), Forbidden)
        for node in users.cluster.nodes:
            with pytest.raises(Forbidden):
                check_read(node_login(token), table, (), node.published.view)

    simulate(scenario)
