"""Coordinators that follow: what they answer, how current that is, and what they leave to the leader."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from leasehold.coordinator import follower as following
from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.log.entry import DoesNotFollow
from leasehold.core.words.messages import (
    AskReceipts,
    AskStatus,
    AskTable,
    AskView,
    ClusterFacts,
    Execute,
    Message,
    PlanQuery,
    PlanScan,
    QueryPlan,
    Receipts,
    Rows,
    ScanPlan,
    TableFacts,
    ViewFacts,
    WhoAreYou,
)
from leasehold.core.words.records import CheckpointChunk, LogCheckpoint, LogPosition
from leasehold.errors import Forbidden, LeaseholdError, NotFound, NotLeader, Unauthenticated
from leasehold.ids import EntryId, LoginToken
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.lease import LEADER_RETRY_NS, SILENT_SHOWN_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.testing.cluster import SimulatedCluster, SimulatedCoordinator
from leasehold.testing.coordinator_calls import Account
from leasehold.testing.metastorage import MemoryStore
from leasehold.testing.replica import MemoryReplica
from leasehold.testing.requests import is_transaction
from tests.conformance.store_words import every_other_read_is_stale
from tests.sim.coordinator_words import ask, execute, followers, run, simulate, the_leader


async def tables(cluster: SimulatedCluster, coordinator: SimulatedCoordinator) -> Rows:
    rows = await ask(cluster, coordinator, execute(cluster, "SHOW TABLES"))
    assert isinstance(rows, Rows)
    return rows


def test_each_coordinator_shows_a_statement_as_soon_as_it_has_returned():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        for number in range(5):
            receipt = await run(cluster, f"CREATE TABLE d.t{number} (a INT)")
            assert receipt.revision is not None
            for one in cluster.coordinators:
                shown = await tables(cluster, one)
                assert shown.revision >= receipt.revision
                assert [row[1] for row in shown.rows] == [f"t{each}" for each in range(number + 1)]
        await run(cluster, "CREATE VIEW d.v AS SELECT a FROM d.t0")
        for one in followers(cluster):
            table = await ask(cluster, one, AskTable(cluster_id=None, name="d.t4"))
            assert isinstance(table, TableFacts)
            assert isinstance(await ask(cluster, one, AskView(cluster_id=None, name="d.v")), ViewFacts)
            assert isinstance(await ask(cluster, one, execute(cluster, "DESCRIBE d.t4")), Rows)
            assert isinstance(await ask(cluster, one, execute(cluster, "SHOW ROLES")), Rows)
            assert isinstance(await ask(cluster, one, AskReceipts(after=0, limit=10)), Receipts)
            assert isinstance(await ask(cluster, one, PlanScan(cluster_id=None, name="d.t4", columns=None)), ScanPlan)
            assert isinstance(await ask(cluster, one, PlanQuery(cluster_id=None, names=("d.v",))), QueryPlan)
            facts = await ask(cluster, one, WhoAreYou())
            assert isinstance(facts, ClusterFacts)
            assert not facts.leader
            assert (facts.cluster_id, facts.term) == (table.cluster_id, 1)
            with pytest.raises(NotFound):
                await ask(cluster, one, AskTable(cluster_id=None, name="d.t5"))

    simulate(scenario, nodes=2)


def test_a_follower_leaves_to_the_leader_what_only_that_one_knows():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        done = await run(cluster, "CREATE TABLE d.t (a INT)")
        texts = [
            "SHOW NODES",
            "SHOW PROCEDURES",
            "SHOW HISTORY",
            "SHOW USERS",
            "EXPLAIN DROP TABLE d.t",
            "DROP TABLE d.t",
        ]
        requests: list[Message] = [execute(cluster, text) for text in texts]
        requests += [AskStatus(), PlanScan(cluster_id=None, name="d.t", columns=None, rewrite=True)]
        requests.append(AskTable(cluster_id=None, name="d.t", absences=True))
        # Under the id of a statement it is that statement which is asked for.
        requests.append(Execute(cluster_id=None, statement=done.statement_id, text="SHOW TABLES"))
        for one in followers(cluster):
            for request in requests:
                with pytest.raises(NotLeader) as raised:
                    await ask(cluster, one, request)
                assert raised.value.leader == the_leader(cluster).address
        assert (await tables(cluster, the_leader(cluster))).rows

    simulate(scenario, nodes=2)


def test_who_looks_for_other_replicas_hears_which_are_away_and_needs_no_leader():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        facts = await ask(cluster, followers(cluster)[0], AskTable(cluster_id=None, name="d.t"))
        assert isinstance(facts, TableFacts)
        await cluster.nodes[0].kill()
        gone = cluster.nodes[0].published.node
        await asyncio.sleep(SILENT_SHOWN_NS / SECOND_NS)
        for _ in cluster.coordinators:  # whichever of them it asks first
            client = cluster.client()
            assert [one.node for one in (await client.look_again(facts)).absences] == [gone]
        await the_leader(cluster).kill()
        assert (await cluster.client().look_again(facts)).table == facts.table

    simulate(scenario, nodes=2)


def test_a_follower_refuses_what_was_revoked_and_who_is_not_known():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await run(cluster, "CREATE USER root PASSWORD 'p'")
        root, user = await log_in(cluster, "root"), "u"
        await run(cluster, f"CREATE USER {user} PASSWORD 'p'", root)
        login = await log_in(cluster, user)
        table = AskTable(cluster_id=None, name="d.t", login=login)
        for _ in range(3):
            await run(cluster, f"GRANT SELECT ON TABLE d.t TO {user}", root)
            for one in cluster.coordinators:
                assert isinstance(await ask(cluster, one, table), TableFacts)
            await run(cluster, f"REVOKE SELECT ON TABLE d.t FROM {user}", root)
            for one in cluster.coordinators:
                with pytest.raises(Forbidden):
                    await ask(cluster, one, table)
        await run(cluster, f"DROP USER {user}", root)
        for one in cluster.coordinators:
            for asked in (execute(cluster, "SHOW TABLES", login), execute(cluster, "SHOW TABLES"), table):
                with pytest.raises(Unauthenticated):
                    await ask(cluster, one, asked)

    simulate(scenario, nodes=2)


async def log_in(cluster: SimulatedCluster, user: str) -> LoginToken:
    client = cluster.client(account=Account(user, ("p",)))
    address = the_leader(cluster).address
    await client.calls.call(address, execute(cluster, "SHOW TABLES"), CALL_TIMEOUT_NS)
    assert client.calls.token is not None
    return client.calls.token


def test_a_follower_whose_replica_is_built_anew_answers_again_by_itself():
    """To build it takes longer than the pause before a coordinator follows again."""

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        place = followers(cluster)[0].replica
        build = place.build

        def damaged(_position: LogPosition, _store: MemoryStore) -> None:
            place.on_apply = None
            raise DoesNotFollow("the entry is damaged")

        async def slow(
            log_id: EntryId, checkpoint: LogCheckpoint | None, chunks: AsyncIterator[CheckpointChunk]
        ) -> MemoryReplica:
            await asyncio.sleep(5 * LEADER_RETRY_NS / SECOND_NS)
            return await build(log_id, checkpoint, chunks)

        place.on_apply, place.build = damaged, slow
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await asyncio.sleep(10 * LEADER_RETRY_NS / SECOND_NS)
        assert place.on_apply is None
        assert (await tables(cluster, followers(cluster)[0])).rows

    simulate(scenario, nodes=2)


def test_a_follower_that_can_not_reach_the_store_says_so_and_answers_again_by_itself():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        one = followers(cluster)[0]
        one.cut_off_store()
        await run(cluster, "CREATE TABLE d.t (a INT)")
        with pytest.raises(NotLeader, match="can't find out whether its catalog is current"):
            await tables(cluster, one)
        one.heal_store()
        await run(cluster, "CREATE TABLE d.u (a INT)")
        assert [row[1] for row in (await tables(cluster, one)).rows] == ["t", "u"]

    simulate(scenario, nodes=2)


def test_questions_are_answered_while_nobody_leads():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await the_leader(cluster).kill()
        began_ns = cluster.loop.now_ns()
        alive = [one for one in cluster.coordinators if one.task is not None]
        for one in alive:
            assert [row[1] for row in (await tables(cluster, one)).rows] == ["t"]
        assert cluster.loop.now_ns() - began_ns < SECOND_NS
        assert cluster.leading is None

    simulate(scenario, nodes=2)


def test_a_leader_shows_nothing_older_than_a_follower_has_shown():
    """The answer of the store comes late, so the leader does not know yet what the followers show already."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        leader, follower = the_leader(cluster), followers(cluster)[0]

        async def late(request: str) -> None:
            if is_transaction(request):
                await asyncio.sleep(0.3)

        leader.after = late
        creating = group.create_task(run(cluster, "CREATE TABLE d.t (a INT)"))
        seen = await tables(cluster, follower)
        while not seen.rows:
            seen = await tables(cluster, follower)
        assert not creating.done(), "nobody has told the leader yet"
        assert (await tables(cluster, leader)).revision >= seen.revision
        await creating

    simulate(scenario, nodes=2)


def test_a_follower_whose_member_of_the_store_lags_answers_what_is_current():
    """A release of etcd whose reads may be old: each first answer lacks the newest change."""

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        cluster.kept_log.may_read_stale = True
        cluster.kept_log.lag()
        for one in followers(cluster):
            one.before = every_other_read_is_stale()
        for number in range(5):
            await run(cluster, f"CREATE TABLE d.t{number} (a INT)")
            for one in followers(cluster):
                shown = await tables(cluster, one)
                assert [row[1] for row in shown.rows] == [f"t{each}" for each in range(number + 1)]

    simulate(scenario, nodes=2)


def test_a_follower_that_takes_over_ends_the_questions_that_still_wait():
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        asked = [group.create_task(asks_on(cluster, one)) for one in followers(cluster)]
        await the_leader(cluster).stop()
        await cluster.wait_for(lambda: cluster.leading is not None)
        await asyncio.sleep(1)
        for task in asked:
            task.cancel()

    simulate(scenario, nodes=2)


async def asks_on(cluster: SimulatedCluster, coordinator: SimulatedCoordinator) -> None:
    """Asks for ever; each question is answered, or refused in time."""
    while True:
        began_ns = cluster.loop.now_ns()
        try:
            await tables(cluster, coordinator)
        except LeaseholdError as error:
            assert isinstance(error, NotLeader), error
        assert cluster.loop.now_ns() - began_ns < SECOND_NS
        await asyncio.sleep(0.001)


def test_a_follower_that_takes_office_has_read_the_catalog_already(monkeypatch: pytest.MonkeyPatch):
    read: list[MetaStorage] = []

    async def counted(storage: MetaStorage) -> Catalog:
        read.append(storage)
        return await read_catalog(storage)

    monkeypatch.setattr(following, "read_catalog", counted)

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        for text in ("CREATE DATABASE e", "DROP DATABASE e"):
            await the_leader(cluster).stop()
            await cluster.wait_for(lambda: cluster.leading is not None)
            await run(cluster, text)
        assert len(read) == 3, "each has read it once, when it began"

    simulate(scenario, nodes=2)
