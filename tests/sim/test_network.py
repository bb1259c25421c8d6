"""The faults of the simulated network: each does what it says, and a seed gives the same run again."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from leasehold.core.words.messages import Execute, JoinWait, Message
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.limits.sessions import KEEPALIVE_INTERVAL_NS, KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.hosts import SimulatedConnection, SimulatedServer
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.network import Link, Network
from tests.conformance.transport_ground import Echo, refusal, text

KEEPALIVE_NS = KEEPALIVE_INTERVAL_NS + KEEPALIVE_TIMEOUT_NS


class Scene:
    """A client `c` and a server `s`."""

    def __init__(self, network: Network, loop: VirtualLoop, service: Echo, server: SimulatedServer) -> None:
        self.network = network
        self.loop = loop
        self.service = service
        self.server = server
        self.connection = self.connect()

    def connect(self) -> SimulatedConnection:
        return self.network.host("c").connect(self.server.address)

    def ask(self, number: int, timeout_s: float = 1) -> Coroutine[Any, Any, Message]:
        return self.connection.call(JoinWait(wait_ns=number), timeout_ns=int(timeout_s * SECOND_NS))


def play(body: Callable[[Scene], Coroutine[Any, Any, Any]], seed: int = 1, link: Link | None = None) -> Any:
    async def main(random: Random) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        network = Network(loop, random, link=link)
        service = Echo()
        server = await network.host("s").serve("s:1", service, on_fault=_refuse)
        return await body(Scene(network, loop, service, server))

    return run_virtual(main, seed)


def _refuse(fault: BaseException) -> None:
    raise AssertionError from fault


def test_delays_come_from_the_link_and_the_seed() -> None:
    async def body(scene: Scene) -> int:
        await scene.ask(1)
        return scene.loop.now_ns()

    link = Link(delay_min_ns=10 * MILLISECOND_NS, delay_max_ns=20 * MILLISECOND_NS)
    times = [play(body, seed, link) for seed in range(20)]
    assert all(20 * MILLISECOND_NS <= time <= 40 * MILLISECOND_NS for time in times)
    assert len(set(times)) > 10
    assert times == [play(body, seed, link) for seed in range(20)]


def test_a_lost_request_or_answer_is_a_timeout_and_a_session_loses_nothing() -> None:
    async def body(scene: Scene) -> tuple[int, int]:
        lost = 0
        for number in range(100):
            try:
                assert await scene.ask(number) == JoinWait(wait_ns=number)
            except Unreachable:
                lost += 1
        duplex = await scene.connection.session()
        sent = [JoinWait(wait_ns=number) for number in range(100)]
        for message in sent:
            await duplex.send(message)
        assert [await duplex.receive() for _ in sent] == sent
        await duplex.close()
        return lost, scene.loop.now_ns()

    lost, ended_ns = play(body, link=Link(loss=0.2))
    assert 20 < lost < 60
    assert ended_ns > lost * SECOND_NS


def test_a_late_request_is_handled_after_its_caller_has_given_up() -> None:
    async def body(scene: Scene) -> bool:
        await refusal(scene.connection.call(text("hang"), timeout_ns=SECOND_NS))
        given_up_ns = scene.loop.now_ns()
        await scene.service.entered.wait()
        return scene.loop.now_ns() > given_up_ns

    assert any(play(body, seed, Link(late=1.0)) for seed in range(5))


def test_a_doubled_request_is_handled_twice_and_answered_once() -> None:
    async def body(scene: Scene) -> list[int]:
        handled: list[int] = []
        answered = scene.service.call

        async def call(request: Message) -> Message:
            assert isinstance(request, JoinWait)
            handled.append(request.wait_ns)
            return await answered(request)

        scene.service.call = call
        assert [await scene.ask(number) for number in range(3)] == [JoinWait(wait_ns=number) for number in range(3)]
        await asyncio.sleep(30)
        return handled

    orders = [play(body, seed, Link(doubled=1.0)) for seed in range(10)]
    assert all(sorted(order) == [0, 0, 1, 1, 2, 2] for order in orders)
    assert any(order != sorted(order) for order in orders), "a copy comes after newer ones"


def test_a_partition_fails_calls_holds_sessions_and_breaks_them_when_it_lasts() -> None:
    async def body(scene: Scene) -> None:
        duplex = await scene.connection.session()
        scene.network.partition("c", "s")
        assert type(await refusal(scene.ask(1))) is Unreachable
        await duplex.send(text("waits"))
        scene.network.heal("c", "s")
        assert await duplex.receive() == text("waits")

        scene.network.partition("c", "s")
        started_ns = scene.loop.now_ns()
        assert type(await refusal(duplex.receive())) is Unreachable
        assert await scene.service.sessions_over.get() == "broken"
        assert KEEPALIVE_TIMEOUT_NS < scene.loop.now_ns() - started_ns <= KEEPALIVE_NS
        assert type(await refusal(scene.connection.session())) is Unreachable
        scene.network.heal_all()
        again = await scene.connection.session()
        await again.close()
        assert not scene.network.streams

    play(body)


def test_a_one_way_partition_lets_the_other_way_through() -> None:
    async def body(scene: Scene) -> None:
        scene.network.partition("s", "c", both_ways=False)
        call = asyncio.get_running_loop().create_task(
            refusal(scene.connection.call(text("hang"), timeout_ns=SECOND_NS))
        )
        await scene.service.entered.wait()
        assert type(await call) is Unreachable
        await scene.service.cancelled.wait()

    play(body)


def test_a_call_over_a_partition_is_lost_or_arrives_when_it_heals() -> None:
    async def body(scene: Scene) -> bool:
        scene.network.partition("c", "s")
        async with asyncio.TaskGroup() as group:
            call = group.create_task(_outcome(scene.ask(1, timeout_s=10)))
            await asyncio.sleep(1)
            assert not call.done()
            scene.network.heal_all()
        return call.result()

    assert {play(body, seed) for seed in range(20)} == {True, False}


async def _outcome(work: Coroutine[Any, Any, Message]) -> bool:
    try:
        await work
    except LeaseholdError:
        return False
    return True


def test_what_arrives_at_a_paused_host_waits_until_it_is_resumed() -> None:
    async def body(scene: Scene) -> None:
        scene.network.pause("s")
        async with asyncio.TaskGroup() as group:
            call = group.create_task(scene.ask(1, timeout_s=60))
            await asyncio.sleep(30)
            assert not call.done()
            scene.network.resume("s")
        assert call.result() == JoinWait(wait_ns=1)
        assert scene.loop.now_ns() < 31 * SECOND_NS

    play(body)


def test_a_kill_fails_callers_at_once_breaks_streams_and_silences_the_dead() -> None:
    async def body(scene: Scene) -> None:
        backwards = await scene.network.host("c").serve("c:1", Echo(), on_fault=_refuse)
        from_dead = scene.network.host("s").connect(backwards.address)
        dead_end = await from_dead.session()
        duplex = await scene.connection.session()
        async with asyncio.TaskGroup() as group:
            call = group.create_task(refusal(scene.connection.call(text("hang"), timeout_ns=60 * SECOND_NS)))
            await scene.service.entered.wait()
            scene.network.kill("s")
        assert type(call.result()) is Unreachable
        assert type(await refusal(duplex.receive())) is Unreachable
        assert scene.loop.now_ns() < SECOND_NS
        assert type(await refusal(scene.ask(1))) is Unreachable
        assert scene.loop.now_ns() < SECOND_NS

        scene.network.restart("s")
        again = await scene.network.host("s").serve("s:1", Echo(), on_fault=_refuse)
        assert again.address == scene.server.address
        assert await scene.ask(2) == JoinWait(wait_ns=2)
        # A process that was killed never speaks again, whatever its tasks still do.
        assert type(await refusal(dead_end.send(text("ghost")))) is Unreachable
        assert type(await refusal(from_dead.call(text("ghost"), timeout_ns=SECOND_NS))) is Unreachable
        assert type(await refusal(from_dead.session())) is Unreachable

    play(body)


def test_a_machine_that_dies_silently_is_found_by_timeout_and_keepalive() -> None:
    async def body(scene: Scene) -> None:
        duplex = await scene.connection.session()
        scene.network.kill("s", silent=True)
        started_ns = scene.loop.now_ns()
        assert type(await refusal(duplex.receive())) is Unreachable
        assert KEEPALIVE_TIMEOUT_NS <= scene.loop.now_ns() - started_ns <= KEEPALIVE_NS
        started_ns = scene.loop.now_ns()
        assert type(await refusal(scene.ask(1, timeout_s=5))) is Unreachable
        assert scene.loop.now_ns() - started_ns == 5 * SECOND_NS
        assert not scene.network.streams

    play(body)


def test_what_a_process_sent_before_it_was_killed_still_arrives() -> None:
    async def body(scene: Scene) -> None:
        duplex = await scene.connection.session()
        hold = scene.network.hold("c", "s")
        await duplex.send(text("end"))
        call = asyncio.get_running_loop().create_task(
            refusal(scene.connection.call(text("hang"), timeout_ns=SECOND_NS))
        )
        await asyncio.sleep(0.1)
        scene.network.kill("c")
        assert type(await call) is Unreachable
        assert not scene.service.entered.is_set()
        scene.network.release(hold)
        await scene.service.entered.wait()

    play(body)


def test_held_messages_wait_and_those_of_a_session_keep_their_order() -> None:
    async def body(scene: Scene) -> None:
        duplex = await scene.connection.session()
        hold = scene.network.hold("c", "s", lambda message: isinstance(message, Execute))
        async with asyncio.TaskGroup() as group:
            held = group.create_task(scene.connection.call(text("held"), timeout_ns=60 * SECOND_NS))
            assert await scene.ask(1) == JoinWait(wait_ns=1)
            await duplex.send(JoinWait(wait_ns=1))
            await duplex.send(text("second"))
            await duplex.send(JoinWait(wait_ns=3))
            assert await duplex.receive() == JoinWait(wait_ns=1)
            await asyncio.sleep(20)
            assert not held.done()
            scene.network.release(hold)
            assert await duplex.receive() == text("second")
            assert await duplex.receive() == JoinWait(wait_ns=3)
        assert held.result() == text("held")

    play(body)


async def caller(scene: Scene, name: int, trace: list[str]) -> None:
    for number in range(20):
        try:
            answer = await scene.connect().call(JoinWait(wait_ns=number), timeout_ns=300 * MILLISECOND_NS)
            assert answer == JoinWait(wait_ns=number)
            trace.append(f"{scene.loop.now_ns()} {name} {number}")
        except Unreachable as error:
            trace.append(f"{scene.loop.now_ns()} {name} {error.text}")


async def talker(scene: Scene, name: int, trace: list[str]) -> None:
    for _ in range(5):
        try:
            duplex = await scene.connect().session()
            for number in range(50):
                await duplex.send(JoinWait(wait_ns=number))
                assert await duplex.receive() == JoinWait(wait_ns=number)
            await duplex.close()
            trace.append(f"{scene.loop.now_ns()} {name} whole")
        except Unreachable as error:
            trace.append(f"{scene.loop.now_ns()} {name} {error.text}")


async def nemesis(scene: Scene, random: Random) -> None:
    network = scene.network
    for _ in range(30):
        await asyncio.sleep(random.random())
        match random.randrange(5):
            case 0:
                network.partition("c", "s", both_ways=random.random() < 0.5)
            case 1:
                network.pause("s")
            case 2:
                network.kill("s", silent=random.random() < 0.5)
                network.restart("s")
                await network.host("s").serve("s:1", Echo(), on_fault=_refuse)
            case _:
                network.heal_all()
                network.resume("s")
    network.heal_all()
    network.resume("s")


def test_a_storm_of_faults_ends_and_gives_the_same_trace_again() -> None:
    async def body(scene: Scene) -> list[str]:
        trace: list[str] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(nemesis(scene, Random(3)))
            for name in range(4):
                group.create_task(caller(scene, name, trace))
                group.create_task(talker(scene, name + 10, trace))
        return trace

    for seed in range(8):
        trace = play(body, seed, Link(loss=0.05, late=0.05))
        assert any("whole" in line for line in trace)
        assert any("no answer" in line for line in trace)
        assert trace == play(body, seed, Link(loss=0.05, late=0.05))


def test_a_writer_that_waits_for_room_learns_that_the_stream_broke() -> None:
    async def body(scene: Scene) -> None:
        duplex = await scene.connection.session()
        scene.network.partition("c", "s")
        for number in range(500):
            await duplex.send(JoinWait(wait_ns=number))
        assert type(await refusal(duplex.receive())) is Unreachable
        await duplex.close()
        assert await scene.service.sessions_over.get() == "broken"

    play(body)
