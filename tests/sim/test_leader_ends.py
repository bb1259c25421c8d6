"""What happens around the end of a leadership: whoever waits for it is told, and nobody waits for ever."""

import asyncio
from collections import Counter
from collections.abc import Awaitable

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.statement_calls import run_statement
from leasehold.core.words.messages import AskStatus, Execute, OpenSession, Receipt, Rows
from leasehold.core.words.records import Outcome
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, NotLeader, OutcomeUnknown, Unreachable
from leasehold.ids import StatementId
from leasehold.limits.log import LEADERSHIP_DURATION_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import SimulatedCluster, SimulatedCoordinator
from leasehold.testing.requests import LATE_S, RequestFate, is_transaction, undisturbed
from tests.sim.coordinator_words import ask, run, simulate, term_of, the_leader
from tests.sim.data_words import Ground as Tables


def cut_every_stream_of(cluster: SimulatedCluster, host: str) -> None:
    for stream in list(cluster.network.streams):
        for end in stream.ends():
            if end.host.name == host:
                end.cut("a short break")


@pytest.mark.parametrize("seed", range(3))
def test_a_node_that_comes_back_to_a_leader_without_a_store_does_not_stay_with_it(seed: int) -> None:
    """Its session was being opened when the leadership ended, and the store stays out of reach."""

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(2)
        old, node, before = the_leader(cluster), cluster.nodes[0], term_of(cluster)
        old.cut_off_store()
        opened: list[OpenSession] = []
        cluster.network.hold(node.name, old.name, lambda one: isinstance(one, OpenSession) and bool(opened.append(one)))
        cut_every_stream_of(cluster, node.name)
        await cluster.wait_for(lambda: opened)
        assert term_of(cluster) == before, "it comes back while the old leader leads"
        await cluster.wait_for(lambda: term_of(cluster) > before)
        await cluster.wait_for(
            lambda: (passed := node.guard()) and passed.lease.term > before, at_most_ns=3 * LEADERSHIP_DURATION_NS
        )

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_statement_that_arrives_while_a_term_ends_is_answered_and_breaks_nothing(seed: int) -> None:
    """One arrives at each pass of the loop after the leader has lost its store."""
    passes = 16

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        leading = the_leader(cluster)
        coordinator = leading.process
        assert coordinator is not None
        answers: dict[int, Receipt | LeaseholdError] = {}

        async def ask(after: int) -> None:
            for _ in range(after):
                await asyncio.sleep(0)
            text = f"CREATE DATABASE IF NOT EXISTS d{after}"
            request = Execute(cluster_id=None, statement=StatementId(cluster.entropy.hex_128()), text=text)
            try:
                async for message in coordinator.stream(request):
                    if isinstance(message, Receipt):
                        answers[after] = message
            except LeaseholdError as error:
                answers[after] = error

        lost = False

        async def before(request: str) -> RequestFate:
            nonlocal lost
            await asyncio.sleep(0)
            if not is_transaction(request) or lost:
                return RequestFate.ANSWERED
            lost = True
            leading.cut_off_store()
            for after in range(passes):
                group.create_task(ask(after))
            return RequestFate.LOST_BEFORE

        leading.before = before
        group.create_task(ask(passes))
        await cluster.wait_for(lambda: len(answers) == passes + 1)
        assert {error.code for error in answers.values() if isinstance(error, LeaseholdError)} <= {
            "UNKNOWN",
            "NOT_LEADER",
            "NOT_INITIALISED",
        }
        assert (await run(cluster, "CREATE DATABASE e")).outcome is Outcome.COMMITTED

    simulate(scenario, seed=seed)


def test_a_beat_without_an_answer_fences_nobody() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        leading = the_leader(cluster)
        lost = 0

        async def before(request: str) -> RequestFate:
            nonlocal lost
            await asyncio.sleep(0)
            if request == "swap log/leader" and not lost:
                lost += 1
                return RequestFate.LOST_BEFORE
            return RequestFate.ANSWERED

        leading.before = before
        until_ns = cluster.loop.now_ns() + 12 * SECOND_NS
        while cluster.loop.now_ns() < until_ns:
            assert all(node.guard() for node in cluster.nodes)
            await asyncio.sleep(0.05)
        assert lost == 1

    simulate(scenario)


def test_a_drop_that_finds_no_space_goes_on_when_there_is_some() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await asyncio.sleep(1)
        appends = 0

        async def before(request: str) -> RequestFate:
            nonlocal appends
            appends += is_transaction(request)
            if appends == 2:
                cluster.kept_log.is_full = True
            return await undisturbed(request)

        the_leader(cluster).before = before
        dropping = group.create_task(run(cluster, "DROP TABLE d.t"))
        await asyncio.sleep(5)
        assert not dropping.done()
        assert cluster.leading is None, "a full store takes no beats"
        await asyncio.sleep(2 * LEADERSHIP_DURATION_NS / SECOND_NS)  # by then each has tried to lead
        for one in cluster.coordinators:
            with pytest.raises(NotLeader, match=r"can't, since the store is full \(make room\)"):
                await ask(cluster, one, AskStatus())
        cluster.kept_log.is_full = False
        assert (await dropping).outcome is Outcome.COMMITTED

    simulate(scenario)


def test_without_a_quorum_what_nobody_took_is_definite_and_what_was_under_way_is_unknown() -> None:
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        client, sent = cluster.client(), StatementId("7" * 32)
        client.cluster_id = (await cluster.status()).cluster_id

        async def no_quorum(_request: str) -> RequestFate:
            await asyncio.sleep(0.1)
            raise Unreachable("no member answers", code=ErrorCode.NO_QUORUM, hint="start them")

        for one in cluster.coordinators:
            one.before = no_quorum
        under_way = group.create_task(ended(run_statement(client, "CREATE TABLE d.t (a INT)", sent, Asking(SECOND_NS))))
        await cluster.wait_for(lambda: cluster.leading is None)
        assert isinstance(await under_way, OutcomeUnknown)
        await asyncio.sleep(1)
        for text in ("CREATE TABLE d.u (a INT)", "SHOW TABLES IN d"):
            end = await ended(run_statement(client, text, StatementId("8" * 32), Asking(SECOND_NS)))
            assert isinstance(end, Unreachable)
            assert (end.code, end.hint) == (ErrorCode.NO_QUORUM, "start them")
            assert "since no member answers" in end.text
        for one in cluster.coordinators:
            one.before = undisturbed
        await run(cluster, "CREATE TABLE d.u (a INT)")
        assert isinstance(await ended(run_statement(client, "CREATE TABLE d.t (a INT)", sent, Asking())), Receipt)

    simulate(scenario)


async def ended(steps: Awaitable[object]) -> object:
    try:
        return await steps
    except LeaseholdError as error:
        return error


def test_handing_over_without_a_store_ends_all_the_same() -> None:
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        leading, before = the_leader(cluster), term_of(cluster)
        assert leading.process is not None
        assert leading.task is not None
        leading.cut_off_store()
        leading.process.hand_over()
        await asyncio.wait([leading.task], timeout=2 * LEADERSHIP_DURATION_NS / SECOND_NS)
        assert leading.task.done()
        await cluster.wait_for(lambda: term_of(cluster) > before)

    simulate(scenario)


# ---------------------------------------------------------------- asked again after a timeout, it happens once


def lose_one(coordinator: SimulatedCoordinator, number: int, fate: RequestFate) -> list[int]:
    """This transaction of the coordinator from now on, counted from 1, fares so; the list counts them."""
    counted: list[int] = []

    async def before(request: str) -> RequestFate:
        await asyncio.sleep(0)
        counted.extend([1] * is_transaction(request))
        return fate if is_transaction(request) and len(counted) == number else RequestFate.ANSWERED

    coordinator.before = before
    return counted


FATES = [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER, RequestFate.LATE, RequestFate.DOUBLED]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_statement_whose_transaction_had_no_answer_happens_once_however_often_it_is_asked(
    number: int, fate: RequestFate
) -> None:
    """The pre-state, the point of no return, the end: what is made again under the name is not dropped with it."""

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await asyncio.sleep(1)
        statement = StatementId(cluster.entropy.hex_128())
        counted = lose_one(the_leader(cluster), number, fate)
        first = await cluster.sql("DROP DATABASE d", statement)
        assert isinstance(first, Receipt)
        assert first.outcome is Outcome.COMMITTED
        await cluster.wait_for(lambda: len(counted) >= number)
        await asyncio.sleep(2 * LATE_S)
        assert term_of(cluster) == 1, "an append is asked about until it is known"
        await run(cluster, "CREATE DATABASE d")
        again = await cluster.sql("DROP DATABASE d", statement)
        assert isinstance(again, Receipt)
        assert (again.outcome, again.revision) == (first.outcome, first.revision)
        rows = await cluster.sql("SHOW DATABASES")
        assert isinstance(rows, Rows)
        assert len(rows.rows) == 1

    simulate(scenario)


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name)
@pytest.mark.parametrize("number", [1, 2])
def test_rows_whose_transaction_had_no_answer_are_there_once(number: int, fate: RequestFate) -> None:
    """The write is opened by the first transaction, and committed by the second."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        tables = Tables(cluster, group)
        await tables.create()
        await asyncio.sleep(1)
        counted = lose_one(the_leader(cluster), number, fate)
        written = await tables.write(10)
        await asyncio.sleep(2 * LATE_S)
        assert len(counted) >= number
        assert term_of(cluster) == 1, "an append is asked about until it is known"
        assert await tables.read() == Counter(written.rows)

    simulate(scenario)


@pytest.mark.parametrize("how", ["is cancelled", "hands over"])
def test_a_leader_that_is_asked_to_step_aside_as_it_ends_does_end(how: str):
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        one = the_leader(cluster)
        assert one.leader is not None
        assert one.task is not None
        assert one.process is not None
        one.leader.succession.successor.set_result("")
        if how == "is cancelled":
            one.task.cancel()
        else:
            one.process.hand_over()
        await asyncio.wait([one.task], timeout=1)
        assert one.task.done()

    simulate(scenario)
