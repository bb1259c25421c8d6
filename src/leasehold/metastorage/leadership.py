"""Leadership where an exclusive lock proves every predecessor dead (docs/design.md, "Meta storage").

The lock is the backend's; here is the order among the candidates it lets in: one leads, the others wait
until it resigns or its store is closed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.operations import Compare, ModifiedAt
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision, Term


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """A term that has begun, and the revision that wrote its leader record."""

    term: Term
    revision: Revision


class ExclusiveLeadership:
    """One candidate's time at the head; it has no deadline, since it ends only with the lock or by resigning."""

    def __init__(self, succession: "Succession", owner: object) -> None:
        self.owner = owner
        self._succession = succession
        self._election: Election | None = None

    @property
    def term(self) -> Term:
        """Higher than every term before it."""
        return self._elected().term

    def deadline_ns(self) -> int | None:
        """None: it outlives the clock."""
        return None

    def fence(self) -> tuple[Compare, ...]:
        """The leader record as this term wrote it: it has no beats, so only a successor changes it."""
        return (ModifiedAt(keys.LEADER, self._elected().revision),)

    async def hold(self, on_extended: Callable[[int | None], None]) -> NoReturn:
        """Nothing to do: it has no end to move."""
        del on_extended
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def resign(self) -> None:
        """Lets the next candidate in; idempotent."""
        self._succession.end(self)

    def begin(self, election: Election) -> None:
        """Records the term it begins."""
        self._election = election

    def _elected(self) -> Election:
        assert self._election is not None, "handed out only once elected"
        return self._election


class Succession:
    """Who leads, and who waits for it. Used on one event loop."""

    def __init__(self) -> None:
        self._leader: ExclusiveLeadership | None = None
        self._waiting: list[tuple[object, asyncio.Future[None]]] = []

    async def campaign(self, owner: object, elect: Callable[[], Awaitable[Election]]) -> ExclusiveLeadership:
        """Waits until nobody leads, then runs `elect`, which makes the next term durable.

        Raises what `elect` raises, and the error `leave` gives to the owner's waiting candidates.
        """
        while self._leader is not None:
            turn = (owner, asyncio.get_running_loop().create_future())
            self._waiting.append(turn)
            try:
                await turn[1]
            finally:
                self._waiting.remove(turn)
        leadership = ExclusiveLeadership(self, owner)
        self._leader = leadership
        try:
            leadership.begin(await elect())
        except BaseException:
            self.end(leadership)
            raise
        return leadership

    def end(self, leadership: ExclusiveLeadership) -> None:
        """Ends a leadership, unless it is over already, and wakes the candidates."""
        if self._leader is not leadership:
            return
        self._leader = None
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_result(None)

    def leave(self, owner: object, error: Callable[[], LeaseholdError]) -> None:
        """Ends all that `owner` has here: its waiting candidates get `error`, its leadership ends."""
        for waiting, turn in self._waiting:
            if waiting is owner and not turn.done():
                turn.set_exception(error())
        if self._leader is not None and self._leader.owner is owner:
            self.end(self._leader)
