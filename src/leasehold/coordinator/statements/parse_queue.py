"""Parses long statements on a thread, one at a time, users in turn."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.core.access.fair_queue import FairQueue
from leasehold.wire.ports import Threads

T = TypeVar("T")


class ParseQueue:
    """The queue of one leader. Others use the thread too, so it gets only one statement at a time."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._queue = FairQueue()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._is_busy = False

    async def run(self, user: str, characters: int, compute: Callable[[], T]) -> T:
        """Runs `compute`, which parses so many characters, when it is this user's turn. Raises `Refused` (BUSY)."""
        if self._is_busy:
            await self._wait(user, characters)
        self._is_busy = True
        computing = asyncio.get_running_loop().create_task(self._threads.run(compute))
        computing.add_done_callback(self._has_computed)
        # A caller that gives up does not stop the thread: the turn ends when the statement is parsed.
        return await asyncio.shield(computing)

    async def _wait(self, user: str, characters: int) -> None:
        ticket = self._queue.enter(user, characters)
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.leave(ticket)
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it was given the turn and does not take it
            raise
        finally:
            del self._turns[ticket]

    def _has_computed(self, computing: "asyncio.Task[Any]") -> None:
        if not computing.cancelled():
            computing.exception()  # the caller may be gone
        self._pass_on()

    def _pass_on(self) -> None:
        """Passes the turn to the next statement, so that no other one can take it in between."""
        ticket = self._queue.next_ticket()
        if ticket is None:
            self._is_busy = False
        else:
            self._turns[ticket].set_result(None)
