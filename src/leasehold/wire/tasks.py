"""Tasks that end together, and tasks that wait for a peer."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator

from leasehold.errors import gravest
from leasehold.limits.units import SECOND_NS
from leasehold.wire.ports import Clock


def gravest_here(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The gravest error of a task group, or the cancellation that came at the same time.

    Before Python 3.13 a `TaskGroup` whose task is cancelled while a child fails raises the child's error alone, and the
    cancellation is lost. The body of the group must run until something ends it: a child that fails after the body has
    ended is counted as a cancellation, for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return gravest(errors)


async def until_set_or_due(event: asyncio.Event, deadline_ns: int, clock: Clock) -> None:
    """Waits until the event is set, which the deadline does too. Whoever waits again clears it."""
    timer = clock.call_at(deadline_ns, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


class EndableWaits:
    """Waits without a bound, which end together."""

    def __init__(self) -> None:
        self._waits: dict[asyncio.Timeout, None] = {}

    @contextlib.asynccontextmanager
    async def wait(self) -> AsyncGenerator[None]:
        """Around one wait. Raises `TimeoutError` once all are ended."""
        async with asyncio.timeout(None) as patience:
            self._waits[patience] = None
            try:
                yield
            finally:
                self._waits.pop(patience, None)

    def end(self) -> None:
        """Ends all that wait now."""
        ended, self._waits = self._waits, {}
        for patience in ended:
            patience.reschedule(asyncio.get_running_loop().time())


class BoundedWaits:
    """Waits of one kind. Each lasts at most `each_ns`, and one more than `most` ends the oldest, so silent peers can't
    keep out one that sends."""

    def __init__(self, most: int, each_ns: int) -> None:
        self._most = most
        self._each_s = each_ns / SECOND_NS
        self._waits: OrderedDict[asyncio.Timeout, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def wait(self) -> AsyncGenerator[asyncio.Timeout]:
        """Around one wait; yields what may end it. Raises `TimeoutError`."""
        async with asyncio.timeout(self._each_s) as patience:
            if len(self._waits) >= self._most:
                oldest, _ = self._waits.popitem(last=False)
                if not oldest.expired():  # it ends in this very moment
                    oldest.reschedule(asyncio.get_running_loop().time())
            self._waits[patience] = None
            try:
                yield patience
            finally:
                self._waits.pop(patience, None)
