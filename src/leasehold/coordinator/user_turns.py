"""Long computations for users: one at a time, next that of the user who has used least.

A coordinator has two threads for them. On one it parses large statements, resolves views, and plans for EXPLAIN, each
in up to half a second. On the other it answers large questions, plans scans and decides on large commits, mostly in
milliseconds: these wait for no statement.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from leasehold.core.access.fair_queue import FairQueue, busy
from leasehold.core.words.messages import Message
from leasehold.core.words.records import PrincipalRecord
from leasehold.core.words.request_sizes import decoded_bytes
from leasehold.wire.ports import Threads

T = TypeVar("T")


class UserTurns:
    """The turns at one thread. Others use the thread too, so it gets only one computation at a time from here."""

    def __init__(self, threads: Threads, now_ns: Callable[[], int]) -> None:
        self.threads: Final = threads
        self._now_ns = now_ns
        self._queue = FairQueue()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._is_busy = False

    def another_queue(self) -> "UserTurns":
        """Turns of their own, one at a time too, which may use the same thread."""
        return UserTurns(self.threads, self._now_ns)

    async def compute(
        self,
        user: PrincipalRecord | str | None,
        compute: Callable[[], T],
        *,
        request: Message | None,
        characters: int = 0,
        is_first: bool = False,
    ) -> T:
        """What this gives, computed on the thread; as `run`."""
        work = partial(self.threads.run, compute)
        return await self.run(user, work, request=request, characters=characters, is_first=is_first)

    async def run(
        self,
        user: PrincipalRecord | str | None,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        request: Message | None,
        characters: int = 0,
        more_bytes: int = 0,
        is_first: bool = False,
    ) -> T:
        """Does the `work` when it is this user's turn; `characters` are those of a large statement, and `more_bytes` is
        what is held beside the request until then. A `request` that counts elsewhere is None. What others may wait for
        `is_first`: it comes before what else this user asks.

        Raises BUSY: `Refused` if too many large statements of this user wait, `Indefinite` if too many requests do, or
        too large ones.
        """
        name = user.name if isinstance(user, PrincipalRecord) else user or ""
        if self._is_busy:
            size_bytes = more_bytes + (0 if request is None else decoded_bytes(request))
            await self._wait(name, size_bytes, characters, is_first=is_first)
        else:
            self._queue.begin(name)
        self._is_busy = True
        began_ns = self._now_ns()
        working = asyncio.get_running_loop().create_task(work())
        working.add_done_callback(partial(self._has_worked, name, began_ns))
        # A caller that gives up does not stop the thread: the turn ends when the work is done.
        return await asyncio.shield(working)

    async def _wait(self, user: str, size_bytes: int, characters: int, *, is_first: bool) -> None:
        while (displaced := self._queue.give_way(user, size_bytes)) is not None:
            self._end(displaced)
        ticket = self._queue.enter(user, characters, size_bytes, is_first=is_first)
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
            del turn

    def _end(self, ticket: int) -> None:
        turn = self._turns[ticket]
        if not turn.done():  # done if its caller was cancelled, and has not run since
            turn.set_exception(busy())
            turn.exception()  # its caller may be cancelled before it runs

    def _has_worked(self, user: str, began_ns: int, working: "asyncio.Task[Any]") -> None:
        self._queue.used(user, self._now_ns() - began_ns)
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


class CoordinatorTurns:
    """The turns at both threads of a coordinator: for statements, which may take long, and for all else."""

    def __init__(self, short: Threads, long: Threads, now_ns: Callable[[], int]) -> None:
        self.short: Final = UserTurns(short, now_ns)
        self.long: Final = UserTurns(long, now_ns)
