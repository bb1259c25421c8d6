"""Long computations for users: one at a time, users in turn. A coordinator parses large statements in this way, and
answers large questions."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from leasehold.core.access.fair_queue import FairQueue, busy
from leasehold.core.words.messages import Message
from leasehold.core.words.records import PrincipalRecord
from leasehold.core.words.request_sizes import decoded_bytes

T = TypeVar("T")


class UserTurns:
    """The turns at one thread. Others use the thread too, so it gets only one computation at a time from here."""

    def __init__(self) -> None:
        self._queue = FairQueue()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._is_busy = False

    async def run(
        self,
        user: PrincipalRecord | str | None,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        request: Message,
        characters: int = 0,
        more_bytes: int = 0,
    ) -> T:
        """Does the `work` when it is this user's turn; `characters` are those of a large statement, and `more_bytes` is
        what is held beside the request until then. Raises BUSY: `Refused` if too many large statements of this user
        wait, `Indefinite` if too many requests do, or too large ones."""
        if self._is_busy:
            name = user.name if isinstance(user, PrincipalRecord) else user or ""
            await self._wait(name, request, characters, more_bytes)
        self._is_busy = True
        working = asyncio.get_running_loop().create_task(work())
        working.add_done_callback(self._has_worked)
        # A caller that gives up does not stop the thread: the turn ends when the work is done.
        return await asyncio.shield(working)

    async def _wait(self, user: str, request: Message, characters: int, more_bytes: int) -> None:
        size_bytes = decoded_bytes(request) + more_bytes
        while (displaced := self._queue.give_way(user, size_bytes)) is not None:
            self._end(displaced)
        ticket = self._queue.enter(user, characters, size_bytes)
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.leave(ticket)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # it was given the turn and does not take it
            raise
        finally:
            del self._turns[ticket]
            # An error that it holds has this frame in its traceback: a circle, which would keep a large request.
            del turn, request

    def _end(self, ticket: int) -> None:
        turn = self._turns[ticket]
        if not turn.done():  # done if its caller was cancelled, and has not run since
            turn.set_exception(busy())
            turn.exception()  # its caller may be cancelled before it runs

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
