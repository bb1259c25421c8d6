"""What campaigns of random faults and reading the code have found, each as a scenario of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import (
    AskOutcome,
    AskTable,
    ClusterFacts,
    Initialise,
    Message,
    OpenTransaction,
    Receipt,
    Rows,
    TableFacts,
    Watched,
)
from leasehold.core.words.records import Outcome, StatementRecord, TransactionRecord, TransactionState
from leasehold.errors import AlreadyExists, Indefinite, Refused, Unreachable
from leasehold.ids import ClusterId, StatementId, TransactionId
from leasehold.limits.segments import TRANSACTION_TTL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.limits.upkeep import HOUSEKEEPING_INTERVAL_NS
from leasehold.testing.clients import ask
from leasehold.testing.cluster import ADDRESS, CLIENT, COORDINATOR, SimulatedCluster
from leasehold.testing.loop import run_virtual
from leasehold.testing.requests import RequestFate, undisturbed


class Over(Exception):
    """The scenario has ended: what still runs is cancelled."""


def simulate(scenario: Callable[[SimulatedCluster, asyncio.TaskGroup], Awaitable[None]], *, nodes: int = 3) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=nodes)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


async def run(cluster: SimulatedCluster, text: str, statement: StatementId | None = None) -> Receipt:
    answer = await cluster.sql(text, statement)
    assert isinstance(answer, Receipt)
    return answer


async def outcome(cluster: SimulatedCluster, statement: StatementId) -> Receipt:
    answer = await ask(cluster, AskOutcome(cluster_id=None, statement=statement), patience_s=30)
    assert isinstance(answer, Receipt)
    return answer


def is_closed(cluster: SimulatedCluster, statement: StatementId) -> bool:
    """Whether the receipt of a statement is durable."""
    found = cluster.store.get(keys.statement(statement), None)
    return found is not None and decode_record(StatementRecord, found.value).outcome is not Outcome.RUNNING


def let_through(cluster: SimulatedCluster, transactions: int) -> asyncio.Event:
    """So many transactions get into the meta storage; the others wait for the event."""
    go_on, left = asyncio.Event(), transactions

    async def before(request: str) -> RequestFate:
        nonlocal left
        left -= request == "txn"
        if request == "txn" and left < 0:
            await go_on.wait()
        return RequestFate.ANSWERED

    cluster.coordinators[0].before = before
    return go_on


async def answered_but_open(cluster: SimulatedCluster) -> tuple[Receipt, asyncio.Event]:
    """A statement that has returned, after two transactions, while its receipt still waits to be written."""
    await run(cluster, "CREATE DATABASE d")
    await asyncio.sleep(1)
    go_on = let_through(cluster, 2)
    receipt = await run(cluster, "DROP DATABASE d")
    assert not is_closed(cluster, receipt.statement_id)
    return receipt, go_on


def test_an_answer_is_repeated_while_its_receipt_is_not_durable_yet() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        first, go_on = await answered_but_open(cluster)
        assert await outcome(cluster, first.statement_id) == first
        assert await run(cluster, first.text, first.statement_id) == first
        go_on.set()
        await cluster.wait_for(lambda: is_closed(cluster, first.statement_id))
        assert await outcome(cluster, first.statement_id) == first

    simulate(scenario)


def test_a_later_leader_tells_the_revision_that_the_first_one_told() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        first, _ = await answered_but_open(cluster)
        await cluster.kill_coordinator()
        await cluster.start_coordinator(group)
        again = await outcome(cluster, first.statement_id)
        assert (again.outcome, again.revision) == (first.outcome, first.revision)
        await cluster.wait_for(lambda: is_closed(cluster, first.statement_id))
        assert (await outcome(cluster, first.statement_id)).revision == first.revision

    simulate(scenario)


def test_a_refusal_stays_one_when_a_late_copy_of_the_request_could_be_carried_out() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        refused = StatementId(cluster.entropy.hex_128())
        with pytest.raises(AlreadyExists):
            await run(cluster, "CREATE DATABASE d", refused)
        nothing = await run(cluster, "CREATE DATABASE IF NOT EXISTS d")
        await run(cluster, "DROP DATABASE d")
        with pytest.raises(AlreadyExists):
            await run(cluster, "CREATE DATABASE d", refused)
        with pytest.raises(AlreadyExists):
            await outcome(cluster, refused)
        assert await run(cluster, nothing.text, nothing.statement_id) == nothing
        rows = await cluster.sql("SHOW DATABASES")
        assert isinstance(rows, Rows)
        assert rows.rows == ()

    simulate(scenario)


def test_nothing_to_do_is_answered_with_a_revision_that_every_node_shows() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        behind = cluster.nodes[0]
        held = cluster.network.hold(COORDINATOR, behind.name, lambda message: isinstance(message, Watched))
        other = asyncio.ensure_future(run(cluster, "CREATE DATABASE e"))
        await asyncio.sleep(0.5)
        assert not other.done(), "it waits for the node that is behind"
        nothing = await run(cluster, "CREATE DATABASE IF NOT EXISTS d")
        passed = behind.guard()
        assert passed is not None
        assert nothing.revision is not None
        assert passed.view.revision >= nothing.revision
        cluster.network.release(held)
        await other

    simulate(scenario)


def test_an_initialisation_whose_answer_was_lost_is_not_waited_for_for_ever() -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=1)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start_coordinator(group)
                await asyncio.sleep(0.1)

                async def lose(request: str) -> RequestFate:
                    return RequestFate.LOST_AFTER if request == "txn" else RequestFate.ANSWERED

                cluster.coordinators[0].before = lose
                chosen = ClusterId(cluster.entropy.hex_128())
                connection = cluster.network.host(CLIENT).connect(ADDRESS)
                with pytest.raises(Indefinite):
                    await connection.call(Initialise(cluster_id=chosen), timeout_ns=SECOND_NS)
                cluster.coordinators[0].before = undisturbed
                facts = await connection.call(Initialise(cluster_id=chosen), timeout_ns=SECOND_NS)
                assert isinstance(facts, ClusterFacts)
                assert facts.cluster_id == chosen
                other = Initialise(cluster_id=ClusterId(cluster.entropy.hex_128()))
                with pytest.raises(Refused) as caught:
                    await connection.call(other, timeout_ns=SECOND_NS)
                assert caught.value.code == "INITIALISED"
                cluster.nodes[0].start(group)
                await cluster.wait_for(cluster.nodes[0].guard)
                raise Over
        except* Over:
            pass

    run_virtual(main, 1)


def test_two_nodes_that_fail_one_after_the_other_do_not_delay_one_statement_twice() -> None:
    """After a drop the next statement waits for its barrier: that belongs to the queue, and began with the drop."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        _, second, third = cluster.nodes

        def is_removal(message: Message) -> bool:
            return isinstance(message, Watched) and any(
                one.value is None and one.key.startswith(keys.TABLES) for one in message.batch.changes
            )

        cluster.network.hold(COORDINATOR, second.name, is_removal)
        await run(cluster, "DROP TABLE d.t")
        began_ns = cluster.loop.now_ns()
        again = group.create_task(run(cluster, "CREATE TABLE d.t (a INT)"))
        await asyncio.sleep(3.3)
        cluster.network.partition(COORDINATOR, third.name)
        receipt = await again
        assert cluster.loop.now_ns() - began_ns > 4 * SECOND_NS, "two waits, one after the other"
        assert receipt.elapsed_ns <= receipt.bound_ns

    simulate(scenario)


def test_a_write_whose_opener_gave_up_expires_like_any_other() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await asyncio.sleep(1)
        connection = cluster.network.host(CLIENT).connect(ADDRESS)
        facts = await connection.call(AskTable(cluster_id=None, name="d.t"), timeout_ns=SECOND_NS)
        assert isinstance(facts, TableFacts)
        transaction = TransactionId(cluster.entropy.hex_128())
        request = OpenTransaction(
            cluster_id=facts.cluster_id,
            transaction=transaction,
            table=facts.table,
            schema_version=facts.schema_version,
        )
        go_on = let_through(cluster, 0)
        with pytest.raises(Unreachable):
            await connection.call(request, timeout_ns=SECOND_NS)
        await asyncio.sleep(1)
        go_on.set()

        def state() -> TransactionState | None:
            found = cluster.store.get(keys.transaction(transaction), None)
            return None if found is None else decode_record(TransactionRecord, found.value).state

        await cluster.wait_for(lambda: state() is TransactionState.OPEN)
        waited_ns = TRANSACTION_TTL_NS + 3 * HOUSEKEEPING_INTERVAL_NS
        await cluster.wait_for(lambda: state() is TransactionState.ABORTED, at_most_ns=waited_ns)

    simulate(scenario, nodes=1)
