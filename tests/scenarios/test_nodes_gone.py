"""Weak points of nodes that are gone, or only seem so, as a coordinator has to answer them: each by its id."""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.words.messages import Grant, JoinAnswer, JoinWait
from leasehold.errors import Refused
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.membership import TOPOLOGY_GRACE_NS, TOPOLOGY_LOOK_NS
from leasehold.limits.sessions import SESSION_IDLE_NS, SESSION_OPENING_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.requests import RequestFate
from tests.scenarios.admission_words import GONE_NS, Node, at_a_desk


def test_R14_a_node_that_was_cut_off_loses_its_place_and_gets_it_back_only_by_recovering():
    async def scenario(desk):
        node, line = await desk.member()
        await node.cut(line)
        bound_ns = desk.held(node).bound_ns
        await desk.sleep(TOPOLOGY_GRACE_NS - SECOND_NS)
        assert desk.catalog.nodes[node.id].member, "the grace time is not over"
        await desk.sleep(GONE_NS)
        assert bound_ns < desk.clock.now_ns(), "its lease had ended long before"
        gone = desk.catalog.nodes[node.id]
        assert (gone.member, gone.left, desk.catalog.counters.topology) == (False, True, 2)
        assert (await desk.status())["n1"].stage == "LEFT"
        await desk.write(3)
        # It comes back as it is, without another join.
        line, opened = await node.open()
        assert not opened.member
        assert (await node.renew(line)).code == "RECOVERING"
        required = await node.enter(line, opened.latest)
        assert (await node.renew(line, opened.latest)).code == "RECOVERING"
        assert isinstance(await node.renew(line, required), Grant)
        assert node.incarnation == 1
        back = desk.catalog.nodes[node.id]
        assert (back.member, back.left, desk.catalog.counters.topology) == (True, False, 3)

    at_a_desk(scenario)


def test_R14_who_leaves_is_granted_nothing_any_more_even_if_that_can_not_be_written():
    async def scenario(desk):
        node, line = await desk.member()
        await node.cut(line)
        undisturbed = desk.storage.before

        async def full(request):
            await asyncio.sleep(0)
            if request == "txn":
                raise Refused("no space", code="DISK_FULL", hint="make room")
            return RequestFate.ANSWERED

        desk.storage.before = full
        await desk.sleep(GONE_NS)
        assert desk.catalog.nodes[node.id].member, "the store has it still"
        line, opened = await node.open()
        assert (await node.renew(line)).code == "RECOVERING"
        desk.storage.before = undisturbed
        # It recovers; nothing has to be written for it, and all that is known by now is required.
        assert await node.enter(line, opened.latest) == desk.catalog.revision
        assert isinstance(await node.renew(line), Grant)
        assert desk.catalog.counters.topology == 1

    at_a_desk(scenario)


@pytest.mark.parametrize("returns", [True, False])
def test_R15_a_fresh_leader_takes_out_only_who_stays_away_after_its_lease_has_ended(returns):
    async def scenario(desk):
        node, line = await desk.member()
        await desk.another_leads()
        assert desk.catalog.nodes[node.id].member
        await desk.sleep(TOPOLOGY_GRACE_NS - 2 * SECOND_NS)
        assert desk.catalog.nodes[node.id].member, "it has not been heard of by this leader, and that proves nothing"
        if returns:
            line, opened = await node.open()
            assert opened.member
            assert isinstance(await node.renew(line), Grant)
        await desk.sleep(GONE_NS)
        assert desk.catalog.nodes[node.id].member is returns

    at_a_desk(scenario)


def test_R15_nobody_is_taken_out_before_its_lease_has_ended_however_long_it_stays_away():
    """The lease is longer than the grace time: by that alone it would have to leave."""

    async def scenario(desk):
        node, line = await desk.member()
        bound_ns = desk.held(node).bound_ns
        await node.cut(line)
        assert bound_ns > desk.clock.now_ns() + 2 * GONE_NS
        await desk.sleep(2 * GONE_NS)
        assert desk.catalog.nodes[node.id].member
        await desk.sleep(bound_ns - desk.clock.now_ns() + 2 * TOPOLOGY_LOOK_NS)
        assert not desk.catalog.nodes[node.id].member

    at_a_desk(scenario, settings=msgspec.structs.replace(DEFAULT_SETTINGS, lease_duration_ns=6 * TOPOLOGY_GRACE_NS))


def test_R15_a_node_that_is_connected_stays_however_long_it_is_fenced():
    async def scenario(desk):
        node, _ = await desk.member()
        await desk.sleep(SESSION_IDLE_NS - SECOND_NS)
        assert desk.catalog.nodes[node.id].member
        assert (await desk.status())["n1"].state == "FENCED"

    at_a_desk(scenario)


# ---------------------------------------------------------------- whoever dies on the way


def test_R20_a_stream_on_which_nobody_speaks_is_ended():
    async def scenario(desk):
        line = (await desk.node()).connect()
        began_ns = desk.clock.now_ns()
        await line.ended.wait()
        assert line.error.code == "SILENT"
        assert desk.clock.now_ns() - began_ns <= SESSION_OPENING_NS + SECOND_NS

    at_a_desk(scenario)


def test_R20_a_session_of_which_nothing_is_heard_any_more_is_ended_at_whatever_stage():
    async def scenario(desk):
        recovering, entered = await desk.node("n1"), await desk.node("n2")
        first, _ = await recovering.open()
        second, opened = await entered.open()
        await entered.enter(second, opened.latest)
        assert {one.stage for one in (await desk.status()).values()} == {"CONNECTED", "MEMBER"}
        began_ns = desk.clock.now_ns()
        await first.ended.wait()
        await second.ended.wait()
        assert SESSION_IDLE_NS <= desk.clock.now_ns() - began_ns <= SESSION_IDLE_NS + SECOND_NS
        await desk.sleep(GONE_NS)
        status = await desk.status()
        assert (status["n1"].stage, status["n2"].stage) == ("ADMITTED", "LEFT")

    at_a_desk(scenario)


def test_R20_a_session_on_which_something_is_said_now_and_then_stays():
    async def scenario(desk):
        node = await desk.node()
        line, opened = await node.open()
        for _ in range(5):
            await desk.sleep(SESSION_IDLE_NS - SECOND_NS)
            await node.renew(line, opened.latest)
        assert not line.ended.is_set()

    at_a_desk(scenario)


def test_R20_a_process_that_dies_before_it_connects_stops_neither_a_statement_nor_its_successor():
    async def scenario(desk):
        node = await desk.node()
        assert (await desk.status())["n1"].stage == "ADMITTED"
        began_ns = desk.clock.now_ns()
        await desk.write()
        assert await node.ask(node.begin()) == JoinAnswer(incarnation=2)
        assert desk.clock.now_ns() - began_ns < SECOND_NS, "nobody waited for it"

    at_a_desk(scenario)


def test_R20_a_node_with_an_id_and_nothing_else_is_shown_as_that():
    async def scenario(desk):
        await Node(desk, "n1").register()
        status = (await desk.status())["n1"]
        assert (status.stage, status.state, status.incarnation) == ("REGISTERED", "DOWN", 0)

    at_a_desk(scenario)


# ---------------------------------------------------------------- leaders


def test_I13_a_new_leader_that_has_heard_of_nobody_waits_a_whole_lease_before_it_takes_anybody_for_dead():
    async def scenario(desk):
        node, _ = await desk.member()
        await desk.another_leads()
        elected_ns = desk.clock.now_ns()
        answer = await node.ask(node.begin())
        assert isinstance(answer, JoinWait)
        assert answer.wait_ns > LEASE_DURATION_NS - SECOND_NS
        await desk.write()
        assert desk.clock.now_ns() - elected_ns >= LEASE_DURATION_NS, "nor did a statement go by it"

    at_a_desk(scenario)
