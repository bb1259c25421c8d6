"""Several production coordinators over one meta storage: terms, take-over, hand-over, and leaders that are cut off."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from leasehold.core.words.messages import AskStatus, JoinAnswer, Receipt, RecoveryAccepted, SnapshotPage
from leasehold.core.words.records import Outcome
from leasehold.errors import NotLeader
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.campaign import LEADERSHIP_DURATION_NS
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedCoordinator
from leasehold.testing.loop import run_virtual
from tests.sim import recovery_words as recovery

Scenario = Callable[[SimulatedCluster, asyncio.TaskGroup], Awaitable[None]]
CHANGE_NS = 7_500_000_000
"""What a change of leader adds at most to a statement's bound (docs/design.md, "Schema changes")."""


class Over(Exception):
    pass


def simulate(scenario: Scenario, *, seed: int = 1) -> None:
    async def main(random: Random) -> None:
        cluster = SimulatedCluster(random, nodes=3, coordinators=3)
        try:
            async with asyncio.TaskGroup() as group:
                await cluster.start(group)
                await scenario(cluster, group)
                raise Over
        except* Over:
            pass

    run_virtual(main, seed)


def the_leader(cluster: SimulatedCluster) -> SimulatedCoordinator:
    leading = cluster.leading
    assert leading is not None
    return leading


async def run(cluster: SimulatedCluster, text: str) -> Receipt:
    answer = await cluster.sql(text)
    assert isinstance(answer, Receipt)
    return answer


async def ask_status(cluster: SimulatedCluster, coordinator: SimulatedCoordinator) -> object:
    connection = cluster.network.host(CLIENT).connect(coordinator.address)
    try:
        return await connection.call(AskStatus(), timeout_ns=CALL_TIMEOUT_NS)
    finally:
        await connection.close()


def term_of(cluster: SimulatedCluster) -> int:
    leading = cluster.leading
    return 0 if leading is None or leading.leader is None else leading.leader.grantor.term


def all_serve_under(cluster: SimulatedCluster, term: int) -> bool:
    return all((passed := node.guard()) and passed.lease.term == term for node in cluster.nodes)


def test_one_leads_and_the_others_say_who_does_not():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        leaders = [one for one in cluster.coordinators if one.leader is not None]
        assert len(leaders) == 1
        for one in cluster.coordinators:
            if one is not leaders[0]:
                with pytest.raises(NotLeader):
                    await ask_status(cluster, one)
        assert (await run(cluster, "CREATE DATABASE d")).outcome is Outcome.COMMITTED

    simulate(scenario)


def test_a_leadership_lasts_while_it_is_beaten():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        before = term_of(cluster)
        await asyncio.sleep(20 * LEADERSHIP_DURATION_NS / SECOND_NS)
        assert term_of(cluster) == before
        assert all_serve_under(cluster, before)

    simulate(scenario)


def test_a_killed_leader_is_followed_within_its_bound():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        before = term_of(cluster)
        began_ns = cluster.loop.now_ns()
        await the_leader(cluster).kill()
        receipt = await run(cluster, "CREATE TABLE d.t (a INT)")
        assert cluster.loop.now_ns() - began_ns <= receipt.bound_ns + CHANGE_NS
        assert term_of(cluster) == before + 1
        await cluster.wait_for(lambda: all_serve_under(cluster, before + 1))

    simulate(scenario)


def test_a_leader_that_hands_over_is_followed_at_once():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        before = term_of(cluster)
        began_ns = cluster.loop.now_ns()
        await the_leader(cluster).stop()
        await cluster.wait_for(lambda: term_of(cluster) > before)
        assert cluster.loop.now_ns() - began_ns < SECOND_NS
        await cluster.wait_for(lambda: all_serve_under(cluster, before + 1))
        assert (await run(cluster, "CREATE DATABASE d")).outcome is Outcome.COMMITTED

    simulate(scenario)


def test_a_leader_that_was_paused_past_its_end_answers_nothing_and_stands_by():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        old, before = the_leader(cluster), term_of(cluster)
        old.pause()
        await cluster.wait_for(lambda: term_of(cluster) > before)
        await run(cluster, "CREATE TABLE d.t (a INT)")
        asked = asyncio.ensure_future(ask_status(cluster, old))
        await asyncio.sleep(0.5)
        old.resume()
        with pytest.raises(NotLeader):
            await asked
        await cluster.wait_for(lambda: old.leader is None)
        assert (await run(cluster, "DROP TABLE d.t")).outcome is Outcome.COMMITTED

    simulate(scenario)


def test_a_leader_cut_off_from_the_store_ends_in_time_and_a_node_stranded_with_it_is_fenced():
    """L4 with whole processes: the stranded node hears the old leader alone."""

    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        old, stranded, before = the_leader(cluster), cluster.nodes[0], term_of(cluster)
        for one in cluster.coordinators:
            if one is not old:
                cluster.network.partition(stranded.name, one.name)
        old.cut_off_store()
        await cluster.wait_for(lambda: term_of(cluster) > before)
        assert old.leader is None, "it ended before another could begin"
        receipt = await run(cluster, "CREATE TABLE d.t (a INT)")
        assert receipt.revision is not None
        passed = stranded.guard()
        assert passed is None, "its lease was the old leader's, and has ended"
        old.heal_store()
        cluster.network.heal_all()
        await cluster.wait_for(lambda: all_serve_under(cluster, before + 1))

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_statement_outlives_the_leaders_that_began_it(seed: int):
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT, b INT)")
        cluster.nodes[2].pause()  # a wide window: the barrier waits for it
        began_ns = cluster.loop.now_ns()
        dropping = group.create_task(run(cluster, "DROP TABLE d.t"))
        await asyncio.sleep(cluster.random.random() * 3)
        dead = the_leader(cluster)
        await dead.kill()
        receipt = await dropping
        assert receipt.outcome is Outcome.COMMITTED
        assert cluster.loop.now_ns() - began_ns <= receipt.bound_ns + CHANGE_NS
        await dead.start(group)
        cluster.nodes[2].resume()
        await cluster.wait_for(lambda: all_serve_under(cluster, term_of(cluster)))

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("kind", [JoinAnswer, SnapshotPage, RecoveryAccepted], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("how", ["killed", "without its store"])
def test_a_node_on_its_way_in_goes_on_with_a_leader_on_another_machine(kind: type, how: str):
    """The old one is gone, or lives on without its store. What it said last comes when nobody waits for it any more."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        node, term = cluster.nodes[0], term_of(cluster)
        await recovery.leave_behind(cluster, node)
        hold = await recovery.reach(cluster, group, node, kind)
        old = the_leader(cluster)
        await old.kill() if how == "killed" else old.cut_off_store()
        await cluster.wait_for(lambda: term_of(cluster) > term)
        await asyncio.sleep(CALL_TIMEOUT_NS / SECOND_NS)
        cluster.network.release(hold)
        await recovery.serving(cluster, *cluster.nodes)
        assert all_serve_under(cluster, term + 1)
        await recovery.settled(cluster)
        assert node.disk.state.items == recovery.store_holds(cluster)
        assert recovery.topology(cluster)[1] == ["n1", "n2", "n3"]
        assert node.published.incarnation == 2, "asked again by the same process, the next leader answers the same"

    recovery.simulate(scenario, coordinators=3)
