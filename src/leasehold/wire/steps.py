"""Runs the steps of the data plane (`core/data/runtime.py`) on threads, over ports that block."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Self, TypeVar

from leasehold.core.data.runtime import ConditionVariable
from leasehold.limits.sessions import CLOCK_SLEEP_STEP_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import sleep_ns

T = TypeVar("T")


def run(steps: Awaitable[T]) -> T:
    """Runs steps to their end on this thread; returns or raises what they do."""
    running = steps.__await__()
    try:
        next(running)
    except StopIteration as end:
        return end.value
    raise AssertionError("a port suspended where threads run the steps")


def iterate(steps: AsyncGenerator[T, None]) -> Generator[T]:
    """Runs steps that yield, on whichever thread asks for the next value."""
    try:
        while True:
            try:
                value = run(anext(steps))
            except StopAsyncIteration:
                return
            yield value
    finally:
        run(steps.aclose())


class ThreadRuntime:
    """Implements `core.data.runtime.Runtime`; any thread may use it."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        """Blocks this thread; after a suspend of the machine at most CLOCK_SLEEP_STEP_NS longer."""
        while (left_ns := deadline_ns - self.now_ns()) > 0:
            sleep_ns(min(left_ns, CLOCK_SLEEP_STEP_NS))

    def condition(self) -> ConditionVariable:
        return _ThreadCondition(self.now_ns)

    def is_ending(self) -> bool:
        return not threading.main_thread().is_alive()

    def start(self, work: Coroutine[Any, Any, None], *, name: str, daemon: bool = False) -> None:
        threading.Thread(target=run, args=(work,), name=name, daemon=daemon).start()


class _ThreadCondition:
    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._condition = threading.Condition()

    def __enter__(self) -> Self:
        self._condition.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    async def wait(self, until_ns: int | None) -> None:
        if until_ns is None:
            self._condition.wait()
        elif (left_ns := until_ns - self._now_ns()) > 0:
            self._condition.wait(min(left_ns, CLOCK_SLEEP_STEP_NS) / SECOND_NS)

    def notify_all(self) -> None:
        self._condition.notify_all()
