"""The production coordinator and agents, unmodified, in a simulated cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from leasehold.core.words.messages import Receipt, Rows
from leasehold.core.words.records import Outcome, SettledHow
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.ids import StatementId
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.testing.cluster import SimulatedCluster
from leasehold.testing.loop import run_virtual

Scenario = Callable[[SimulatedCluster, asyncio.TaskGroup], Awaitable[None]]


class _Over(Exception):
    pass


def simulate(scenario: Scenario, *, seed: int = 1, nodes: int = 3) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=nodes)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise _Over
        except* _Over:
            pass

    run_virtual(main, seed)


async def run(cluster: SimulatedCluster, text: str) -> Receipt:
    answer = await cluster.sql(text)
    assert isinstance(answer, Receipt)
    return answer


async def ask(cluster: SimulatedCluster, text: str) -> Rows:
    answer = await cluster.sql(text)
    assert isinstance(answer, Rows)
    return answer


def test_a_statement_settles_by_reports_when_every_node_is_up():
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        receipt = await run(cluster, "CREATE TABLE nyc.weather (origin STRING, temp DOUBLE)")
        assert receipt.outcome is Outcome.COMMITTED
        assert {one.how for one in receipt.settled} == {SettledHow.APPLIED}
        assert len(receipt.settled) == 3
        assert receipt.elapsed_ns < SECOND_NS
        rows = await ask(cluster, "DESCRIBE nyc.weather")
        assert [row[:2] for row in rows.rows] == [("origin", "STRING"), ("temp", "DOUBLE")]

    simulate(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_dead_node_delays_a_statement_by_no_more_than_the_bound(seed):
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        await run(cluster, "CREATE TABLE nyc.t (a INT)")
        await cluster.nodes[1].kill()
        receipt = await run(cluster, "ALTER TABLE nyc.t ADD COLUMN b INT")
        assert receipt.elapsed_ns <= receipt.bound_ns == 4 * SECOND_NS
        how = {one.node: one.how for one in receipt.settled}
        assert sorted(how.values()) == [SettledHow.APPLIED, SettledHow.APPLIED, SettledHow.FENCED]
        again = await run(cluster, "DROP TABLE nyc.t")
        assert again.elapsed_ns < SECOND_NS, "a node that is known to be fenced is not waited for twice"

    simulate(scenario, seed=seed)


def test_a_paused_node_serves_nothing_old_when_it_goes_on():
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        await run(cluster, "CREATE TABLE nyc.t (a INT)")
        paused = cluster.nodes[2]
        paused.pause()
        receipt = await run(cluster, "DROP TABLE nyc.t")
        assert receipt.elapsed_ns <= receipt.bound_ns
        assert paused.guard() is None
        paused.resume()
        assert paused.guard() is None
        await cluster.wait_for(paused.guard)
        passed = paused.guard()
        assert passed is not None
        assert passed.view.revision >= receipt.revision

    simulate(scenario)


def test_a_restarted_node_answers_nobody_before_it_shows_what_its_vault_holds(monkeypatch):
    """Whom it takes for a node is decided on its view, which was empty for a moment once."""
    shown, joined = [], Published.joined

    def noted(self, *which):
        shown.append(len(self.view.nodes))
        joined(self, *which)

    async def scenario(cluster, group):
        node = cluster.nodes[0]
        await cluster.wait_for(lambda: len(node.agent.durable.nodes) == 3)
        await node.kill()
        monkeypatch.setattr(Published, "joined", noted)
        node.start(group)
        await cluster.wait_for(node.guard)
        assert shown == [3]

    simulate(scenario)


def test_a_restarted_node_keeps_its_id_under_another_address():
    async def scenario(cluster, group):
        before = {node.name: node.id for node in (await cluster.status()).nodes}
        node = cluster.nodes[0]
        await node.kill()
        await run(cluster, "CREATE DATABASE meanwhile")
        node.start(group, port=9100)
        await cluster.wait_for(node.guard)
        status = await cluster.status()
        assert {one.name: one.id for one in status.nodes} == before
        mine = next(one for one in status.nodes if one.name == node.name)
        assert mine.address.endswith(":9100")
        assert mine.incarnation == 2
        assert node.guard().view.find_database("meanwhile") is not None

    simulate(scenario)


def test_a_coordinator_that_restarts_resumes_a_statement_and_tells_its_outcome():
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        await run(cluster, "CREATE TABLE nyc.t (a INT)")
        await cluster.nodes[0].kill()
        statement = StatementId(cluster.entropy.hex_128())
        asked = group.create_task(cluster.sql("DROP TABLE nyc.t", statement))
        await asyncio.sleep(1)
        assert not asked.done()
        await cluster.kill_coordinator()
        await asyncio.sleep(1)
        await cluster.start_coordinator(group)
        receipt = await asked
        assert isinstance(receipt, Receipt)
        assert receipt.outcome is Outcome.COMMITTED
        again = await cluster.sql("DROP TABLE nyc.t", statement)
        assert isinstance(again, Receipt)
        assert again.outcome is Outcome.COMMITTED
        with pytest.raises(NotFound):
            await cluster.sql("DESCRIBE nyc.t")

    simulate(scenario)


def test_I4_a_copy_of_a_live_node_is_refused():
    async def scenario(cluster, group):
        original = cluster.nodes[0]
        clone = cluster.nodes[1]
        await clone.kill()
        clone.disk = original.disk.copy()
        clone.calls_itself = original.name

        async def start_the_copy() -> Refused:
            with pytest.raises(Refused) as caught:
                await clone.run(9200)
            return caught.value

        cluster.revive(clone.name)
        refused = await start_the_copy()
        assert refused.code == "ALIVE_ELSEWHERE"
        assert original.guard() is not None

    simulate(scenario)


def test_statements_that_are_refused_change_nothing():
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        before = (await cluster.status()).revision
        with pytest.raises(AlreadyExists):
            await cluster.sql("CREATE DATABASE NYC")
        with pytest.raises(NotFound):
            await cluster.sql("ALTER TABLE nyc.none ADD COLUMN a INT")
        with pytest.raises(Refused):
            await cluster.sql("CREATE TABLE nyc.t (a INT) TBLPROPERTIES ('replication' = '5')")
        await asyncio.sleep(1)
        assert (await cluster.status()).revision <= before + 1, "only the first statement's receipt was written"

    simulate(scenario)


def test_everything_killed_at_once_comes_back_with_all_that_was_acknowledged():
    async def scenario(cluster, group):
        await run(cluster, "CREATE DATABASE nyc")
        for number in range(5):
            await run(cluster, f"CREATE TABLE nyc.t{number} (a INT)")
        for node in cluster.nodes:
            await node.kill()
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        for node in cluster.nodes:
            node.start(group)
        await cluster.wait_for(lambda: all(node.guard() for node in cluster.nodes))
        tables = await ask(cluster, "SHOW TABLES IN nyc")
        assert [row[1] for row in tables.rows] == [f"t{number}" for number in range(5)]

    simulate(scenario)
