"""The agent against a leader by hand: each case of recovery, and what is said to people."""

import asyncio
import logging

import msgspec
import pytest

from leasehold.core.words.messages import RecoveryFinished, RecoveryProgress, Renewal, RenewalRefused
from leasehold.core.words.operations import Change
from leasehold.errors import Corrupt, Definite, ExitCode, NotInitialised, Refused
from leasehold.limits.membership import COORDINATORS_KNOWN_MAX
from leasehold.limits.recovery import RECOVERY_LOG_NS
from leasehold.limits.units import SECOND_NS
from tests.scenarios.bad_words import until
from tests.unit.node.agent.agent_words import leased, only_by_a_leap
from tests.unit.node.scripted_leader import with_a_leader

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
        assert said == ["the cluster is not initialised, waiting: run `leasehold init c2:7000`"]

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
            f"waiting at most {seconds} s until the lease of its last process has ended" for seconds in (529, 499, 1)
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
        assert caught.value.hint == "run the same version of leasehold on all machines"

    with_a_leader(scenario)
