"""Users of a simulated cluster: who is heard by a leader, what logins outlive, and what ends them."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import msgspec
import pytest

from leasehold.core.data.statement_calls import run_statement
from leasehold.core.ddl.origin import hash_text
from leasehold.core.membership.identity import hash_login
from leasehold.core.words.messages import (
    AskOutcome,
    AskReceipts,
    AskStatus,
    AskTable,
    ClientRequest,
    ClusterStatus,
    Execute,
    LoggedIn,
    LoggedOut,
    Login,
    LogOut,
    Message,
    OpenTransaction,
    PlanScan,
    Receipt,
    Receipts,
    Rows,
    TransactionFacts,
    WaitingFor,
)
from leasehold.core.words.records import Outcome
from leasehold.errors import Forbidden, LeaseholdError, Refused, Unauthenticated, WrongPassword
from leasehold.ids import LoginToken, ObjectId, SchemaVersion, StatementId, TransactionId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import AT_LENGTH, SimulatedCluster
from leasehold.testing.loop import run_virtual
from tests.sim.test_cluster_faults import Over
from tests.stored import stored_catalog

M = TypeVar("M", bound=Message)
Scenario = Callable[["Users", asyncio.TaskGroup], Awaitable[None]]


class Users:
    """A simulated cluster, and requests to it with and without a login."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.tokens: dict[str, LoginToken] = {}

    async def ask(self, request: ClientRequest | Login | LogOut, kind: type[M], user: str | None = None) -> M:
        if user is not None:
            assert isinstance(request, ClientRequest)
            request = msgspec.structs.replace(request, login=self.tokens[user])
        return await self.cluster.ask(request, kind)

    async def log_in(self, user: str, password: str | None = None) -> LoggedIn:
        answer = await self.ask(Login(cluster_id=None, user=user, password=password or user), LoggedIn)
        self.tokens[user] = answer.token
        return answer

    def execute(self, text: str, user: str | None, statement: StatementId | None = None) -> Execute:
        chosen = statement or StatementId(self.cluster.entropy.hex_128())
        login = None if user is None else self.tokens[user]
        return Execute(cluster_id=None, statement=chosen, text=text, login=login)

    async def sql(self, text: str, user: str | None = None, statement: StatementId | None = None) -> Receipt | Rows:
        client = self.cluster.client(token=None if user is None else self.tokens[user])
        chosen = statement or StatementId(self.cluster.entropy.hex_128())
        return await run_statement(client, text, chosen, AT_LENGTH)

    async def refused(self, awaitable: Awaitable[object], kind: type[LeaseholdError]) -> LeaseholdError:
        with pytest.raises(kind) as caught:
            await awaitable
        return caught.value


def simulate(scenario: Scenario, *, coordinators: int = 1) -> None:
    async def main(random: Random) -> None:
        users = Users(SimulatedCluster(random, nodes=3, coordinators=coordinators))
        try:
            async with asyncio.TaskGroup() as group:
                await users.cluster.start(group)
                await users.sql("CREATE DATABASE db")
                await users.sql("CREATE TABLE db.t (a INT)")
                await users.sql("CREATE USER root PASSWORD 'root'")
                await users.log_in("root")
                await users.sql("CREATE USER u PASSWORD 'u'", "root")
                await users.log_in("u")
                await scenario(users, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


def test_each_request_is_decided_by_who_asks() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        nobody, table = AskTable(cluster_id=None, name="db.t"), PlanScan(cluster_id=None, name="db.t", columns=None)
        for request in (nobody, table, AskReceipts(after=0, limit=1)):
            await users.refused(users.ask(request, Message), Unauthenticated)
        await users.refused(users.sql("SHOW TABLES"), Unauthenticated)
        await users.refused(users.sql("DROP TABLE db.t"), Unauthenticated)
        assert isinstance(await users.sql("SHOW TABLES", "u"), Rows)
        await users.refused(users.ask(AskReceipts(after=0, limit=1), Message, "u"), Forbidden)
        await users.ask(AskReceipts(after=0, limit=1), Receipts, "root")
        await users.ask(AskStatus(), ClusterStatus)
        for text in ("DROP TABLE db.t", "EXPLAIN DROP TABLE db.t", "SHOW HISTORY", "CANCEL PROCEDURE 1"):
            await users.refused(users.sql(text, "u"), Forbidden)
        await users.refused(users.ask(table, Message, "u"), Forbidden)
        transaction = TransactionId("7" * 32)
        cluster_id = (await users.ask(AskStatus(), ClusterStatus)).cluster_id
        opening = OpenTransaction(
            cluster_id=cluster_id, transaction=transaction, table=ObjectId(2), schema_version=SchemaVersion(1)
        )
        await users.refused(users.ask(opening, Message, "u"), Forbidden)
        await users.sql("GRANT INSERT ON DATABASE db TO u", "root")
        await users.ask(opening, TransactionFacts, "u")

    simulate(scenario)


def test_passwords_are_nowhere_in_what_is_kept() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        receipt = await users.sql("CREATE USER v PASSWORD 'a secret'", "root")
        assert isinstance(receipt, Receipt)
        assert receipt.text == "CREATE USER v PASSWORD '***'"
        assert "a secret" not in repr(stored_catalog(users.cluster.store))
        assert "a secret" not in repr(await users.sql("SHOW HISTORY", "root"))

    simulate(scenario)


def test_a_statement_says_who_asked() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT CREATE ON CLUSTER TO u", "root")
        await users.sql("CREATE DATABASE his", "u")
        history = await users.sql("SHOW HISTORY FOR DATABASE his", "u")
        assert isinstance(history, Rows)
        assert [row[history.columns.index("user")] for row in history.rows] == ["u"]

    simulate(scenario)


def test_who_changes_his_own_password_hears_how_it_ends_though_he_is_logged_out() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        users.cluster.network.partition("n3", "c1")
        request = users.execute("ALTER USER u PASSWORD 'new'", "u")
        first = await users.ask(request, WaitingFor)
        assert first.nodes == ("n3",)
        await users.refused(users.sql("SHOW TABLES", "u"), Unauthenticated)
        receipt = await users.sql(request.text, "u", request.statement)
        assert isinstance(receipt, Receipt)
        assert receipt.outcome is Outcome.COMMITTED
        # Its id opens nothing else, and tells nobody else.
        error = await users.refused(users.sql("SHOW TABLES", "u", request.statement), Refused)
        assert error.code == "STATEMENT_ID_USED"
        outcome = AskOutcome(cluster_id=None, statement=request.statement)
        assert await users.ask(outcome, Receipt, "u") == receipt
        assert await users.ask(outcome, Receipt, "root") == receipt
        await users.refused(users.ask(outcome, Message), Unauthenticated)
        await users.refused(users.log_in("u"), WrongPassword)
        await users.log_in("u", "new")
        await users.sql("SHOW TABLES", "u")

    simulate(scenario)


def test_a_statement_id_is_of_one_user_and_one_text() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("CREATE USER v PASSWORD 'v'", "root")
        await users.log_in("v")
        await users.sql("GRANT CREATE ON CLUSTER TO u", "root")
        request = users.execute("CREATE DATABASE his", "u")
        receipt = await users.ask(request, Receipt)
        for text, user in (("CREATE DATABASE hers", "u"), (request.text, "v"), (request.text, "root")):
            error = await users.refused(users.sql(text, user, request.statement), Refused)
            assert error.code == "STATEMENT_ID_USED"
        await users.refused(users.sql(request.text, None, request.statement), Unauthenticated)
        outcome = AskOutcome(cluster_id=None, statement=request.statement)
        await users.refused(users.ask(outcome, Message, "v"), Forbidden)
        await users.refused(users.ask(outcome, Message), Unauthenticated)
        await users.log_in("u")
        assert await users.sql(request.text, "u", request.statement) == receipt, "the same user, by another login"

    simulate(scenario)


def test_the_id_of_an_insert_is_of_one_user_and_one_text_and_of_no_other_statement() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("CREATE USER v PASSWORD 'v'", "root")
        await users.log_in("v")
        for name in ("u", "v"):
            await users.sql(f"GRANT INSERT ON TABLE db.t TO {name}", "root")
        cluster_id = (await users.ask(AskStatus(), ClusterStatus)).cluster_id

        def insert(chosen: StatementId, text: str) -> OpenTransaction:
            return OpenTransaction(
                cluster_id=cluster_id,
                transaction=TransactionId(chosen),
                table=ObjectId(2),
                schema_version=SchemaVersion(1),
                text_sha256=hash_text(text),
            )

        chosen, text = StatementId(users.cluster.entropy.hex_128()), "INSERT INTO db.t VALUES (1)"
        opened = await users.ask(insert(chosen, text), TransactionFacts, "u")
        await users.log_in("u")
        again = await users.ask(insert(chosen, text), TransactionFacts, "u")
        assert again.state is opened.state, "the same user, by another login"
        for request, user in ((insert(chosen, "INSERT INTO db.t VALUES (2)"), "u"), (insert(chosen, text), "v")):
            error = await users.refused(users.ask(request, Message, user), Refused)
            assert error.code == "STATEMENT_ID_USED"
        await users.refused(users.ask(insert(chosen, text), Message), Unauthenticated)
        # The other kind, both ways.
        await users.sql("GRANT CREATE ON CLUSTER TO u", "root")
        error = await users.refused(users.sql("CREATE DATABASE his", "u", chosen), Refused)
        assert error.code == "STATEMENT_ID_USED"
        await users.ask(insert(chosen, text), TransactionFacts, "u")  # what was refused takes nothing from it
        definition = users.execute("CREATE DATABASE hers", "u")
        await users.ask(definition, Receipt)
        error = await users.refused(users.ask(insert(definition.statement, text), Message, "u"), Refused)
        assert error.code == "STATEMENT_ID_USED"

    simulate(scenario)


def test_an_insert_under_the_id_of_a_statement_that_runs_is_refused() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        users.cluster.network.partition("n3", "c1")
        request = users.execute("DROP TABLE db.t", "root")
        await users.ask(request, WaitingFor)
        cluster_id = (await users.ask(AskStatus(), ClusterStatus)).cluster_id
        opening = OpenTransaction(
            cluster_id=cluster_id,
            transaction=TransactionId(request.statement),
            table=ObjectId(2),
            schema_version=SchemaVersion(1),
            text_sha256=hash_text("INSERT INTO db.t VALUES (1)"),
        )
        error = await users.refused(users.ask(opening, Message, "root"), Refused)
        assert error.code == "STATEMENT_ID_USED"

    simulate(scenario)


def test_a_password_is_told_from_another_statement_by_its_text_without_it() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        request = users.execute("CREATE USER v PASSWORD 'v'", "root")
        receipt = await users.ask(request, Receipt)
        assert await users.sql(request.text, "root", request.statement) == receipt
        other = users.sql("CREATE USER w PASSWORD 'v'", "root", request.statement)
        assert (await users.refused(other, Refused)).code == "STATEMENT_ID_USED"

    simulate(scenario)


def test_the_first_user_is_made_by_nobody_who_may_ask_again() -> None:
    async def main(random: Random) -> None:
        users = Users(SimulatedCluster(random, nodes=1, coordinators=1))
        try:
            async with asyncio.TaskGroup() as group:
                await users.cluster.start(group)
                request = users.execute("CREATE USER root PASSWORD 'root'", None)
                receipt = await users.ask(request, Receipt)
                assert await users.ask(request, Receipt) == receipt
                told = await users.ask(AskOutcome(cluster_id=None, statement=request.statement), Receipt)
                assert (told.outcome, told.text) == (Outcome.COMMITTED, "")
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


def test_a_revoked_right_waits_for_the_node_that_can_not_hear_of_it() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("GRANT SELECT ON TABLE db.t TO u", "root")
        users.cluster.network.partition("n3", "c1")
        node = users.cluster.nodes[2]
        began_ns = users.cluster.loop.now_ns()
        receipt = await users.sql("REVOKE SELECT ON TABLE db.t FROM u", "root")
        assert isinstance(receipt, Receipt)
        assert users.cluster.loop.now_ns() - began_ns <= 4 * SECOND_NS
        assert not node.guard()
        await users.refused(users.ask(PlanScan(cluster_id=None, name="db.t", columns=None), Message, "u"), Forbidden)

    simulate(scenario)


def test_a_dropped_user_is_nobody_at_once() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("DROP USER u", "root")
        await users.refused(users.sql("SHOW TABLES", "u"), Unauthenticated)
        await users.refused(users.log_in("u"), WrongPassword)
        await users.sql("CREATE USER u PASSWORD 'u'", "root")
        await users.refused(users.sql("SHOW TABLES", "u"), Unauthenticated)

    simulate(scenario)


def test_who_logs_out_is_nobody_at_the_leader_and_at_the_nodes() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        token = users.tokens["u"]
        answer = await users.ask(LogOut(cluster_id=None, token=token), LoggedOut)
        await users.refused(users.sql("SHOW TABLES", "u"), Unauthenticated)
        views = [node.published for node in users.cluster.nodes]
        await users.cluster.wait_for(lambda: all(one.view.revision >= answer.revision for one in views))
        assert all(set(one.view.logins) == {hash_login(users.tokens["root"])} for one in views)
        await users.ask(LogOut(cluster_id=None, token=token), LoggedOut)
        await users.sql("SHOW TABLES", "root")

    simulate(scenario)


def test_logins_outlive_a_leader_and_counts_do_not() -> None:
    async def scenario(users: Users, group: asyncio.TaskGroup) -> None:
        await users.refused(users.log_in("u", "wrong"), WrongPassword)
        assert await failed(users) == 1
        leading = users.cluster.leading
        assert leading is not None
        await leading.kill()
        await users.sql("CREATE DATABASE later", "root")
        assert await failed(users) == 0
        await users.sql("SHOW TABLES", "u")
        await leading.start(group)

    simulate(scenario, coordinators=3)


async def failed(users: Users) -> object:
    shown = await users.sql("SHOW USERS", "root")
    assert isinstance(shown, Rows)
    return next(row[shown.columns.index("failed_logins")] for row in shown.rows if row[0] == "u")


def test_without_users_nobody_logs_in_and_everybody_is_heard() -> None:
    async def scenario(users: Users, _group: asyncio.TaskGroup) -> None:
        await users.sql("DROP USER u", "root")
        await users.sql("DROP USER root", "root")
        error = await users.refused(users.log_in("root"), Refused)
        assert error.code == "NO_USERS"
        await users.sql("DROP DATABASE db CASCADE")

    simulate(scenario)
