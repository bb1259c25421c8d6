"""A copy of a statement that reaches a later term: what was refused there before, or had nothing to do, is not run."""

import asyncio

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.leadership_transfer import transfer_leadership
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.words.messages import Execute, Message, Receipt, Rows
from leasehold.errors import AlreadyExists, LeaseholdError
from leasehold.ids import StatementId
from leasehold.limits.lease import LEADER_ASIDE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedCoordinator
from tests.sim.coordinator_words import run, simulate, the_leader

PATIENTLY = Asking(120 * SECOND_NS)


async def transfer(cluster: SimulatedCluster, to: SimulatedCoordinator) -> None:
    await transfer_leadership(cluster.client(), to.address, Asking())
    await cluster.wait_for(lambda: cluster.leading is to)
    await asyncio.sleep(LEADER_ASIDE_NS / SECOND_NS)  # who has just stepped aside does not campaign


async def heard(cluster: SimulatedCluster, text: str, statement: StatementId) -> Receipt | Rows | LeaseholdError:
    """What a client of its own hears in the end."""
    try:
        return await run_statement(cluster.client(), text, statement, PATIENTLY)
    except LeaseholdError as error:
        return error


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [("ALTER TABLE d.t ADD COLUMN IF NOT EXISTS b INT", False), ("ALTER TABLE d.t ADD COLUMN b INT", True)],
)
def test_a_copy_that_comes_late_changes_nothing(text: str, is_refused: bool):
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT, b INT)")
        first = the_leader(cluster)
        second = next(one for one in cluster.coordinators if one is not first)
        statement = StatementId(cluster.entropy.hex_128())

        def is_copy(message: Message) -> bool:
            return isinstance(message, Execute) and message.statement == statement

        held = cluster.network.hold(CLIENT, first.name, is_copy)
        asking = asyncio.ensure_future(heard(cluster, text, statement))
        await asyncio.sleep(0.1)
        await transfer(cluster, second)
        assert isinstance(await asking, AlreadyExists if is_refused else Receipt)
        await run(cluster, "ALTER TABLE d.t DROP COLUMN b")
        await transfer(cluster, first)
        cluster.network.release(held)
        await asyncio.sleep(5)
        described = await cluster.sql("DESCRIBE d.t")
        assert isinstance(described, Rows)
        assert [row[0] for row in described.rows] == ["a"]

    simulate(scenario)


def test_a_client_that_knows_an_old_term_asks_the_new_leader_again_at_once():
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        client = cluster.client()
        for number in range(3):
            statement = StatementId(cluster.entropy.hex_128())
            await run_statement(client, f"CREATE DATABASE d{number}", statement, PATIENTLY)
            leader = the_leader(cluster)
            await leader.kill()
            await leader.start(group)
            await cluster.wait_for(lambda: cluster.leading is not None)
        shown = await cluster.sql("SHOW DATABASES")
        assert isinstance(shown, Rows)
        assert len(shown.rows) == 3

    simulate(scenario)
