"""A real thread for what computes for long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class OneThread:
    """Implements `wire.ports.Threads`. One, since Python runs one at a time: several would take turns with the event
    loop, and each would make it wait the longer."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="computing")

    async def run(self, compute: Callable[[], T]) -> T:
        """What `compute` answers or raises; those asked for before come first."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, compute)
