"""What every clock promises, held against the real one and the simulated one."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.ports import Clock

Check = Callable[[Clock], Coroutine[Any, Any, None]]


def on_real(check: Check) -> None:
    asyncio.run(check(BoottimeClock()))


def on_simulated(drift_ppm: int) -> Callable[[Check], None]:
    def run(check: Check) -> None:
        async def main(_random: Random) -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            await check(SimulatedClock(loop, drift_ppm=drift_ppm, offset_ns=7))

        run_virtual(main, 1)

    return run


@pytest.fixture(
    params=[on_real, on_simulated(0), on_simulated(10_000), on_simulated(-10_000)], ids=["real", "sim", "fast", "slow"]
)
def run(request: pytest.FixtureRequest) -> Callable[[Check], None]:
    return request.param


def test_it_never_goes_back(run: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        readings = [clock.now_ns() for _ in range(1000)]
        await asyncio.sleep(0.001)
        readings.append(clock.now_ns())
        assert readings == sorted(readings)
        assert readings[-1] > readings[0]

    run(check)


def test_sleep_until_returns_at_the_deadline_and_not_before(run: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        for after_ns in (1, 333, 7_777_777):
            deadline_ns = clock.now_ns() + after_ns
            await clock.sleep_until(deadline_ns)
            assert deadline_ns <= clock.now_ns() < deadline_ns + SECOND_NS

    run(check)


def test_a_deadline_that_is_past_returns_at_once(run: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        await clock.sleep_until(0)
        await clock.sleep_until(clock.now_ns())

    run(check)


def test_sleepers_wake_in_the_order_of_their_deadlines(run: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        woken: list[int] = []
        start_ns = clock.now_ns()

        async def sleeper(after_ms: int) -> None:
            await clock.sleep_until(start_ns + after_ms * MILLISECOND_NS)
            woken.append(after_ms)

        async with asyncio.TaskGroup() as group:
            for after_ms in (60, 5, 30):
                group.create_task(sleeper(after_ms))
        assert woken == [5, 30, 60]

    run(check)


def test_call_at_calls_once_due_never_from_inside_and_never_when_cancelled(run: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        called: list[tuple[str, int]] = []
        done = asyncio.Event()
        now_ns = clock.now_ns()

        def note(name: str) -> Callable[[], None]:
            return lambda: called.append((name, clock.now_ns()))

        clock.call_at(now_ns - 1, note("past"))
        late = clock.call_at(now_ns + 20 * MILLISECOND_NS, note("late"))
        clock.call_at(now_ns + 10 * MILLISECOND_NS, note("due"))
        taken_back = clock.call_at(now_ns + 5 * MILLISECOND_NS, note("taken back"))
        clock.call_at(now_ns + 30 * MILLISECOND_NS, done.set)
        assert called == []
        taken_back.cancel()
        await done.wait()
        late.cancel()
        assert [name for name, _at in called] == ["past", "due", "late"]
        assert called[1][1] >= now_ns + 10 * MILLISECOND_NS

    run(check)


def simulated(check: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    async def main(_random: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await check(loop)

    run_virtual(main, 1)


def test_a_fast_clock_reaches_its_deadline_early_in_virtual_time() -> None:
    async def check(loop: VirtualLoop) -> None:
        fast = SimulatedClock(loop, drift_ppm=250_000)
        slow = SimulatedClock(loop, drift_ppm=-500_000)
        await fast.sleep_until(SECOND_NS)
        assert loop.now_ns() == 800_000_000
        await slow.sleep_until(SECOND_NS)
        assert loop.now_ns() == 2 * SECOND_NS

    simulated(check)


def test_a_jump_wakes_a_sleeper_whose_deadline_it_passes() -> None:
    async def check(loop: VirtualLoop) -> None:
        clock = SimulatedClock(loop)
        loop.call_at_ns(MILLISECOND_NS, lambda: clock.jump(10 * SECOND_NS))
        await clock.sleep_until(5 * SECOND_NS)
        assert loop.now_ns() == MILLISECOND_NS
        assert clock.now_ns() == 10 * SECOND_NS + MILLISECOND_NS

    simulated(check)


def test_a_change_of_drift_moves_the_deadline_of_a_sleeper() -> None:
    async def check(loop: VirtualLoop) -> None:
        clock = SimulatedClock(loop)
        loop.call_at_ns(SECOND_NS, lambda: clock.set_drift(-500_000))
        await clock.sleep_until(2 * SECOND_NS)
        assert loop.now_ns() == 3 * SECOND_NS

    simulated(check)


def test_a_paused_clock_goes_on_but_wakes_no_one_before_it_is_resumed() -> None:
    async def check(loop: VirtualLoop) -> None:
        clock = SimulatedClock(loop)
        loop.call_at_ns(1, clock.pause)
        loop.call_at_ns(9 * SECOND_NS, clock.resume)
        await clock.sleep_until(SECOND_NS)
        assert clock.now_ns() == 9 * SECOND_NS

    simulated(check)
