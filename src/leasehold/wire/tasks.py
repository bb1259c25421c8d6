"""Tasks that end together, and tasks that wait for a peer."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator

from leasehold.errors import gravest
from leasehold.limits.units import SECOND_NS


def gravest_here(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a task group that says what to do, or the cancellation that came at the same time.

    Before Python 3.13 a `TaskGroup` whose task is cancelled while one of its children fails tells of the child alone:
    who then goes on as after that failure is never cancelled at all. The body of the group must run until something
    ends it: a child that fails after the body has ended is counted as a cancellation there, for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return gravest(errors)


class BoundedWaits:
    """Waits of one kind: each lasts at most `each_ns`, and one more than `most` ends the oldest, so that peers that say
    nothing can't keep out one that does."""

    def __init__(self, most: int, each_ns: int) -> None:
        self._most = most
        self._each_s = each_ns / SECOND_NS
        self._waits: OrderedDict[asyncio.Timeout, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def wait(self) -> AsyncGenerator[None]:
        """Around one wait. Raises `TimeoutError`."""
        async with asyncio.timeout(self._each_s) as patience:
            if len(self._waits) >= self._most:
                oldest, _ = self._waits.popitem(last=False)
                oldest.reschedule(asyncio.get_running_loop().time())
            self._waits[patience] = None
            try:
                yield
            finally:
                self._waits.pop(patience, None)
