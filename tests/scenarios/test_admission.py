"""Weak points of admission (facts/recovery.md), as a coordinator has to answer them: each by its id."""

import asyncio

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import DEFAULT_SETTINGS
from leasehold.core.ddl import outcomes as forgetting
from leasehold.core.membership.generations import raised
from leasehold.core.words import messages
from leasehold.core.words.messages import (
    Execute,
    Grant,
    JoinAnswer,
    JoinWait,
    RecoveryAccepted,
    RecoveryBehind,
    Watched,
)
from leasehold.errors import Definite, Refused, Superseded
from leasehold.limits.clients import STATEMENT_RESOLVE_NS
from leasehold.limits.lease import LEASE_DURATION_NS
from leasehold.limits.statements import STATEMENT_REMEMBERED_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.requests import RequestFate
from tests.scenarios.admission_words import GONE_NS, at_a_desk

# ---------------------------------------------------------------- what is required of whom


def test_R4_a_node_that_is_nearly_there_gets_its_lease_only_with_the_revision_that_let_it_in():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(40)
        line, opened = await node.open()
        assert (opened.member, opened.catch_up_difference) == (False, 100)
        applied = opened.latest - 40
        assert (await node.renew(line, opened.latest)).code == "RECOVERING", "it has not said that it has recovered"
        required = await node.enter(line, applied)
        assert required == desk.catalog.revision == opened.latest + 1
        assert desk.catalog.nodes[node.id].member
        assert desk.catalog.counters.topology == 1
        assert (await node.renew(line, opened.latest)).code == "RECOVERING"
        granted = await node.renew(line, required)
        assert isinstance(granted, Grant)
        assert await node.enter(line, required) == required, "said again, nothing changes"
        assert desk.catalog.counters.topology == 1

    at_a_desk(scenario)


def test_R4_a_node_that_is_too_far_behind_is_told_so_and_gets_nothing():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(6)
        line, opened = await node.open()
        line.say(node.finished(opened.latest - 6))
        behind = await line.hear(RecoveryBehind, RecoveryAccepted)
        assert behind == RecoveryBehind(latest=opened.latest, catch_up_difference=5)
        assert not desk.catalog.nodes[node.id].member

    at_a_desk(scenario, settings=msgspec.structs.replace(DEFAULT_SETTINGS, catch_up_difference=5))


def test_R5_a_session_watches_before_it_reads_what_is_newest():
    async def scenario(desk):
        node = await desk.node()
        asked = []

        async def noted(request):
            asked.append(request)
            await asyncio.sleep(0)
            if request == "status":
                # A revision between the beginning of the watch and the answer: it is in one of the two, or in both.
                await desk.sql("CREATE DATABASE between")
            return RequestFate.ANSWERED

        undisturbed, desk.storage.before = desk.storage.before, noted
        line = node.connect()
        line.say(node.opening(watch_from=desk.catalog.revision + 1))
        opened = await line.hear(messages.SessionOpened)
        desk.storage.before = undisturbed
        assert asked.index("history") < asked.index("status")
        delivered = await line.hear(Watched)
        assert delivered.batch.revision <= opened.latest

    at_a_desk(scenario)


# ---------------------------------------------------------------- histories


def test_R6_a_directory_with_another_past_is_refused_and_its_node_stays_as_it_was():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(3)
        applied = desk.catalog.revision - 1
        before = desk.catalog.nodes[node.id]
        lineage = await node.lineage(applied)
        for fields, code in (
            ({"applied": desk.catalog.revision + 1, "lineage": lineage}, "AHEAD_OF_CLUSTER"),
            ({"applied": applied, "lineage": b"X" * 32}, "DIVERGED"),
            ({"applied": applied - 1, "lineage": lineage}, "DIVERGED"),
            ({"generation": 2, "applied": applied, "lineage": lineage}, "AHEAD_OF_CLUSTER"),
            ({"cluster_id": "d" * 32}, "OTHER_CLUSTER"),
        ):
            with pytest.raises(Refused) as caught:
                await node.ask(node.begin(**fields))
            assert caught.value.code == code
            assert caught.value.hint
        assert desk.catalog.nodes[node.id] == before
        answer = await node.join(applied=applied, lineage=lineage)
        assert answer == JoinAnswer(incarnation=2, history_known=True, protocol=1)

    at_a_desk(scenario)


def test_R6_a_session_from_beyond_the_newest_revision_is_refused():
    async def scenario(desk):
        node = await desk.node()
        line = node.connect()
        line.say(node.opening(watch_from=desk.catalog.revision + 2))
        await line.ended.wait()
        assert line.error.code == "AHEAD_OF_CLUSTER"

    at_a_desk(scenario)


def test_R6_the_past_is_compared_as_long_as_it_can_be_replayed_and_is_unknown_below_that():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(6)
        revisions = {one: await node.lineage(one) for one in range(1, desk.catalog.revision + 1)}
        minimum = desk.catalog.revision - 2
        await desk.storage.compact(minimum)
        for applied, known in ((minimum, True), (minimum - 1, True), (minimum - 2, False)):
            answer = await node.join(applied=applied, lineage=revisions[applied])
            assert answer.history_known is known
            if known:
                with pytest.raises(Refused) as caught:
                    await node.ask(node.begin(applied=applied, lineage=b"X" * 32))
                assert caught.value.code == "DIVERGED"

    at_a_desk(scenario)


def test_R6_the_past_is_compared_with_the_newest_change_however_far_others_compact():
    async def scenario(desk):
        node = await desk.node()
        await desk.write(6)
        newest = desk.catalog.revision
        lineage, older = await node.lineage(newest), await node.lineage(newest - 1)
        await desk.compact_beyond()
        with pytest.raises(Refused) as caught:
            await node.ask(node.begin(applied=newest, lineage=b"X" * 32))
        assert caught.value.code == "DIVERGED"
        assert (await node.join(applied=newest, lineage=lineage)).history_known
        assert not (await node.join(applied=newest - 1, lineage=older)).history_known

    at_a_desk(scenario)


def test_R6_a_directory_beyond_a_generation_that_was_left_is_told_so_whatever_its_revision_is_now():
    async def scenario(desk):
        node = await desk.node()
        left, generation = desk.catalog.revision, desk.catalog.cluster.generation
        begun = raised(desk.catalog, wall_s=2_000_000_000, longest_lease_ns=0)
        await desk.another_leads(*begun.changes)
        await desk.write()
        assert desk.catalog.revision == left + 3, "between them is an election, which no node applies"
        for applied in range(left + 1, left + 5):
            with pytest.raises(Refused) as caught:
                await node.ask(node.begin(generation=generation, applied=applied, lineage=b"X" * 32))
            assert caught.value.code == "BEYOND_RECOVERY"

    at_a_desk(scenario)


def test_R6_a_revision_that_no_node_could_have_applied_is_refused_also_once_it_is_compacted():
    async def scenario(desk):
        node = await desk.node()
        newest = desk.catalog.revision
        lineage = await node.lineage(newest)
        await desk.compact_beyond()
        await desk.write()
        with pytest.raises(Definite) as caught:
            await node.ask(node.begin(applied=newest + 1, lineage=lineage))
        assert caught.value.code == "DIVERGED", "that revision is of an election"

    at_a_desk(scenario)


# ---------------------------------------------------------------- requests that come again, late, or too early


def test_R12_a_join_that_is_asked_again_much_later_and_of_another_leader_is_answered_the_same():
    async def scenario(desk):
        node, other = await desk.node(), await desk.node("n2")
        request = node.begin()
        first = await node.ask(request)
        assert isinstance(first, JoinAnswer)
        for _ in range(20):
            await other.join()
        await desk.sleep(3600 * SECOND_NS)
        assert await node.ask(request) == first
        await desk.another_leads()
        assert await node.ask(request) == first
        again = await desk.coordinator.call(node.allocate())
        assert again.node == node.id, "a token is remembered for ever"

    at_a_desk(scenario)


@pytest.mark.parametrize("leaders", [1, 2])
def test_R12_a_statement_that_is_asked_again_while_many_others_end_is_not_run_twice(monkeypatch, leaders):
    """Its database is there again when its client, who has had no answer, asks for the last time."""
    monkeypatch.setattr(forgetting, "STATEMENTS_KEPT", 3)
    monkeypatch.setattr(forgetting, "PURGE_BATCH", 2)

    async def others(desk):
        await desk.write(20)
        await desk.sleep(SECOND_NS)  # their receipts are written

    async def scenario(desk):
        await desk.sleep(2 * STATEMENT_REMEMBERED_NS)  # a new leader forgets nothing before
        await desk.sql("CREATE DATABASE d")
        drop = Execute(cluster_id=None, statement=desk.entropy.hex_128(), text="DROP DATABASE d")
        first = await desk.ask(drop)
        await desk.sql("CREATE DATABASE d")
        await others(desk)
        if leaders == 2:
            await desk.another_leads()
            await others(desk)
        await desk.sleep(STATEMENT_RESOLVE_NS)
        await others(desk)
        assert await desk.ask(drop) == first
        assert "d" in desk.catalog.database_names
        for _ in range(150):
            await desk.write()
            await desk.sleep(SECOND_NS)
        assert drop.statement not in desk.catalog.statements
        assert len(desk.catalog.statements) < 70, "what has ended long ago is forgotten"

    at_a_desk(scenario)


def test_R13_of_two_processes_of_one_node_the_leader_names_the_one_that_is_stale():
    async def scenario(desk):
        node, line = await desk.member()
        older = node.opening(), node.session, node.incarnation
        await node.surrender(line)
        await node.join()
        newer, opened = await node.open()
        stale = node.connect()
        stale.say(older[0])
        await stale.ended.wait()
        assert isinstance(stale.error, Superseded)
        assert f"which is {node.incarnation}" in stale.error.text
        # The newer one goes on, on the same stream, whatever the stale one said.
        required = await node.enter(newer, opened.latest)
        assert isinstance(await node.renew(newer, required), Grant)

    at_a_desk(scenario)


def test_R16_a_late_request_of_a_dead_incarnation_changes_nothing_for_the_live_one():
    async def scenario(desk):
        node = await desk.node()
        dead = node.begin(previous=0)
        await node.join()
        line, opened = await node.open(session=node.session)
        required = await node.enter(line, opened.latest)
        await node.renew(line, required)
        before = desk.catalog.nodes[node.id]
        with pytest.raises(Refused) as caught:
            await desk.coordinator.call(dead)
        assert caught.value.code == "STALE_COPY"
        assert desk.catalog.nodes[node.id] == before
        assert isinstance(await node.renew(line), Grant)

    at_a_desk(scenario)


def test_R16_a_late_copy_of_the_attempt_by_which_the_live_process_was_let_in_is_refused():
    """Its sender is dead, and had not heard that it was let in: the live one asked by the same nonce, and entered."""

    async def scenario(desk):
        node = await desk.node()
        dead = node.begin()
        node.session = desk.entropy.hex_128()
        assert await node.ask(msgspec.structs.replace(dead, session=node.session)) == JoinAnswer(incarnation=2)
        line, opened = await node.open()
        required = await node.enter(line, opened.latest)
        await node.renew(line, required)
        before = desk.catalog.nodes[node.id]
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                await desk.coordinator.call(dead)
            assert caught.value.code == "STALE_COPY"
            assert isinstance(await node.renew(line), Grant)
            await desk.sleep(2 * LEASE_DURATION_NS)  # nor once its lease has ended
        assert desk.catalog.nodes[node.id] == before
        assert not line.ended.is_set()

    at_a_desk(scenario)


def test_R17_a_join_that_is_not_valid_closes_nothing():
    async def scenario(desk):
        await desk.node("n2")
        node, line = await desk.member()
        session = node.session
        for fields, code in (
            ({"name": "n2"}, "NAME_TAKEN"),
            ({"token": "e" * 32}, "WRONG_TOKEN"),
            ({"capabilities": ("NO",)}, "BAD_CAPABILITIES"),
            ({"capabilities": ("leap",)}, "LACKS_CAPABILITY"),
            ({"protocol": 9, "protocol_min": 8}, "OTHER_PROTOCOL"),
        ):
            # Even once its lease has ended, so that a valid one would be let in at once.
            await desk.sleep(2 * LEASE_DURATION_NS)
            with pytest.raises(Refused) as caught:
                await node.ask(node.begin(**fields))
            assert caught.value.code == code
            node.session = session
            assert desk.held(node).closed is None
            assert isinstance(await node.renew(line), Grant)

    at_a_desk(scenario)


def test_R18_the_end_of_an_older_stream_does_not_end_the_newer_process():
    async def scenario(desk):
        node, older = await desk.member()
        await node.surrender(older)
        await node.join()
        line, opened = await node.open()
        required = await node.enter(line, opened.latest)
        await node.renew(line, required)
        older.say(None)
        await older.ended.wait()
        status = (await desk.status())["n1"]
        assert (status.stage, status.incarnation, status.state) == ("MEMBER", 2, "ACTIVE")
        for _ in range(int(GONE_NS / SECOND_NS)):
            await desk.sleep(SECOND_NS)
            assert isinstance(await node.renew(line), Grant)
        assert desk.catalog.nodes[node.id].member

    at_a_desk(scenario)


def test_R18_a_fast_restart_waits_for_its_own_older_lease_and_no_longer():
    async def scenario(desk):
        node, line = await desk.member()
        bound_ns = desk.held(node).bound_ns
        await node.cut(line)
        request = node.begin()
        answer = await node.ask(request)
        assert answer == JoinWait(wait_ns=bound_ns - desk.clock.now_ns())
        await desk.sleep(answer.wait_ns)
        assert await node.ask(request) == JoinAnswer(incarnation=2)
        joined = desk.catalog.nodes[node.id]
        assert (joined.member, joined.left, desk.catalog.counters.topology) == (False, False, 2)

    at_a_desk(scenario)
