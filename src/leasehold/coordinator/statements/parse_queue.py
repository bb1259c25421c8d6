"""Statements that take long to parse, one at a time on a thread, users in turn."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.core.access.fair_queue import FairQueue
from leasehold.wire.ports import Threads

T = TypeVar("T")


class ParseQueue:
    """For one leader. The thread serves others too, so only one statement is handed to it at a time."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._queue = FairQueue()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._is_busy = False

    async def run(self, user: str, characters: int, compute: Callable[[], T]) -> T:
        """What `compute` answers of a text of so many characters, once it is this user's turn. Raises `Refused` with
        code BUSY."""
        if self._is_busy:
            await self._wait(user, characters)
        self._is_busy = True
        computing = asyncio.get_running_loop().create_task(self._threads.run(compute))
        computing.add_done_callback(self._has_computed)
        # A caller that gives up ends no thread: the turn is over when the statement has been read.
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
            computing.exception()  # the caller may be gone: nobody else needs it
        self._pass_on()

    def _pass_on(self) -> None:
        """The turn goes to the next one without a moment in which somebody else could take it."""
        ticket = self._queue.next_ticket()
        if ticket is None:
            self._is_busy = False
        else:
            self._turns[ticket].set_result(None)
