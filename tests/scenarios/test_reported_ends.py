"""Supervisors report the end of a node's process: what the leader closes, and whom it believes."""

import pytest

from leasehold.core.lease.process_end import end_proof
from leasehold.core.words.messages import (
    AskStatus,
    JoinAnswer,
    JoinWait,
    ProcessEndReported,
    RenewalRefused,
    ReportProcessEnd,
)
from leasehold.core.words.records import SettledHow
from leasehold.errors import NotLeader, Refused
from leasehold.limits.membership import TOPOLOGY_LOOK_NS
from leasehold.limits.units import MILLISECOND_NS
from tests.scenarios.admission_words import CLUSTER_ID, at_a_desk


def report(process, **fields):
    """What the supervisor of a node's newest process sends."""
    given = {"node": process.id, "incarnation": process.incarnation, "proof": end_proof(process.token, process.session)}
    return ReportProcessEnd(**{"cluster_id": CLUSTER_ID, **given, **fields})


def test_the_next_process_joins_at_once_and_the_statement_after_a_kill_waits_for_nobody():
    async def scenario(desk):
        node, line = await desk.member()
        other, _ = await desk.member("n2")
        await node.cut(line)
        before = desk.clock.now_ns()
        assert await desk.coordinator.call(report(node)) == ProcessEndReported()
        await desk.sleep(TOPOLOGY_LOOK_NS // 10)
        assert not desk.catalog.nodes[node.id].member
        assert desk.catalog.nodes[other.id].member
        assert isinstance(await node.ask(node.begin()), JoinAnswer)
        assert desk.clock.now_ns() - before < 500 * MILLISECOND_NS, "virtual time: its lease would have run for longer"

    at_a_desk(scenario)


def test_a_barrier_under_way_is_settled_by_the_report_and_says_so():
    async def scenario(desk):
        node, line = await desk.member()
        await node.cut(line)
        statement = desk.group.create_task(desk.sql("CREATE DATABASE d"))
        await desk.sleep(100 * MILLISECOND_NS)
        assert not statement.done(), "it waits for the lease"
        await desk.coordinator.call(report(node))
        assert [(one.node, one.how) for one in (await statement).settled] == [(node.id, SettledHow.ENDED)]

    at_a_desk(scenario)


def test_the_session_of_a_process_that_has_ended_is_over_and_shows_why():
    async def scenario(desk):
        node, line = await desk.member()
        await desk.coordinator.call(report(node))
        await line.ended.wait()
        await desk.coordinator.call(report(node))
        ends = (await desk.coordinator.call(AskStatus())).session_ends
        assert [(one.node, one.how) for one in ends] == [(node.id, "ENDED")]

    at_a_desk(scenario)


def test_a_stop_in_order_stays_one_when_the_supervisor_reports_it_too():
    async def scenario(desk):
        node, line = await desk.member()
        await node.surrender(line)
        line.say(None)
        await line.ended.wait()
        assert await desk.coordinator.call(report(node)) == ProcessEndReported()
        ends = (await desk.coordinator.call(AskStatus())).session_ends
        assert [(one.node, one.how) for one in ends] == [(node.id, "SURRENDERED")]

    at_a_desk(scenario)


@pytest.mark.parametrize(
    "fields",
    [{"proof": b""}, {"proof": b"p" * 32}, {"incarnation": 9}, {"node": 9}],
    ids=["empty", "other", "later", "node"],
)
def test_without_the_proof_of_this_process_nothing_is_closed(fields):
    async def scenario(desk):
        node, line = await desk.member()
        with pytest.raises(NotLeader):
            await desk.coordinator.call(report(node, **fields))
        assert desk.held(node).closed is None
        assert not isinstance(await node.renew(line), RenewalRefused)

    at_a_desk(scenario)


def test_the_session_alone_proves_nothing():
    """Other nodes know it."""

    async def scenario(desk):
        node, _ = await desk.member()
        with pytest.raises(NotLeader):
            await desk.coordinator.call(report(node, proof=end_proof("0" * 32, node.session)))
        assert desk.held(node).closed is None

    at_a_desk(scenario)


def test_a_report_for_another_cluster_is_refused():
    async def scenario(desk):
        node, _ = await desk.member()
        with pytest.raises(Refused) as refused:
            await desk.coordinator.call(report(node, cluster_id="0" * 32))
        assert refused.value.code == "OTHER_CLUSTER"
        assert desk.held(node).closed is None

    at_a_desk(scenario)


def test_a_late_report_of_the_process_before_leaves_the_one_that_lives_alone():
    async def scenario(desk):
        node, line = await desk.member()
        late = report(node)
        await node.surrender(line)
        await node.join()
        line, opened = await node.open()
        await node.enter(line, opened.latest)
        assert await desk.coordinator.call(late) == ProcessEndReported(), "that one is closed"
        assert desk.held(node).closed is None
        assert not isinstance(await node.renew(line), RenewalRefused)

    at_a_desk(scenario)


def test_a_new_leader_can_check_it_too_and_need_not_wait_for_the_lease_of_its_predecessor():
    async def scenario(desk):
        node, line = await desk.member()
        await node.cut(line)
        of_the_older = report(node)
        await desk.another_leads()
        assert isinstance(await node.ask(node.begin()), JoinWait)
        assert await desk.coordinator.call(of_the_older) == ProcessEndReported()
        assert isinstance(await node.ask(node.begin()), JoinAnswer)

    at_a_desk(scenario)
