"""What every runtime of the data plane's steps promises: threads and simulated tasks."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from leasehold.core.data.runtime import Runtime
from leasehold.limits.units import MILLISECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.testing.steps import TaskRuntime
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import ThreadRuntime, iterate, run

Steps = Callable[[Runtime], Awaitable[None]]


def on_threads(steps: Steps) -> None:
    run(steps(ThreadRuntime(BoottimeClock().now_ns)))


def on_tasks(steps: Steps) -> None:
    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with asyncio.TaskGroup() as group:
            await steps(TaskRuntime(SimulatedClock(loop), group))

    run_virtual(main, 1)


@pytest.fixture(params=[on_threads, on_tasks])
def ground(request: pytest.FixtureRequest) -> Callable[[Steps], None]:
    return request.param


def test_a_sleep_lasts_until_its_deadline(ground: Callable[[Steps], None]) -> None:
    async def steps(runtime: Runtime) -> None:
        deadline_ns = runtime.now_ns() + 20 * MILLISECOND_NS
        await runtime.sleep_until(deadline_ns)
        assert runtime.now_ns() >= deadline_ns
        await runtime.sleep_until(0)

    ground(steps)


def test_a_wait_that_nobody_ends_ends_at_its_deadline(ground: Callable[[Steps], None]) -> None:
    async def steps(runtime: Runtime) -> None:
        condition = runtime.condition()
        deadline_ns = runtime.now_ns() + 20 * MILLISECOND_NS
        with condition:
            while runtime.now_ns() < deadline_ns:
                await condition.wait(deadline_ns)

    ground(steps)


def test_a_producer_and_a_consumer_wait_for_each_other(ground: Callable[[Steps], None]) -> None:
    async def steps(runtime: Runtime) -> None:
        condition, queue = runtime.condition(), deque[int]()

        async def produce() -> None:
            for number in range(200):
                with condition:
                    while len(queue) == 2:
                        await condition.wait(None)
                    queue.append(number)
                    condition.notify_all()

        runtime.start(produce(), name="producer")
        for number in range(200):
            with condition:
                while not queue:
                    await condition.wait(None)
                assert len(queue) <= 2
                assert queue.popleft() == number
                condition.notify_all()

    ground(steps)


def test_all_who_wait_are_woken(ground: Callable[[Steps], None]) -> None:
    async def steps(runtime: Runtime) -> None:
        condition, done, is_open = runtime.condition(), list[int](), list[bool]()

        async def wait(number: int) -> None:
            with condition:
                while not is_open:
                    await condition.wait(None)
                done.append(number)
                condition.notify_all()

        for number in range(3):
            runtime.start(wait(number), name=f"waiter {number}")
        with condition:
            is_open.append(True)
            condition.notify_all()
            while len(done) < 3:
                await condition.wait(None)

    ground(steps)


async def counted(closed: list[bool]) -> AsyncGenerator[int]:
    try:
        for number in range(3):
            yield number
    finally:
        closed.append(True)


def test_threads_take_what_steps_yield_and_end_them_where_they_stop() -> None:
    closed = list[bool]()
    assert list(iterate(counted(closed))) == [0, 1, 2]
    assert closed == [True]
    begun = iterate(counted(closed))
    assert next(begun) == 0
    begun.close()
    assert closed == [True, True]


def test_a_port_that_suspends_on_a_thread_is_a_defect() -> None:
    async def steps() -> None:
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="suspended"):
        run(steps())


def test_an_error_of_the_steps_is_raised_on_their_thread() -> None:
    async def steps() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError):
        run(steps())


def test_a_paused_process_takes_no_step_though_it_was_woken() -> None:
    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, elapsed = SimulatedClock(loop), list[int]()
        async with asyncio.TaskGroup() as group:
            runtime = TaskRuntime(clock, group)
            condition = runtime.condition()

            async def wait() -> None:
                with condition:
                    await condition.wait(None)
                elapsed.append(loop.now_ns())

            runtime.start(wait(), name="waiter")
            await asyncio.sleep(0.1)
            clock.pause()
            condition.notify_all()
            await asyncio.sleep(5)
            assert not elapsed
            clock.resume()
        assert elapsed == [loop.now_ns()]

    run_virtual(main, 1)
