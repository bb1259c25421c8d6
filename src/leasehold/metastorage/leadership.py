"""Leadership where an exclusive lock of the backend proves every predecessor dead (docs/design.md, "Meta storage").

Of the candidates that the lock lets in, one leads. The others wait until it resigns or its store is closed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn

import msgspec

from leasehold.core.words.operations import Compare, LedBy
from leasehold.errors import LeaseholdError
from leasehold.ids import Term


class ExclusiveLeadership:
    """Implements `Leadership` without a deadline: it ends only with the lock or by resigning."""

    def __init__(self, term: Term, end: Callable[[], None]) -> None:
        self.term: Final = term
        self.end: Final = end
        """Lets the next candidate in; idempotent."""

    def deadline_ns(self) -> int | None:
        return None

    def fence(self) -> tuple[Compare, ...]:
        return (LedBy(self.term),)

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Waits for ever: there is no deadline to extend."""
        del on_extended
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def resign(self, successor: str = "") -> None:
        del successor  # the next to take the file's lock leads
        self.end()


class _Reign(msgspec.Struct, frozen=True, eq=False):
    owner: object


class Succession:
    """The leader and the waiting candidates. Used on one event loop."""

    def __init__(self) -> None:
        self._reign: _Reign | None = None
        self._waiting: list[tuple[object, asyncio.Future[None]]] = []

    async def campaign(self, owner: object, elect: Callable[[], Awaitable[Term]]) -> ExclusiveLeadership:
        """Waits until nobody leads, then runs `elect`, which makes the next term durable. Raises what `elect` raises,
        and the error `leave` gives to the owner's waiting candidates."""
        while self._reign is not None:
            turn = (owner, asyncio.get_running_loop().create_future())
            self._waiting.append(turn)
            try:
                await turn[1]
            finally:
                self._waiting.remove(turn)
        reign = self._reign = _Reign(owner)
        try:
            return ExclusiveLeadership(await elect(), partial(self._end, reign))
        except BaseException:
            self._end(reign)
            raise

    def leave(self, owner: object, error: Callable[[], LeaseholdError]) -> None:
        """The waiting candidates of `owner` get `error`, and its leadership ends."""
        for waiting, turn in self._waiting:
            if waiting is owner and not turn.done():
                turn.set_exception(error())
        if self._reign is not None and self._reign.owner is owner:
            self._end(self._reign)

    def _end(self, reign: _Reign) -> None:
        if self._reign is not reign:
            return
        self._reign = None
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
