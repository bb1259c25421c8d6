"""Long computations for users: one at a time, users in turn. A coordinator parses large statements in this way, and
answers large questions."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from leasehold.core.access.fair_queue import FairQueue
from leasehold.core.words.records import PrincipalRecord

T = TypeVar("T")


class UserTurns:
    """The turns at one thread. Others use the thread too, so it gets only one computation at a time from here."""

    def __init__(self) -> None:
        self._queue = FairQueue()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._is_busy = False

    async def run(
        self, user: PrincipalRecord | str | None, work: Callable[[], Coroutine[Any, Any, T]], *, characters: int = 0
    ) -> T:
        """Does the `work` when it is this user's turn; `characters` are those of a large statement. Raises `Refused`
        (BUSY) only for these."""
        if self._is_busy:
            await self._wait(user.name if isinstance(user, PrincipalRecord) else user or "", characters)
        self._is_busy = True
        working = asyncio.get_running_loop().create_task(work())
        working.add_done_callback(self._has_worked)
        # A caller that gives up does not stop the thread: the turn ends when the work is done.
        return await asyncio.shield(working)

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

    def _has_worked(self, working: "asyncio.Task[Any]") -> None:
        if not working.cancelled():
            working.exception()  # the caller may be gone
        self._pass_on()

    def _pass_on(self) -> None:
        """Passes the turn to the next computation, so that no other one can take it in between."""
        while (ticket := self._queue.next_ticket()) is not None:
            turn = self._turns[ticket]
            if not turn.done():  # done if its caller was cancelled, and has not run since
                turn.set_result(None)
                return
        self._is_busy = False
