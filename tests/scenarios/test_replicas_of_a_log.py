"""Replicas of a log: which goes on from where it is, which is built anew, and which is refused."""

from random import Random

import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, Refused
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.log.bootstrap import OtherLog, StoreSetBack
from leasehold.testing.log_store import KeptLog
from leasehold.testing.replica import KeptReplica
from leasehold.testing.requests import undisturbed
from tests.scenarios.log_words import Ground, Member, cut_off, fare, simulate, value


async def write_some(leader: Member) -> None:
    for number in range(5):
        await leader.put(b"k%d" % number)


@pytest.mark.parametrize("what", ["kept at the head", "kept", "set back", "deleted"])
def test_a_replica_goes_on_from_where_it_is_or_is_built_anew(what: str) -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        other = await ground.member("c2")
        await leader.put(b"a", value=b"2" if what == "kept at the head" else b"1")
        await other.storage.confirm()
        earlier = other.place.backup()
        await write_some(leader)
        await other.storage.confirm()
        await other.kill()
        if what != "kept at the head":
            await leader.put(b"a", value=b"2")
        place = other.place
        match what:
            case "set back":
                place.kept = earlier
            case "deleted":
                place.kept = None
            case _:
                pass
        again = ground.unopened("c2", place)
        read = fare(again, lambda request: request == "page entry")
        await again.open()
        assert bool(read) == (what != "kept at the head")
        assert await value(again, b"a") == b"2"
        assert await value(again, b"k4") == b"1"

    simulate(scenario)


async def of_another_log() -> KeptReplica | None:
    """A replica of a log of the same length."""
    other = Ground(Random(2))
    stranger = await (await other.member("c1")).lead()
    for _ in range(6):
        await stranger.put(b"foreign")
    await stranger.kill()
    return stranger.place.kept


@pytest.mark.parametrize("there", ["another log", "no log"])
def test_a_replica_of_another_log_is_refused_and_nothing_is_written(there: str) -> None:
    async def scenario(ground: Ground) -> None:
        other = await ground.member("c2")
        await other.kill()
        if there == "another log":
            other.place.kept = await of_another_log()
        else:
            ground.kept.set_back(KeptLog())
        kept, stored = other.place.kept, dict(ground.kept.values)
        with pytest.raises(OtherLog):
            await ground.unopened("c2", other.place).open()
        assert other.place.kept == kept
        assert ground.kept.values == stored

    simulate(scenario)


@pytest.mark.parametrize("since", ["nothing", "another way", "far on another way"])
def test_a_coordinator_that_knows_more_than_the_store_refuses_and_keeps_its_replica(since: str) -> None:
    """The store was set back, and perhaps written to before anybody noticed."""

    async def scenario(ground: Ground) -> None:
        ground.oracle.invariants = ()  # the log is not what it was
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        await leader.put(b"a")
        before = ground.kept.copy()
        await write_some(leader)
        await other.storage.confirm()
        await leader.kill()
        cut_off(other)
        ground.kept.set_back(before)
        if since != "nothing":
            later = await (await ground.member("c3")).lead()
            for _ in range(3 if since == "another way" else 8):
                await later.put(b"b")
            if since == "far on another way":
                other.client.before = undisturbed
                with pytest.raises((Refused, Indefinite)):
                    await other.storage.confirm()
        await other.kill()
        kept = other.place.kept
        with pytest.raises(StoreSetBack, match="set back"):
            await ground.unopened("c2", other.place).open()
        assert other.place.kept == kept

    simulate(scenario)


async def end_of(one: Member) -> Refused:
    """What its storage answers once it has failed."""
    while True:
        try:
            await one.storage.status()
        except Refused as error:
            return error
        await one.clock.sleep_until(one.clock.now_ns() + SECOND_NS)


def test_a_store_that_is_set_back_under_coordinators_that_run_ends_them_and_keeps_their_replicas() -> None:
    async def scenario(ground: Ground) -> None:
        ground.oracle.invariants = ()  # the log is not what it was
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        await leader.put(b"a")
        before = ground.kept.copy()
        await write_some(leader)
        await other.storage.confirm()
        ground.kept.set_back(before)
        with pytest.raises(Indefinite, match="an old head"):
            await other.storage.confirm()
        kept = leader.place.kept, other.place.kept
        for one in (leader, other):
            ended = await end_of(one)
            assert ended.code == ErrorCode.STORE_SET_BACK
            assert ended.hint.startswith("restore a newer snapshot")
            await one.kill()
        assert (leader.place.kept, other.place.kept) == kept

    simulate(scenario)


def test_one_old_head_is_not_a_store_that_was_set_back() -> None:
    async def scenario(ground: Ground) -> None:
        leader, other = await (await ground.member("c1")).lead(), await ground.member("c2")
        await leader.put(b"a")
        before = ground.kept.copy()
        await leader.put(b"b")
        await other.storage.confirm()
        newest = ground.kept
        for _ in range(5):
            other.client.kept = newest.copy()
            other.client.kept.set_back(before)
            with pytest.raises(Indefinite, match="an old head"):
                await other.storage.confirm()
            other.client.kept = newest
            await other.storage.confirm()
            await other.clock.sleep_until(other.clock.now_ns() + SECOND_NS)
        await other.storage.status()

    simulate(scenario)


def test_a_leader_takes_no_head_that_is_older_than_its_own_append() -> None:
    async def scenario(ground: Ground) -> None:
        leader = await (await ground.member("c1")).lead()
        await leader.storage.confirm()
        before, newest = ground.kept.copy(), ground.kept
        await leader.put(b"a")
        leader.client.kept = newest.copy()
        leader.client.kept.set_back(before)
        with pytest.raises(Indefinite, match="an old head"):
            await leader.storage.confirm()
        leader.client.kept = newest
        await leader.put(b"b")

    simulate(scenario)
