"""The watch of the head, for a replica that follows what others append.

A leader appends itself, so it has no watch: each append would be told to it, which takes as long as the rest of what a
coordinator does for an append. After a leadership that ended without a new campaign, the replica reads the head once a
second (`LOG_HEAD_POLL_NS`).
"""

import asyncio
import contextlib

from leasehold.metastorage.log.log import HEAD
from leasehold.metastorage.log.store import LogStore


class HeadWatch:
    """Sets `woken` when the head may have changed, while another coordinator may append."""

    def __init__(self, store: LogStore, woken: asyncio.Event) -> None:
        self._store = store
        self._woken = woken
        self._is_needed = asyncio.Event()
        self.begin()

    def begin(self) -> None:
        """From now on others append."""
        self._is_needed.set()

    def end(self) -> None:
        """From now on this coordinator appends; the watch ends with the next entry."""
        self._is_needed.clear()

    async def run(self) -> None:
        """Watches whenever it is needed, until cancelled."""
        while True:
            await self._is_needed.wait()
            async with contextlib.aclosing(self._store.watch(HEAD)) as changes:
                async for _ in changes:
                    if not self._is_needed.is_set():
                        break
                    self._woken.set()
