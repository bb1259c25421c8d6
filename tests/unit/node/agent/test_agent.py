"""The agent against a leader by hand: each case of recovery, what may go wrong in it, and what is said to people."""

import asyncio
import logging

import msgspec
import pytest

from leasehold.core.words.codec import decode_record
from leasehold.core.words.messages import (
    JoinAnswer,
    RecoveryBehind,
    RecoveryFinished,
    RecoveryProgress,
    Renewal,
    RenewalRefused,
    SnapshotBegin,
    SnapshotEnd,
    WatchFailed,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import Record
from leasehold.errors import Corrupt, Definite, ExitCode, NotInitialised, NotLeader, Refused
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX
from leasehold.limits.recovery import (
    BAD_SNAPSHOTS_MAX,
    RECOVERY_ASK_AGAIN_NS,
    RECOVERY_LOG_NS,
    SNAPSHOT_BUSY_REST_NS,
)
from leasehold.limits.sessions import SESSION_QUEUE_MESSAGES_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.projection import ProjectionLimits
from leasehold.testing.vault import MemoryVault
from tests.scenarios.bad_words import until
from tests.unit.node.scripted_leader import ScriptedLeader, with_a_leader


def leased(ground):
    return ground.published.lease.deadline_ns > ground.clock.now_ns()


def identity(ground):
    return decode_record(Record, ground.disk.state.identity)


# ---------------------------------------------------------------- the cases


def test_case_a_from_the_vault_alone():
    async def scenario(ground, group):
        ground.history.put(1)
        life = ground.start(group)
        await until(lambda: leased(ground))
        await until(lambda: ground.disk.state.applied == 1)
        await ground.kill(life)
        ground.start(group)
        await until(lambda: leased(ground))
        assert ground.leader.opened[-1].watch_from == 2
        assert ground.leader.told(RecoveryProgress)[-1].case == "a"
        assert ground.leader.asked_snapshots == 0

    with_a_leader(scenario)


def test_case_b_says_that_it_has_finished_once_the_vault_is_near():
    async def scenario(ground, group):
        for table in range(1, 9):
            ground.history.put(table)
        ground.leader.difference = 3
        ground.start(group)
        await until(lambda: leased(ground))
        (finished,) = ground.leader.told(RecoveryFinished)
        assert finished.applied >= 5
        assert ground.shown == 8
        last = ground.leader.told(RecoveryProgress)[-1]
        assert (last.case, last.why) == ("b", "revisions 1 to 8 are kept")

    with_a_leader(scenario)


def test_case_c_leaps_and_streams_on_from_there():
    async def scenario(ground, group):
        ground.history.put(1, 2, 3)
        life = ground.start(group)
        await until(lambda: ground.disk.state.applied == 1)
        await ground.kill(life)
        ground.history.take_back(2)
        ground.history.put(4)
        ground.leader.minimum = 4
        ground.start(group)
        await until(lambda: leased(ground))
        assert [one.watch_from for one in ground.leader.opened[-2:]] == [2, 4]
        assert sorted(ground.published.view.dropped) == [1, 3, 4]
        assert (ground.disk.state.applied, ground.disk.state.items) == (3, ground.history.items[3])
        ground.history.put(5)
        await ground.leader.push()
        await until(lambda: ground.disk.state.applied == 4)
        assert ground.disk.state.lineage == ground.history.lineages[4]
        last = ground.leader.told(RecoveryProgress)[-1]
        assert (last.case, last.keys, last.keys_total) == ("c", 4, 4)

    with_a_leader(scenario)


def test_case_d_ends_the_process_and_says_what_to_type():
    async def scenario(ground, group):
        ground.history.put(1)
        ground.history.put(2)
        life = ground.start(group)
        await until(lambda: ground.disk.state.applied == 2)
        await ground.kill(life)
        del ground.history.batches[1:]
        with pytest.raises(Refused) as caught:
            await ground.make().run()
        assert caught.value.code == "AHEAD_OF_CLUSTER"
        assert caught.value.exit_code == ExitCode.REFUSED == 3
        assert "node n1" in caught.value.text
        assert "`leasehold node reset --dir /data/n1`" in caught.value.hint
        assert ground.disk.state.applied == 2, "nothing has changed"

    with_a_leader(scenario)


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


# ---------------------------------------------------------------- snapshots that go wrong


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


def only_by_a_leap(ground):
    """What the node lacks is not kept."""
    ground.history.put(1, 2)
    ground.history.put(3)
    ground.leader.minimum = 3


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


# ---------------------------------------------------------------- what is said to people


class Uninitialised:
    """A coordinator before its cluster."""

    def __init__(self, leader, turns):
        self._leader, self.turns = leader, turns

    async def call(self, request):
        if self.turns:
            self.turns -= 1
            raise NotInitialised("no cluster yet")
        return await self._leader.call(request)

    def stream(self, request):
        return self._leader.stream(request)

    async def session(self, duplex):
        await self._leader.session(duplex)


def test_a_node_waits_for_its_cluster_and_says_once_how_it_comes_about(caplog):
    async def scenario(ground, group):
        await ground.network.host("c2").serve(
            "c2:7000", Uninitialised(ground.leader, 20), on_fault=ground.faults.append
        )
        with caplog.at_level(logging.WARNING):
            ground.start(group, coordinators=("c2:7000",))
            await until(lambda: leased(ground))
        said = [one.getMessage() for one in caplog.records if "initialised" in one.getMessage()]
        assert said == ["the cluster is not initialised, waiting: `leasehold init c2:7000` makes it one"]

    with_a_leader(scenario)


def test_a_join_that_has_to_wait_says_for_how_long_but_not_all_the_time(caplog):
    async def scenario(ground, group):
        longest = [(529 - 5 * asked) * SECOND_NS - 1 for asked in range(7)]
        ground.leader.join_waits_ns = [*longest, 9 * SECOND_NS, *([SECOND_NS // 2] * 60), 3 * SECOND_NS]
        with caplog.at_level(logging.INFO, logger="leasehold.node.agent.join"):
            ground.start(group)
            await until(lambda: not ground.leader.join_waits_ns, at_most_s=600)
            await until(lambda: leased(ground))
        assert [one.getMessage() for one in caplog.records if one.name == "leasehold.node.agent.join"] == [
            f"waits up to {seconds} s until the lease of its last process has ended" for seconds in (529, 499, 1)
        ]

    with_a_leader(scenario)


def test_coordinators_of_earlier_times_are_asked_after_those_that_were_given():
    async def scenario(ground, group):
        life = ground.start(group)
        await until(lambda: leased(ground))
        await ground.kill(life)
        assert ground.disk.state.coordinators == ("c1:7000",)
        life = ground.start(group, coordinators=("gone:1",))
        await until(lambda: leased(ground))
        assert ground.disk.state.coordinators == ("gone:1", "c1:7000")
        await ground.kill(life)
        many = tuple(f"gone:{number}" for number in range(1, COORDINATORS_KNOWN_MAX + 9))
        ground.disk.commit(msgspec.structs.replace(ground.disk.state, coordinators=many))
        ground.start(group, coordinators=(*many[:3], "c1:7000"))
        await until(lambda: leased(ground))
        known = ground.disk.state.coordinators
        assert len(known) == COORDINATORS_KNOWN_MAX
        assert known[:5] == (*many[:3], "c1:7000", many[3])

    with_a_leader(scenario)


def test_the_log_says_the_case_and_why(caplog):
    async def scenario(ground, group):
        only_by_a_leap(ground)
        with caplog.at_level(logging.INFO, logger="leasehold.node"):
            ground.start(group)
            await until(lambda: leased(ground))
        text = "\n".join(one.getMessage() for one in caplog.records)
        assert "recovering by case c: revision 1 is compacted, the oldest kept is 3" in text
        assert "taking a snapshot of revision 2, 4 keys" in text
        assert "leapt to revision 2" in text
        assert "recovered by case c" in text

    with_a_leader(scenario)


def test_the_log_says_what_a_member_has_fetched_and_evicted_once_each_time(caplog):
    async def scenario(ground, group):
        ground.start(group)
        await until(lambda: leased(ground))
        with caplog.at_level(logging.INFO, logger="leasehold.node"):
            ground.agent.counted(missing=2)
            await asyncio.sleep(10 * RECOVERY_LOG_NS / SECOND_NS)
            ground.agent.counted(fetched=2, missing=0)
            for _ in range(3):
                ground.agent.counted(evicted=1)
            await asyncio.sleep(RECOVERY_LOG_NS / SECOND_NS)
        segments = [text for text in (one.getMessage() for one in caplog.records) if "segment" in text]
        assert segments == ["serving; 2 segments to fetch", "serving; 2 segments fetched, 3 evicted"]

    with_a_leader(scenario)


@pytest.mark.parametrize("code", ["SUPERSEDED", "REMOVED", "DIVERGED"])
def test_a_refusal_that_ends_the_process_names_the_node(code):
    async def scenario(ground, group):
        async def life():
            with pytest.raises(Definite) as caught:
                await ground.make().run()
            return caught.value

        living = group.create_task(life())
        await until(lambda: leased(ground))
        answer = ground.leader.answer

        def refuse(message):
            if isinstance(message, Renewal):
                return RenewalRefused(request=message.request, code=code, text="it is over")
            return answer(message)

        ground.leader.answer = refuse
        error = await living
        assert (error.code, error.exit_code, error.text) == (code, 3, "node n1: it is over")
        assert "`leasehold " in error.hint

    with_a_leader(scenario)


def test_a_key_of_a_newer_version_in_a_snapshot_ends_the_process():
    async def scenario(ground, _group):
        ground.history.commit(Change(b"l/future/1", b"x"))
        ground.history.put(3)
        ground.leader.minimum = 3
        with pytest.raises(Corrupt, match="newer version") as caught:
            await ground.make().run()
        assert caught.value.hint == "run the same version on every machine"

    with_a_leader(scenario)
