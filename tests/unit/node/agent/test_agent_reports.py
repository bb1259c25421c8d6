"""What the agent tells its leader by hand: that it has finished, what it wants a lease for, what its disk holds."""

import asyncio
import logging

from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import RecoveryBehind, RecoveryFinished, RecoveryProgress
from leasehold.core.words.records import Record
from leasehold.limits.recovery import RECOVERY_ASK_AGAIN_NS
from leasehold.limits.sessions import SESSION_QUEUE_MESSAGES_MAX
from tests.scenarios.bad_words import until
from tests.unit.node.agent.agent_words import leased
from tests.unit.node.scripted_leader import with_a_leader


def identity(ground):
    return decode_record(Record, ground.disk.state.identity)


# ---------------------------------------------------------------- saying that it has finished


def test_what_was_said_on_a_stream_that_broke_is_said_again():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.leader.on_finished = [lambda _: None]
        ground.start(group)
        await until(lambda: ground.leader.told(RecoveryFinished))
        await asyncio.sleep(3)
        assert len(ground.leader.told(RecoveryFinished)) == 1, "once, for a while"
        assert len(ground.leader.told(RecoveryProgress)) > 3, "while it says how far it is"
        ground.cut()
        await until(lambda: leased(ground))
        assert len(ground.leader.told(RecoveryFinished)) == 2

    with_a_leader(scenario)


def test_what_finds_no_room_on_its_way_out_is_said_again():
    """The reports of a long comparison fill the outbox just when it is over."""

    async def scenario(ground, group):
        ground.history.put(1)
        agent = ground.make(compares_disk=True)
        group.create_task(agent.run())
        await until(lambda: agent.comparison_due and agent.durable.revision == 1)
        for _ in range(SESSION_QUEUE_MESSAGES_MAX):
            await agent.report_missing(table=1, bucket=0, segments=())
        began_ns = ground.clock.now_ns()
        agent.on_disk_compared(agent.comparison_due, kept=0, missing=0)
        await until(lambda: leased(ground))
        assert ground.clock.now_ns() - began_ns >= RECOVERY_ASK_AGAIN_NS, "the first time it found no room"
        assert len(ground.leader.told(RecoveryFinished)) == 1
        assert len(ground.leader.opened) == 1, "on the same stream"

    with_a_leader(scenario)


def test_behind_it_says_so_again_after_it_has_caught_up(caplog):
    caplog.set_level(logging.INFO, logger="leasehold.node")

    async def scenario(ground, group):
        ground.history.put(1)
        ground.leader.on_finished = [lambda _: RecoveryBehind(latest=3, catch_up_difference=0)]
        ground.start(group)
        await until(lambda: ground.leader.told(RecoveryFinished))
        await asyncio.sleep(3)
        assert len(ground.leader.told(RecoveryFinished)) == 1
        ground.history.put(2)
        ground.history.put(3)
        await ground.leader.push()
        await until(lambda: leased(ground))
        assert [one.applied for one in ground.leader.told(RecoveryFinished)] == [1, 3]
        recovered = [one for one in caplog.messages if one.startswith("recovered by case b")]
        assert len(recovered) == 1, "not where it heard that it is behind"
        assert "revision 3 of" in recovered[0]

    with_a_leader(scenario)


def test_a_member_that_has_left_comes_back_without_a_join():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.start(group)
        await until(lambda: leased(ground))
        ground.leader.member = False
        await until(lambda: ground.leader.member)
        await until(lambda: leased(ground))
        assert ground.leader.incarnation == 1
        assert len(ground.leader.opened) == 1, "on the very same stream"
        assert len(ground.leader.told(RecoveryFinished)) == 2

    with_a_leader(scenario)


def test_who_gives_its_lease_back_says_nothing_after_that():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.start(group)
        await until(lambda: leased(ground))
        heard = len(ground.leader.heard)
        ground.leader.member = False
        await ground.agent.surrender()
        ground.agent.counted(fetched=1)
        await asyncio.sleep(5)
        assert [type(one).__name__ for one in ground.leader.heard[heard:]] == ["Surrender"]

    with_a_leader(scenario)


def test_a_lease_is_asked_for_as_soon_as_what_is_required_is_shown():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.leader.on_finished = [lambda _: (ground.history.put(2), ground.leader.let_in())[1]]
        ground.start(group)
        await until(lambda: ground.leader.member)
        await asyncio.sleep(1)
        assert not leased(ground)
        began_ns = ground.clock.now_ns()
        await ground.leader.push()
        await until(lambda: leased(ground))
        assert ground.clock.now_ns() - began_ns < 100 * 1_000_000, "sooner than by its regular renewals"

    with_a_leader(scenario)


# ---------------------------------------------------------------- the disk


def test_the_disk_is_compared_on_the_stream_that_says_so():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.start(group, compares_disk=True)
        await until(lambda: ground.agent.comparison_due is not None)
        await asyncio.sleep(2)
        assert not ground.leader.told(RecoveryFinished)
        lost = ground.agent.comparison_due
        ground.cut()
        await until(lambda: len(ground.leader.opened) == 2 and ground.agent.comparison_due is not None)
        await until(lambda: ground.disk.state.applied == 1)
        ground.agent.on_disk_compared(lost, kept=1, missing=0)
        await asyncio.sleep(2)
        assert not ground.leader.told(RecoveryFinished), "what it told of went with the stream"
        ground.agent.on_disk_compared(ground.agent.comparison_due, kept=1, missing=2)
        await until(lambda: leased(ground))
        ground.agent.counted(fetched=2, evicted=1)
        await until(lambda: ground.leader.told(RecoveryProgress)[-1].segments_fetched)
        last = ground.leader.told(RecoveryProgress)[-1]
        assert (last.segments_kept, last.segments_fetched, last.segments_evicted) == (1, 2, 1)

    with_a_leader(scenario)


def test_a_member_says_nothing_more_of_its_disk_than_what_is_news():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.start(group)
        await until(lambda: leased(ground))
        await asyncio.sleep(2)
        told = len(ground.leader.told(RecoveryProgress))
        for _ in range(5):
            ground.agent.counted(missing=0)
            await asyncio.sleep(1)
        assert len(ground.leader.told(RecoveryProgress)) == told
        ground.agent.counted(evicted=1)
        await until(lambda: len(ground.leader.told(RecoveryProgress)) > told)

    with_a_leader(scenario)


def test_a_directory_with_an_unknown_history_is_believed_once_it_was_verified():
    async def scenario(ground, group):
        ground.history.put(1)
        life = ground.start(group)
        await until(lambda: ground.disk.state.applied == 1)
        assert not ground.agent.must_verify
        await ground.kill(life)
        ground.leader.history_known = False
        life = ground.start(group)
        await until(lambda: leased(ground))
        assert ground.leader.asked_snapshots == 1, "although nothing has changed"
        assert ground.agent.must_verify
        await ground.kill(life)
        ground.leader.history_known = True
        life = ground.start(group)
        await until(lambda: leased(ground))
        assert ground.leader.asked_snapshots == 1
        assert ground.agent.must_verify, "it died before all was verified"
        await ground.agent.verified()
        assert not ground.agent.must_verify
        assert not identity(ground).unverified
        await ground.kill(life)
        ground.start(group)
        await until(lambda: leased(ground))
        assert not ground.agent.must_verify

    with_a_leader(scenario)
