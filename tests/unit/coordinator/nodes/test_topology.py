"""The logical topology at a leader: what surrender, statements and people see of it."""

import msgspec
import pytest

from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    Grant,
    JoinWait,
    NewestIncarnation,
    RecoveryAccepted,
    RecoveryProgress,
    SegmentsMissing,
    Surrender,
    SurrenderAccepted,
)
from leasehold.core.words.records import BucketRecord, SegmentRecord
from leasehold.errors import Refused
from leasehold.limits.membership import JOIN_ASK_AGAIN_NS, TOPOLOGY_LOOK_NS
from leasehold.limits.recovery import RECOVERY_WHY_CHARACTERS_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.requests import RequestFate
from tests.scenarios.admission_words import at_a_desk


def progress(node, **fields):
    message = RecoveryProgress(
        node=node.id,
        incarnation=node.incarnation,
        session=node.session,
        case="b",
        why="40 revisions",
        applied=1_200,
        target=5_000,
        left_ns=2_100 * MILLISECOND_NS,
    )
    return msgspec.structs.replace(message, **fields)


def test_who_surrenders_leaves_at_once_and_its_incarnation_never_enters_again():
    async def scenario(desk):
        node, line = await desk.member()
        line.say(node.finished(desk.catalog.revision))
        line.say(Surrender(node=node.id, incarnation=node.incarnation, session=node.session))
        await line.hear(SurrenderAccepted)
        await desk.sleep(TOPOLOGY_LOOK_NS // 10)
        gone = desk.catalog.nodes[node.id]
        assert (gone.member, gone.left, desk.catalog.counters.topology) == (False, True, 2)
        line.heard()
        line.say(node.finished(desk.catalog.revision))
        await desk.sleep(SECOND_NS)
        assert not any(isinstance(one, RecoveryAccepted) for one in line.heard())
        assert not desk.catalog.nodes[node.id].member
        assert not line.ended.is_set(), "nor does that break its stream"

    at_a_desk(scenario)


def test_an_entrance_that_the_store_declines_is_tried_until_it_is_written():
    async def scenario(desk):
        node = await desk.node()
        line, opened = await node.open()
        undisturbed, declined = desk.storage.before, 0

        async def full(request):
            nonlocal declined
            if request == "txn" and declined < 3:
                declined += 1
                raise Refused("no space", code="DISK_FULL", hint="make room")
            return RequestFate.ANSWERED

        desk.storage.before = full
        required = await node.enter(line, opened.latest)
        desk.storage.before = undisturbed
        assert declined == 3
        assert required == desk.catalog.revision
        assert isinstance(await node.renew(line, required), Grant)

    at_a_desk(scenario)


def test_renewals_are_heard_while_an_entrance_waits_for_the_store():
    async def scenario(desk):
        node = await desk.node()
        line, opened = await node.open()

        async def full(request):
            if request == "txn":
                raise Refused("no space", code="DISK_FULL", hint="make room")
            return RequestFate.ANSWERED

        undisturbed, desk.storage.before = desk.storage.before, full
        line.say(node.finished(opened.latest))
        assert (await node.renew(line, opened.latest)).code == "RECOVERING"
        assert desk.held(node).applied == opened.latest
        desk.storage.before = undisturbed
        assert (await line.hear(RecoveryAccepted)).required == desk.catalog.revision

    at_a_desk(scenario)


def test_a_node_that_recovers_holds_no_statement_up():
    async def scenario(desk):
        member, line = await desk.member("n1")
        node = await desk.node("n2")
        await node.open()
        began_ns = desk.clock.now_ns()
        running = desk.group.create_task(desk.sql("CREATE DATABASE d"))
        await desk.sleep(100 * MILLISECOND_NS)
        assert not running.done(), "the member has not reported"
        await member.renew(line)
        receipt = await running
        assert desk.clock.now_ns() - began_ns < SECOND_NS
        assert {one.node: one.how.value for one in receipt.settled} == {1: "applied", 2: "fenced"}

    at_a_desk(scenario)


def test_the_stages_of_a_node_and_its_recovery_are_shown():
    async def scenario(desk):
        node = await desk.node()
        line, opened = await node.open()
        assert (await desk.status())["n1"].stage == "CONNECTED"
        line.say(progress(node, case="b", why="w" * 5_000))
        await desk.sleep(MILLISECOND_NS)
        status = (await desk.status())["n1"]
        assert (status.stage, status.state, status.recovery.case) == ("RECOVERING", "RECOVERING", "b")
        assert len(status.recovery.why) == RECOVERY_WHY_CHARACTERS_MAX
        rows = await desk.sql("SHOW NODES")
        shown = dict(zip(rows.columns, rows.rows[0], strict=True))
        assert rows.columns[:7] == (
            "id",
            "name",
            "address",
            "incarnation",
            "state",
            "applied_revision",
            "lease_remaining_ms",
        )
        assert (shown["stage"], shown["recovery"]) == ("RECOVERING", "b 1200/5000, about 3 s left")
        required = await node.enter(line, opened.latest)
        await node.renew(line, required)
        status = (await desk.status())["n1"]
        assert (status.stage, status.state) == ("MEMBER", "ACTIVE")
        await node.surrender(line)
        await node.join()
        status = (await desk.status())["n1"]
        assert (status.stage, status.recovery) == ("ADMITTED", None), "its newest process has told nothing"

    at_a_desk(scenario)


def test_a_process_that_waits_to_be_let_in_is_shown_with_how_long_at_most():
    """After a recovery that may be ten minutes, in which its process runs and no lease of it does."""

    async def scenario(desk):
        node, line = await desk.member()
        request = node.begin()
        assert isinstance(await node.ask(request), JoinWait)
        assert (await desk.status())["n1"].stage == "MEMBER", "the one before is connected: this may be a copy of it"
        line.say(None)
        await line.ended.wait()
        answer = await node.ask(request)
        shown = (await desk.status())["n1"]
        assert (shown.stage, shown.recovery.case, shown.recovery.left_ns) == ("WAITING", "", answer.wait_ns)
        rows = await desk.sql("SHOW NODES")
        told = dict(zip(rows.columns, rows.rows[0], strict=True))["recovery"]
        assert told == "waits to join until earlier leases have ended; about 4 s left"
        await desk.sleep(answer.wait_ns + 1)
        assert (await desk.status())["n1"].stage != "WAITING"
        await node.ask(request)
        assert (await desk.status())["n1"].stage == "ADMITTED"
        late = node.begin()
        await desk.sql("ALTER CLUSTER SET lease_duration = '1m'")
        await desk.another_leads()
        assert (await node.ask(late)).wait_ns > 2 * JOIN_ASK_AGAIN_NS
        await desk.sleep(2 * JOIN_ASK_AGAIN_NS)
        assert (await desk.status())["n1"].stage != "WAITING", "it has not asked again"

    at_a_desk(scenario)


# ---------------------------------------------------------------- taking an older copy for the node


def test_a_copy_takes_the_place_of_its_node_once_that_does_not_live_any_more():
    async def scenario(desk):
        node, line = await desk.member()
        answer = await desk.coordinator.call(node.adoption())
        assert answer == JoinWait(wait_ns=desk.held(node).bound_ns - desk.clock.now_ns())
        await node.cut(line)
        while isinstance(answer := await desk.coordinator.call(node.adoption()), JoinWait):
            await desk.sleep(answer.wait_ns)
        assert desk.clock.now_ns() >= desk.held(node).bound_ns
        assert answer == NewestIncarnation(incarnation=1, name="n1")
        await node.join()
        assert node.incarnation == 2

    at_a_desk(scenario)


@pytest.mark.parametrize("renews", [True, False])
def test_a_copy_of_a_node_that_lives_is_told_so(renews):
    async def scenario(desk):
        node, line = await desk.member()
        began_ns = desk.clock.now_ns()
        with pytest.raises(Refused) as caught:
            while isinstance(answer := await desk.coordinator.call(node.adoption()), JoinWait):
                if renews:
                    await node.renew(line)
                await desk.sleep(min(answer.wait_ns, SECOND_NS))
        assert caught.value.code == "ALIVE_ELSEWHERE"
        assert desk.clock.now_ns() - began_ns < 30 * SECOND_NS
        assert desk.held(node).closed is None

    at_a_desk(scenario)


def test_who_has_not_the_token_learns_nothing():
    async def scenario(desk):
        node = await desk.node()
        for fields, code in (
            ({"token": "e" * 32}, "WRONG_TOKEN"),
            ({"node": 9}, "UNKNOWN_NODE"),
            ({"cluster_id": "d" * 32}, "OTHER_CLUSTER"),
        ):
            with pytest.raises(Refused) as caught:
                await desk.coordinator.call(node.adoption(**fields))
            assert caught.value.code == code

    at_a_desk(scenario)


@pytest.mark.parametrize("times", [1, 2])
def test_I7_what_a_recovering_node_lacks_counts_before_it_enters_though_the_store_declines_it_for_a_while(times):
    async def scenario(desk):
        node, other = await desk.node("n1"), await desk.node("n2")
        held = SegmentRecord(
            id=f"{1:032x}-{0:032x}",
            table=2,
            bucket=0,
            schema_version=1,
            rows=1,
            size_bytes=1,
            sha256=b"s" * 32,
            statistics=(),
            holders=(node.id, other.id),
        )
        both = (node.id, other.id)
        bucket = BucketRecord(table=2, bucket=0, replicas=both, in_sync=both)
        await desk.another_leads(put(keys.bucket(2, 0), bucket), put(keys.segment(2, 0, held.id), held))
        line, _ = await node.open()
        undisturbed, declined = desk.storage.before, 0

        async def full(request):
            nonlocal declined
            if request == "txn" and declined < times:
                declined += 1
                raise Refused("no space", code="DISK_FULL", hint="make room")
            return RequestFate.ANSWERED

        desk.storage.before = full
        line.say(
            SegmentsMissing(
                node=node.id,
                incarnation=node.incarnation,
                session=node.session,
                table=2,
                bucket=0,
                segments=(held.id,),
            )
        )
        while declined < times:
            await desk.sleep(MILLISECOND_NS)
        await node.enter(line, desk.catalog.revision)  # which nothing declines, and which waits all the same
        desk.storage.before = undisturbed
        assert declined == times
        assert desk.catalog.segments[2, 0][held.id].holders == (other.id,)
        assert desk.catalog.buckets[2, 0].in_sync == (other.id,)

    at_a_desk(scenario)
