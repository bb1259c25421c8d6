"""No threads, for the simulator: what computes for long takes no virtual time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NoThreads:
    """Implements `wire.ports.Threads`."""

    async def run(self, compute: Callable[[], T]) -> T:
        """Its result, after other tasks have had a turn."""
        await asyncio.sleep(0)
        return compute()
