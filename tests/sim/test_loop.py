"""The virtual loop: time jumps, waiting for ever is found, and a seed gives the same run again."""

import asyncio
import gc
import os
import subprocess
import sys
from random import Random

import pytest

from leasehold.testing.loop import TIMERS_CANCELLED_MAX, Deadlock, Livelock, Unhandled, VirtualLoop, run_virtual


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def traced(random: Random) -> list[str]:
    """A program in which everything that could differ between runs does something."""
    trace: list[str] = []
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=3)

    async def producer(name: int) -> None:
        for item in range(5):
            await asyncio.sleep(random.random())
            await queue.put(name * 10 + item)

    async def consumer(name: int) -> None:
        try:
            while True:
                trace.append(f"{virtual_loop().now_ns()} {name} {await queue.get()}")
        finally:
            # A group cancels its tasks in the order of a set.
            trace.append(f"end {name}")

    async def fail_after(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for name in range(8):
                group.create_task(producer(name))
                group.create_task(consumer(name))
            group.create_task(fail_after(3))
    done, _pending = await asyncio.wait({asyncio.get_running_loop().create_future() for _ in range(9)}, timeout=1)
    assert not done
    return trace


def test_an_hour_passes_at_once() -> None:
    async def main(_random: Random) -> int:
        await asyncio.sleep(3600)
        return virtual_loop().now_ns()

    assert run_virtual(main, 1) == 3_600_000_000_000


def test_a_timer_of_one_nanosecond_is_exact_late_in_a_long_run() -> None:
    async def main(_random: Random) -> list[int]:
        loop = virtual_loop()
        seen: list[int] = []
        await asyncio.sleep(1_000_000)
        base_ns = loop.now_ns()
        for after_ns in (3, 1, 2):
            loop.call_at_ns(base_ns + after_ns, lambda: seen.append(loop.now_ns() - base_ns))
        await asyncio.sleep(1)
        return seen

    assert run_virtual(main, 1) == [1, 2, 3]


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(shuffle: bool) -> None:
    first = run_virtual(traced, 5, shuffle=shuffle)
    assert len(first) > 20
    assert run_virtual(traced, 5, shuffle=shuffle) == first
    assert run_virtual(traced, 6, shuffle=shuffle) != first


def test_a_trace_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    program = (
        "from leasehold.testing.loop import run_virtual\n"
        "from tests.sim.test_loop import traced\n"
        "import sys\n"
        "junk = [object() for _ in range(int(sys.argv[1]))]\n"  # other addresses
        "sys.stdout.write('\\n'.join(run_virtual(traced, 7, shuffle=True)))\n"
    )
    traces = [
        subprocess.run(
            [sys.executable, "-c", program, junk],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed, junk in (("1", "10"), ("2", "100000"))
    ]
    assert traces[0] == traces[1]
    assert traces[0].count(b"\n") > 20


def test_shuffling_changes_the_order_of_tasks_and_keeps_that_of_callbacks() -> None:
    async def main(_random: Random) -> tuple[list[int], list[int]]:
        tasks: list[int] = []
        calls: list[int] = []

        async def task(number: int) -> None:
            tasks.append(number)

        for number in range(20):
            asyncio.get_running_loop().call_soon(calls.append, number)
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(task(number))
        return tasks, calls

    plain = run_virtual(main, 1)
    tasks, calls = run_virtual(main, 1, shuffle=True)
    assert plain == (list(range(20)), list(range(20)))
    assert calls == list(range(20))
    assert tasks != list(range(20))
    assert sorted(tasks) == list(range(20))


def test_waiting_for_ever_is_a_deadlock() -> None:
    async def main(_random: Random) -> None:
        await asyncio.sleep(2)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="2000000000 ns"):
        run_virtual(main, 1)


def test_running_in_a_circle_is_a_livelock() -> None:
    async def main(_random: Random) -> None:
        while True:  # noqa: ASYNC110 the fault itself
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run_virtual(main, 1, steps_max=1_000)


def test_an_error_that_no_one_awaits_fails_the_run() -> None:
    async def main(_random: Random) -> None:
        virtual_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(Unhandled) as caught:
        run_virtual(main, 1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_main_raises_comes_out_and_left_tasks_are_ended() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            ended.append("yes")

    async def main(_random: Random) -> None:
        task = asyncio.get_running_loop().create_task(forever())
        await asyncio.sleep(1)
        assert not task.done()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main, 1)
    assert ended == ["yes"]


def test_who_looks_after_a_pass_sees_all_of_it_and_nothing_after_it() -> None:
    async def main(_random: Random) -> list[str]:
        loop, seen = virtual_loop(), list[str]()

        def next_pass() -> None:
            seen.append("next pass")

        def first() -> None:
            seen.append("first")
            loop.after_pass(look)
            loop.call_soon(next_pass)

        def look() -> None:
            seen.append("look")

        loop.call_soon(first)
        loop.call_soon(seen.append, "second")
        await asyncio.sleep(1)
        return seen

    assert run_virtual(main, 1) == ["first", "second", "look", "next pass"]


def test_what_a_look_raises_ends_the_run() -> None:
    async def main(_random: Random) -> None:
        virtual_loop().after_pass(lambda: {}["found"])
        await asyncio.sleep(1)
        pytest.fail("nothing runs after it")

    with pytest.raises(KeyError, match="found"):
        run_virtual(main, 1)


def test_cancelled_timers_are_swept_and_the_others_fire_in_order() -> None:
    async def main(_random: Random) -> tuple[int, list[int]]:
        loop, fired = virtual_loop(), list[int]()
        timers = [loop.call_later(1 + number, fired.append, number) for number in range(10)]
        for _ in range(5 * TIMERS_CANCELLED_MAX):
            loop.call_later(100, fired.append, -1).cancel()
        await asyncio.sleep(5.5)
        for timer in timers:
            timer.cancel()  # half of them have fired
        waiting = sum(type(one) is type(timers[0]) for one in gc.get_objects())
        await asyncio.sleep(200)
        return waiting, fired

    waiting, fired = run_virtual(main, 1)
    assert fired == [0, 1, 2, 3, 4]
    assert waiting < 2 * TIMERS_CANCELLED_MAX


def test_threads_are_refused() -> None:
    async def main(_random: Random) -> None:
        await asyncio.to_thread(os.getpid)

    with pytest.raises(AssertionError, match="no threads"):
        run_virtual(main, 1)
