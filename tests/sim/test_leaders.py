"""Several production coordinators over one meta storage: terms, take-over, hand-over, and leaders that are cut off."""

import asyncio

import pytest

from leasehold.core.data.asking import Asking
from leasehold.core.data.leadership_transfer import NewLeader, transfer_leadership
from leasehold.core.words.messages import (
    AskStatus,
    JoinAnswer,
    LeadershipEnds,
    RecoveryAccepted,
    SnapshotPage,
    TransferLeadership,
)
from leasehold.core.words.records import Outcome
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Indefinite, NotLeader, Refused
from leasehold.ids import Term
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.lease import LEADER_ASIDE_NS
from leasehold.limits.log import LEADERSHIP_DURATION_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import CLIENT, SimulatedCluster, SimulatedCoordinator
from tests.sim import recovery_words as recovery
from tests.sim.coordinator_words import all_serve_under, ask, run, simulate, term_of, the_leader

CHANGE_NS = 7_500_000_000
"""What a change of leader adds at most to a statement's bound (docs/design.md, "Schema changes")."""


def test_one_leads_and_the_others_name_it():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(1)
        leaders = [one for one in cluster.coordinators if one.leader is not None]
        assert len(leaders) == 1
        for one in cluster.coordinators:
            if one is not leaders[0]:
                with pytest.raises(NotLeader) as raised:
                    await ask(cluster, one, AskStatus())
                assert (raised.value.leader, raised.value.term) == (leaders[0].address, term_of(cluster))
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


@pytest.mark.parametrize(("duration", "soonest_s", "latest_s"), [("2s", 2, 4), ("3s", 3, 5), ("10s", 10, 12)])
def test_a_leadership_lasts_as_long_as_is_set(duration: str, soonest_s: int, latest_s: int):
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, f"ALTER CLUSTER SET leadership_duration = '{duration}'")
        before = the_leader(cluster)
        await before.stop()
        await cluster.wait_for(lambda: cluster.leading not in {None, before})
        await before.start(group)
        await asyncio.sleep(1)
        term, began_ns = term_of(cluster), cluster.loop.now_ns()
        await the_leader(cluster).kill()
        await cluster.wait_for(lambda: term_of(cluster) > term)
        assert soonest_s * SECOND_NS < cluster.loop.now_ns() - began_ns + SECOND_NS // 2 < latest_s * SECOND_NS

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
        asked = asyncio.ensure_future(ask(cluster, old, AskStatus()))
        await asyncio.sleep(0.5)
        old.resume()
        with pytest.raises(NotLeader):
            await asked
        await cluster.wait_for(lambda: old.leader is None)
        assert (await run(cluster, "DROP TABLE d.t")).outcome is Outcome.COMMITTED

    simulate(scenario)


@pytest.mark.parametrize("keeps_its_replica", [True, False])
def test_a_coordinator_that_starts_without_its_store_stands_by_until_it_answers(keeps_its_replica: bool):
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        old, before = the_leader(cluster), term_of(cluster)
        await run(cluster, "CREATE DATABASE d")
        for one in cluster.coordinators:
            await one.kill()
        if not keeps_its_replica:
            old.replica.kept = None
        old.cut_off_store()
        await old.start(group)
        await asyncio.sleep(3 * LEADERSHIP_DURATION_NS / SECOND_NS)
        assert old.task is not None
        assert not old.task.done()
        assert cluster.leading is None
        old.heal_store()
        await cluster.wait_for(lambda: cluster.leading is old, at_most_ns=2 * LEADERSHIP_DURATION_NS)
        assert term_of(cluster) == before + 1
        assert (await run(cluster, "DROP DATABASE d")).outcome is Outcome.COMMITTED

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


def test_a_leader_that_nobody_reaches_steps_aside_for_one_that_is_reached():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        before, began_ns = term_of(cluster), cluster.loop.now_ns()
        lonely = the_leader(cluster)
        for other in (CLIENT, *(node.name for node in cluster.nodes)):
            cluster.network.partition(other, lonely.name)
        receipt = await run(cluster, "CREATE TABLE d.t (a INT)")
        assert receipt.outcome is Outcome.COMMITTED
        assert cluster.loop.now_ns() - began_ns < 20 * SECOND_NS
        assert the_leader(cluster) is not lonely
        assert term_of(cluster) > before

    simulate(scenario)


def test_a_leader_does_not_step_aside_while_its_nodes_wait_for_the_end_of_longer_leases():
    """Each next leader would let them wait anew, and none of them ever served."""

    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        for duration in ("10s", "2s"):
            await run(cluster, f"ALTER CLUSTER SET lease_duration = '{duration}'")
        await the_leader(cluster).kill()
        for node in cluster.nodes:
            await node.kill(silent=True)
            node.start(group)
        await cluster.wait_for(lambda: all(node.guard() for node in cluster.nodes))

    simulate(scenario, nodes=2)


# ---------------------------------------------------------------- a leader that is asked to hand over


async def transfer(cluster: SimulatedCluster, to: SimulatedCoordinator | None = None) -> NewLeader:
    return await transfer_leadership(cluster.client(), None if to is None else to.address, Asking())


def test_an_operator_moves_the_leadership_and_statements_go_on():
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await run(cluster, "CREATE TABLE d.t (a INT)")
        cluster.nodes[2].pause()
        dropping = group.create_task(run(cluster, "DROP TABLE d.t"))
        await asyncio.sleep(0.2)
        old, before = the_leader(cluster), term_of(cluster)
        new = await transfer(cluster)
        assert new.term == before + 1
        assert new.address == the_leader(cluster).address != old.address
        assert new.elapsed_ns < SECOND_NS
        cluster.nodes[2].resume()
        assert (await dropping).outcome is Outcome.COMMITTED
        await cluster.wait_for(lambda: all_serve_under(cluster, new.term))
        await asyncio.sleep(10)
        assert term_of(cluster) == new.term

    simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_the_successor_that_is_named_goes_first(seed: int):
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        for _ in range(4):
            old = the_leader(cluster)
            chosen = cluster.random.choice([one for one in cluster.coordinators if one is not old])
            new = await transfer(cluster, chosen)
            assert the_leader(cluster) is chosen
            assert new.elapsed_ns < SECOND_NS
            await asyncio.sleep(LEADER_ASIDE_NS / SECOND_NS)  # who has just stepped aside does not campaign

    simulate(scenario, seed=seed)


def test_a_successor_that_can_not_take_over_is_waited_for_only_shortly():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        old, term, began_ns = the_leader(cluster), term_of(cluster), cluster.loop.now_ns()
        chosen, other = (one for one in cluster.coordinators if one is not old)
        chosen.cut_off_store()
        with pytest.raises(Refused, match=f"{other.address} leads now") as raised:
            await transfer(cluster, chosen)
        assert raised.value.code == ErrorCode.NO_SUCCESSOR
        assert the_leader(cluster) is other
        assert term_of(cluster) == term + 1
        assert cluster.loop.now_ns() - began_ns < 3 * SECOND_NS

    simulate(scenario)


def test_where_nobody_can_take_over_the_same_one_leads_again():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        old, term = the_leader(cluster), term_of(cluster)
        for one in cluster.coordinators:
            if one is not old:
                one.cut_off_store()
        with pytest.raises(Refused, match=f"{old.address} leads again"):
            await transfer(cluster)
        assert term_of(cluster) == term + 1
        for one in cluster.coordinators:
            if one is not old:
                await one.kill()
        with pytest.raises(Refused, match="no coordinator that is known answers") as raised:
            await transfer(cluster)
        assert raised.value.code == ErrorCode.NO_SUCCESSOR
        assert term_of(cluster) == term + 1

    simulate(scenario)


def test_a_term_that_is_over_is_not_ended_again():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        before = Term(term_of(cluster))
        await transfer(cluster)
        await cluster.ask(TransferLeadership(cluster_id=None, term=before), LeadershipEnds)
        with pytest.raises(BadMessage):
            await cluster.ask(TransferLeadership(cluster_id=None, term=Term(before + 2)), LeadershipEnds)
        with pytest.raises(BadMessage):
            request = TransferLeadership(cluster_id=None, term=Term(before + 1), successor="no address\n")
            await cluster.ask(request, LeadershipEnds)
        await asyncio.sleep(5)
        assert term_of(cluster) == before + 1

    simulate(scenario)


def test_a_leader_that_was_there_before_the_cluster_does_not_deny_it_when_it_hands_over():
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        machine = the_leader(cluster)
        old, machine.after = machine.process, lambda _request: asyncio.sleep(0.05)
        assert old is not None
        transferring, resigning = group.create_task(transfer(cluster)), 0
        while not transferring.done():
            if old.leader is None:
                resigning += 1
                with pytest.raises((NotLeader, Indefinite)):  # and never NotInitialised
                    await old.call(AskStatus())
            await asyncio.sleep(0.000_1)
        assert resigning > 0

    simulate(scenario)


def test_a_single_coordinator_has_nobody_to_hand_over_to():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        with pytest.raises(Refused) as raised:
            await cluster.ask(TransferLeadership(cluster_id=None, term=Term(1)), LeadershipEnds)
        assert raised.value.code == ErrorCode.NO_SUCCESSOR
        with pytest.raises(Refused, match="answers besides"):
            await transfer(cluster)

    simulate(scenario, coordinators=1)
