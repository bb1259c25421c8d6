"""The agent's leaps: snapshots that go wrong, streams that break, and what is durable before."""

import asyncio

import msgspec
import pytest

from leasehold.core.words.messages import JoinAnswer, RecoveryProgress, SnapshotBegin, SnapshotEnd, WatchFailed
from leasehold.errors import NotLeader, Refused
from leasehold.limits.recovery import BAD_SNAPSHOTS_MAX, SNAPSHOT_BUSY_REST_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.projection import ProjectionLimits
from leasehold.testing.vault import MemoryVault
from tests.scenarios.bad_words import until
from tests.unit.node.agent.agent_words import leased, only_by_a_leap
from tests.unit.node.scripted_leader import ScriptedLeader, with_a_leader


def too_few_keys(leader: ScriptedLeader):
    async def snapshot(request):
        async for message in leader.sound(request):
            yield msgspec.structs.replace(message, keys=9) if isinstance(message, SnapshotEnd) else message

    return snapshot


def another_revision(leader: ScriptedLeader):
    async def snapshot(request):
        async for message in leader.sound(request):
            yield msgspec.structs.replace(message, revision=99) if isinstance(message, SnapshotEnd) else message

    return snapshot


def other_items(leader: ScriptedLeader):
    async def snapshot(request):
        async for message in leader.sound(request):
            yield msgspec.structs.replace(message, digest=bytes(32)) if isinstance(message, SnapshotEnd) else message

    return snapshot


def cut_off(leader: ScriptedLeader):
    async def snapshot(request):
        async for message in leader.sound(request):
            if isinstance(message, SnapshotEnd):
                return
            yield message

    return snapshot


def another_leads(leader: ScriptedLeader):
    async def snapshot(request):
        async for message in leader.sound(request):
            if isinstance(message, SnapshotEnd):
                raise NotLeader("another one leads by now")
            yield message

    return snapshot


def busy(_leader: ScriptedLeader):
    async def snapshot(_request):
        raise Refused("others take one", code="BUSY", hint="ask again")
        yield

    return snapshot


@pytest.mark.parametrize("broken", [too_few_keys, another_revision, other_items, cut_off, another_leads, busy])
def test_a_snapshot_that_is_not_whole_is_taken_again(broken):
    async def scenario(ground, group):
        only_by_a_leap(ground)
        ground.leader.snapshots = [broken(ground.leader)] * (BAD_SNAPSHOTS_MAX - 1)
        ground.start(group)
        await until(lambda: leased(ground))
        assert ground.leader.asked_snapshots == BAD_SNAPSHOTS_MAX
        assert ground.disk.state.items == ground.history.items[2]
        assert ground.shown == 2

    with_a_leader(scenario)


@pytest.mark.parametrize("broken", [too_few_keys, another_revision, other_items])
def test_snapshots_that_are_never_whole_end_the_process(broken):
    async def scenario(ground, _group):
        only_by_a_leap(ground)
        ground.leader.snapshots = [broken(ground.leader)] * 9
        with pytest.raises(Refused) as caught:
            await ground.make().run()
        assert caught.value.code == "BAD_SNAPSHOT"
        assert ground.leader.asked_snapshots == BAD_SNAPSHOTS_MAX
        assert "--dir /data/n1" in caught.value.hint
        assert (ground.disk.state.applied, ground.disk.state.items) == (0, {})

    with_a_leader(scenario)


def test_a_leader_that_is_busy_is_asked_again_after_a_rest():
    async def scenario(ground, group):
        only_by_a_leap(ground)
        ground.leader.snapshots = [busy(ground.leader)] * 5
        ground.start(group)
        began_ns = ground.clock.now_ns()
        await until(lambda: leased(ground))
        assert ground.clock.now_ns() - began_ns >= 5 * SNAPSHOT_BUSY_REST_NS
        assert len(ground.leader.opened) == 2, "on the stream that it has"

    with_a_leader(scenario)


def test_a_stream_that_breaks_in_the_middle_of_a_leap_changes_nothing_of_it(monkeypatch):
    """The vault leaps although nobody waits for that any more; the next stream starts where it has led."""

    async def scenario(ground, group):
        only_by_a_leap(ground)
        ground.disk.latency_ns = lambda: SECOND_NS
        leap, leaping = MemoryVault.leap, asyncio.Event()

        def begins(self, *what):
            leaping.set()
            return leap(self, *what)

        monkeypatch.setattr(MemoryVault, "leap", begins)
        ground.start(group)
        await until(lambda: ground.leader.asked_snapshots == 1)
        await leaping.wait()
        assert ground.disk.state.applied == 0
        ground.cut()
        await until(lambda: len(ground.leader.opened) == 2)
        assert ground.leader.opened[-1].watch_from == 3
        assert ground.disk.state.applied == ground.shown == 2
        ground.disk.latency_ns = lambda: 0
        await until(lambda: leased(ground))
        assert ground.leader.asked_snapshots == 1

    with_a_leader(scenario)


def test_a_node_is_overtaken_by_compaction_in_the_middle_of_its_replay():
    async def scenario(ground, group):
        for table in range(1, 6):
            ground.history.put(table)
        push = ground.leader.push

        async def as_far_as_two(through=None):
            await push(2 if len(ground.leader.opened) == 1 else through)

        ground.leader.push = as_far_as_two
        ground.start(group)
        await until(lambda: ground.shown == 2)
        ground.leader.minimum = 5
        await ground.leader.say(WatchFailed(code="COMPACTED", minimum=5))
        await until(lambda: leased(ground))
        assert ground.shown == 5
        assert ground.leader.opened[-1].watch_from == 6
        assert ground.leader.told(RecoveryProgress)[-1].case == "c"

    with_a_leader(scenario)


def test_what_was_shown_before_a_leap_is_durable_before_it():
    """INV-REC-1: the vault is slow; nothing of what waits for it is lost or comes after the leap."""

    async def scenario(ground, group):
        applied = []
        ground.disk.on_change = lambda _step: applied.append(ground.disk.state.applied)
        ground.start(group)
        await until(lambda: leased(ground))
        ground.disk.latency_ns = lambda: SECOND_NS // 4
        for table in range(1, 6):
            ground.history.put(table)
            await ground.leader.push()
        await until(lambda: ground.shown == 5)
        assert ground.disk.state.applied < 5
        ground.history.put(6)
        ground.history.put(7)
        await ground.leader.say(WatchFailed(code="COMPACTED", minimum=7))
        await until(lambda: ground.disk.state.applied == 7)
        assert applied == sorted(applied), "the vault never goes back"
        assert 5 in applied
        assert ground.disk.state.items == ground.history.items[7]

    with_a_leader(scenario)


def test_a_stream_that_breaks_while_the_vault_is_far_behind_loses_no_revision():
    """The queue before the vault is full when the stream ends: what is shown is saved, what is not comes again."""

    async def scenario(ground, group):
        ground.start(group, limits=ProjectionLimits(queue_revisions_max=20, batch_revisions_max=5))
        await until(lambda: leased(ground))
        ground.disk.latency_ns = lambda: 20 * SECOND_NS
        for table in range(1, 40):
            ground.history.put(table)
        await ground.leader.push(through=35)
        await asyncio.sleep(1)
        assert 20 <= ground.shown < 35, "it waits for room"
        shown = ground.shown
        ground.cut()
        await until(lambda: len(ground.leader.opened) == 2)
        assert ground.leader.opened[-1].watch_from == shown + 1
        ground.disk.latency_ns = lambda: 0
        await asyncio.sleep(60)
        assert ground.disk.state.applied == ground.history.latest
        assert ground.disk.state.items == ground.history.items[-1]

    with_a_leader(scenario)


def test_what_no_snapshot_has_ends_the_process():
    async def scenario(ground, _group):
        only_by_a_leap(ground)

        async def nonsense(_request):
            yield SnapshotBegin(revision=2, keys=1)
            yield JoinAnswer(incarnation=1)

        ground.leader.snapshots = [nonsense]
        with pytest.raises(Refused) as caught:
            await ground.make().run()
        assert caught.value.code == "BAD_MESSAGE"

    with_a_leader(scenario)
