"""Work that those who wait at the same time share."""

import asyncio
from collections.abc import Awaitable, Callable

from leasehold.metastorage.tries import TryFailed


class _Round:
    def __init__(self) -> None:
        self.is_done = False
        self.failed: TryFailed | None = None


class SharedRun:
    """One run serves all who came before it began. At most one is under way."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._next = _Round()

    async def join(self, run: Callable[[], Awaitable[None]]) -> None:
        """Returns once a run that began after this call has ended. All who share it get its `TryFailed`; after another
        error, or a cancellation, the next who waits runs."""
        mine = self._next
        async with self._turn:
            if not mine.is_done:
                self._next = _Round()
                try:
                    await run()
                except TryFailed as failed:
                    mine.failed = failed
                mine.is_done = True
        if mine.failed is not None:
            raise TryFailed(mine.failed.reason, may_happen=mine.failed.may_happen) from mine.failed
