"""Where all replicas of a bucket are out, the error says which they are, and until when."""

import asyncio

import pytest

from leasehold.core.words.messages import AskTable, NodeAbsence, TableFacts
from leasehold.errors import Unreachable
from leasehold.limits.lease import SILENT_SHOWN_NS
from leasehold.limits.units import MINUTE_NS, SECOND_NS
from tests.sim.data_words import TABLE, Ground, simulate


async def absences(ground: Ground) -> tuple[NodeAbsence, ...]:
    return (await ground.cluster.ask(AskTable(cluster_id=None, name=TABLE, absences=True), TableFacts)).absences


def test_the_leader_says_of_the_nodes_of_a_table_which_are_out_and_when_others_take_over() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.cluster.sql("ALTER CLUSTER SET replace_after = '10m'")
        await ground.create(replication=2)
        (pair,) = ground.in_sync()
        hanging, killed = ground.node(pair[0]), ground.node(pair[1])
        assert await absences(ground) == ()
        hanging.pause()
        await killed.kill()
        await asyncio.sleep(SILENT_SHOWN_NS / SECOND_NS)
        now = await absences(ground)
        assert {one.node for one in now} == set(pair)
        assert all(0 < one.lease_remaining_ns < 3 * SECOND_NS and one.away_ns == 0 for one in now)
        await asyncio.sleep(60)
        for one in await absences(ground):
            assert one.lease_remaining_ns == 0
            assert 55 * SECOND_NS < one.away_ns < 62 * SECOND_NS
            assert one.replaced_in_ns is not None
            assert 8 * MINUTE_NS < one.replaced_in_ns < 10 * MINUTE_NS
        (third,) = {1, 2, 3}.difference(pair)
        await ground.node(third).kill()
        await asyncio.sleep(5)
        assert {one.replaced_in_ns for one in await absences(ground)} == {None}, "nobody could take over"

    simulate(scenario)


def test_a_scan_and_an_append_without_a_replica_say_since_when_each_is_away() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.create(replication=2)
        await ground.write(5)
        (pair,) = ground.in_sync()
        for number in pair:
            await ground.node(number).kill()
        with pytest.raises(Unreachable, match=r"node-?\w* .*\(it has held no lease for 2\d\.\d s\)") as caught:
            await ground.read()
        assert caught.value.code == "NO_REPLICA"
        assert caught.value.text.count("it has held no lease for") == 2

    simulate(scenario)
