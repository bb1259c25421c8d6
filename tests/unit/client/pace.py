"""Threads whose pauses and clock a test decides."""

from collections.abc import Callable

from leasehold.client.threads import THREADS
from leasehold.core.data.runtime import Runtime
from leasehold.wire.steps import ThreadRuntime


class Paced(ThreadRuntime):
    """Calls `sleep` with the duration of each pause, in ns, in place of it."""

    def __init__(self, sleep: Callable[[int], None], now_ns: Callable[[], int]) -> None:
        super().__init__(now_ns)
        self._sleep = sleep

    async def sleep_until(self, deadline_ns: int) -> None:
        self._sleep(max(0, deadline_ns - self.now_ns()))


def paced(sleep: Callable[[int], None], now_ns: Callable[[], int] = THREADS.now_ns) -> Runtime:
    """A runtime whose pauses are `sleep`."""
    return Paced(sleep, now_ns)
