"""Runs the steps of the data plane as tasks of one simulated process (`core/data/runtime.py`)."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from leasehold.core.data.runtime import ConditionVariable
from leasehold.wire.ports import Clock


class TaskRuntime:
    """Implements `core.data.runtime.Runtime`. `group` ends with the process, and timers of `clock` wait while it is
    paused, so steps wait too. Without a group nothing starts."""

    def __init__(self, clock: Clock, group: asyncio.TaskGroup | None = None) -> None:
        self._clock = clock
        self._group = group

    def now_ns(self) -> int:
        return self._clock.now_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        """Returns once `now_ns() >= deadline_ns`, and the process is not paused."""
        await self._clock.sleep_until(deadline_ns)

    def condition(self) -> ConditionVariable:
        return TaskCondition(self._clock)

    def is_ending(self) -> bool:
        """Never: a process ends at once here, with all its tasks."""
        return False

    def start(self, work: Coroutine[Any, Any, None], *, name: str, daemon: bool = False) -> None:
        """Runs `work` as a task, which ends with the process. Nothing starts in a process that ends."""
        del daemon
        assert self._group is not None, "these steps start nothing"
        try:
            self._group.create_task(work, name=name)
        except RuntimeError:
            work.close()


class TaskCondition:
    """Implements `core.data.runtime.Condition`. Tasks take turns only where they wait: so there is nothing to lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def wait(self, until_ns: int | None) -> None:
        """Waits for `notify_all`, at most until `until_ns`, and while the process is paused."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = None if until_ns is None else self._clock.call_at(until_ns, lambda: _wake(woken))
        self._waiting[woken] = None
        try:
            await woken
        finally:
            del self._waiting[woken]
            if timer is not None:
                timer.cancel()
        await self._clock.sleep_until(self._clock.now_ns())

    def notify_all(self) -> None:
        """Wakes all waiting tasks."""
        for woken in self._waiting:
            _wake(woken)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
