"""The physical topology over a simulated network: production members, virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from leasehold.core.swim.codec import Dropped, Seal
from leasehold.core.swim.messages import Member, Role, State
from leasehold.core.swim.suspicion import shortest_ns
from leasehold.errors import BadSettings
from leasehold.ids import ClusterId, NodeId
from leasehold.limits.swim import SWIM_PERIOD_NS, SWIM_SEEDS_MAX, SWIM_SUSPICION_STRETCH, SWIM_SYNC_NS
from leasehold.limits.units import SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.entropy import SeededEntropy
from leasehold.testing.gossip import CLUSTER, KEY, GossipWorld, SimulatedDatagrams
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Link
from leasehold.wire.gossip import Gossip
from tests.few import few

SEEDS = ("n1:7400", "n2:7400")
MANY = few(1, (40, 120))
SOME = few(1, (40, 60))
"""How many members: what it costs grows with the square."""
JOIN_NS = 60 * SECOND_NS


def simulate(
    count: int,
    scenario: Callable[[GossipWorld, asyncio.TaskGroup], Awaitable[None]],
    *,
    link: Link | None = None,
    seed: int = 1,
    slow_ns: int = 0,
) -> GossipWorld:
    """Runs a scenario once all members see each other; `slow_ns` is how late one further member always is."""

    async def main(random: Random) -> GossipWorld:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = GossipWorld(loop, random, link=link)
        members = world.add(count)
        if slow_ns:
            members += world.add(1, late_ns=slow_ns)
        async with asyncio.TaskGroup() as group:
            for member in members:
                member.start(group, SEEDS)
            await world.until(world.agree, at_most_ns=JOIN_NS)
            await scenario(world, group)
            for member in world.running():
                await member.kill()
        return world

    return run_virtual(main, seed)


@pytest.mark.parametrize("count", MANY)
def test_of_many_members_all_know_of_a_death_within_some_periods(count: int) -> None:
    took_ns: list[int] = []

    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        for name in ("n27", "n1"):
            killed_ns = world.loop.now_ns()
            await world.members[name].kill()
            took_ns.append(await world.until(world.agree, at_most_ns=40 * SWIM_PERIOD_NS))
            assert {one.member.name for one in world.deaths(killed_ns)} == {name}

    simulate(count, scenario)
    assert all(one >= shortest_ns(count) for one in took_ns), "nobody is found dead before it could refute"


@pytest.mark.parametrize("count", SOME)
def test_with_loss_and_one_slow_member_no_other_is_found_dead_and_traffic_stays_small(count: int) -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        sent, seconds = world.sent_bytes(), 30
        began_ns = world.loop.now_ns()
        await asyncio.sleep(seconds)
        per_member = (world.sent_bytes() - sent) / seconds / count
        assert per_member < 3_000
        slow = f"n{count}"
        assert {one.member.name for one in world.deaths()} <= {slow}
        assert any(one.by == slow and one.state is State.SUSPECT for one in world.noticed), "it was not slow"
        gossip = world.members[slow].gossip
        assert gossip is not None
        assert gossip.swim.health > 0, "it blames itself"
        assert world.loop.now_ns() - began_ns == seconds * SECOND_NS

    simulate(count - 1, scenario, link=Link(loss=0.05), slow_ns=3 * SECOND_NS)


def test_members_of_a_quiet_cluster_say_little() -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(20)
        sent, seconds = world.sent_bytes(), 60
        await asyncio.sleep(seconds)
        assert (world.sent_bytes() - sent) / seconds / 20 < 500

    simulate(20, scenario)


LOSSY = few(1, (4, 7, 8, 9, 17, 37))
"""Seeds at which a member is found dead if it refutes each suspicion only once."""


@pytest.mark.parametrize("seed", LOSSY)
def test_nobody_is_found_dead_where_datagrams_are_lost_late_and_doubled(seed: int) -> None:
    async def scenario(_world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(120)

    link = Link(loss=0.1, late=0.1, doubled=0.1, late_max_ns=3 * SECOND_NS)
    world = simulate(12, scenario, link=link, seed=seed)
    assert world.deaths() == []


def test_a_stopped_member_is_found_dead_and_refutes_when_it_goes_on() -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        stopped = world.members["n3"]
        stopped.pause()
        others = [one for one in world.members.values() if one is not stopped]
        await world.until(lambda: all("n3" not in one.living() for one in others), at_most_ns=60 * SECOND_NS)
        began_ns = world.loop.now_ns()
        await asyncio.sleep(60)
        stopped.resume()
        await world.until(world.agree, at_most_ns=10 * SECOND_NS)
        assert all(one.by != "n3" for one in world.deaths(began_ns)), "who was asleep blames nobody"

    simulate(6, scenario)


def test_a_short_stop_harms_nobody() -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        for _ in range(10):
            world.members["n3"].pause()
            await asyncio.sleep(1)
            world.members["n3"].resume()
            await asyncio.sleep(5)
        assert world.agree()

    assert simulate(6, scenario).deaths() == []


def test_a_process_started_anew_under_another_address_is_the_same_member() -> None:
    async def scenario(world: GossipWorld, group: asyncio.TaskGroup) -> None:
        again = world.members["n4"]
        for port in (7_500, 7_600):
            await again.kill()
            again.start(group, SEEDS, port=port)
            await world.until(
                lambda port=port: all(moved(one, "n4", f"n4:{port}") for one in world.members.values()),
                at_most_ns=20 * SECOND_NS,
            )
        await asyncio.sleep(30)
        assert world.agree()
        assert len(world.members["n1"].states) == 6

    def moved(member, name: str, address: str) -> bool:
        return any(
            one.member.name == name and one.member.address == address and one.state is State.ALIVE
            for one in member.gossip.swim.seen()
        )

    simulate(6, scenario)


def test_who_leaves_is_known_to_have_left_at_once_and_is_not_suspected() -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        await world.members["n5"].leave()
        await world.until(world.agree, at_most_ns=2 * SECOND_NS)
        assert {one.states["n5"] for one in world.running()} == {State.LEFT}
        await asyncio.sleep(20)
        assert world.agree()

    world = simulate(20, scenario)
    assert not any(one.state in {State.SUSPECT, State.DEAD} for one in world.noticed)


def test_halves_that_lost_sight_of_each_other_join_again() -> None:
    async def scenario(world: GossipWorld, _group: asyncio.TaskGroup) -> None:
        names = list(world.members)
        halves = set(names[:4]), set(names[4:])
        for one in halves[0]:
            for other in halves[1]:
                world.network.partition(one, other)
        longest_ns = SWIM_SUSPICION_STRETCH * shortest_ns(8) + 20 * SWIM_PERIOD_NS
        await world.until(
            lambda: all(world.members[one].living() == half for half in halves for one in half),
            at_most_ns=2 * longest_ns,
        )
        world.network.heal_all()
        await world.until(world.agree, at_most_ns=4 * SWIM_SYNC_NS)

    simulate(8, scenario)


def test_all_that_was_ever_said_said_again_changes_nothing() -> None:
    async def scenario(world: GossipWorld, group: asyncio.TaskGroup) -> None:
        world.posted = []
        again = world.members["n3"]
        await again.kill()
        await world.until(world.agree, at_most_ns=60 * SECOND_NS)
        again.start(group, SEEDS)
        await world.until(world.agree, at_most_ns=20 * SECOND_NS)
        await asyncio.sleep(5)
        said, world.posted = world.posted, None
        began_ns = world.loop.now_ns()
        assert len(said) > 200
        for source, address, blob in said:
            world.post(source, address, blob)
        await asyncio.sleep(30)
        assert [one for one in world.noticed if one.at_ns >= began_ns] == []
        assert world.agree()

    simulate(6, scenario)


def test_strangers_are_not_heard_and_counted() -> None:
    async def scenario(world: GossipWorld, group: asyncio.TaskGroup) -> None:
        strangers: list[Gossip] = []
        for number, (key, cluster) in enumerate(((b"?" * 32, CLUSTER), (KEY, ClusterId("d" * 32)))):
            address = f"s{number}:1"
            stranger = Gossip(
                me=Member(name=f"s{number}", address=address, role=Role.NODE, service=address, node=NodeId(0)),
                seal=Seal(key, cluster),
                seeds=SEEDS,
                clock=SimulatedClock(world.loop),
                entropy=SeededEntropy(world.random),
                datagrams=SimulatedDatagrams(world, address),
            )
            strangers.append(stranger)
        tasks = [group.create_task(one.run()) for one in strangers]
        world.post("s0:1", SEEDS[0], b"no datagram at all")
        await asyncio.sleep(10)
        assert world.agree()
        gossip = world.members["n1"].gossip
        assert gossip is not None
        assert gossip.traffic.dropped[Dropped.UNAUTHENTICATED] >= 19
        assert all(len(one.swim.seen()) == 1 for one in strangers), "a stranger knows itself alone"
        for task in tasks:
            task.cancel()

    simulate(3, scenario)


def test_who_can_not_be_a_member_is_told_so() -> None:
    async def main(random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = GossipWorld(loop, random)

        def member(name: str, address: str, seeds: tuple[str, ...] = ()) -> Gossip:
            return Gossip(
                me=Member(name=name, address=address, role=Role.NODE, service="a:1", node=NodeId(0)),
                seal=Seal(KEY, CLUSTER),
                seeds=seeds,
                clock=SimulatedClock(loop),
                entropy=SeededEntropy(random),
                datagrams=SimulatedDatagrams(world, f"s{len(world.hearing)}:1"),
            )

        for name, address in (("", "a:1"), ("no name", "a:1"), ("n", "nowhere"), ("n" * 64, "a:1")):
            with pytest.raises(BadSettings, match="physical topology") as refused:
                member(name, address)
            assert refused.value.hint
        with pytest.raises(BadSettings, match="too many"):
            member("n", "a:1", ("b:1",) * (SWIM_SEEDS_MAX + 1))

    run_virtual(main, 1)
