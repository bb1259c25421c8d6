"""The real clock: the one place that reads time.

CLOCK_BOOTTIME counts suspended time, so the first reading after a suspend shows that a lease has ended. Systems without
it use the monotonic clock.
"""

import asyncio
import time  # noqa: TID251 this module is the one that reads clocks
from collections.abc import Callable
from typing import Final

from leasehold.limits.sessions import CLOCK_SLEEP_STEP_NS
from leasehold.limits.units import SECOND_NS

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
_CLOCK_ID: Final = time.CLOCK_MONOTONIC if _BOOTTIME is None else _BOOTTIME


def worked_ns() -> int:
    """How long this thread has had a processor."""
    return time.thread_time_ns()


class LoopTimer:
    """Implements `wire.ports.Timer` on the running loop; never fires before its deadline."""

    def __init__(self, clock: "BoottimeClock", deadline_ns: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._deadline_ns = deadline_ns
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle = self._loop.call_soon(self._look)

    def cancel(self) -> None:
        self._handle.cancel()

    def _look(self) -> None:
        left_ns = self._deadline_ns - self._clock.now_ns()
        if left_ns > 0:
            self._handle = self._loop.call_later(min(left_ns, CLOCK_SLEEP_STEP_NS) / SECOND_NS, self._look)
        else:
            self._callback()


class BoottimeClock:
    """Implements `wire.ports.Clock`, without state: all instances of a machine agree. After a suspend it wakes at most
    CLOCK_SLEEP_STEP_NS late."""

    def now_ns(self, _clock_id: int = _CLOCK_ID) -> int:
        # The parameter is there for speed alone.
        return time.clock_gettime_ns(_clock_id)

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    async def sleep_until(self, deadline_ns: int) -> None:
        # The loop's own timers do not count a suspend, so a long sleep is cut into steps.
        while (left_ns := deadline_ns - self.now_ns()) > 0:  # noqa: ASYNC110 it is time that is waited for
            await asyncio.sleep(min(left_ns, CLOCK_SLEEP_STEP_NS) / SECOND_NS)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> LoopTimer:
        return LoopTimer(self, deadline_ns, callback)


def sleep_ns(duration_ns: int) -> None:
    """Blocks this thread, so never on an event loop."""
    time.sleep(duration_ns / SECOND_NS)
