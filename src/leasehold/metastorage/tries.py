"""Asking the members of an engine in turn, until one of them answers.

Each try at one member has its own short bound. A try that failed is followed by one at the next member, until
`STORE_REQUEST_NS` have passed. A member that failed is asked last by the requests that follow.

**A write is sent again only if it surely did not happen.** A try says so (`TryFailed.may_happen`). Otherwise the write
raises `Indefinite`, and the caller looks. Of a write that raises `Unreachable` it is known that it never happens.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

from leasehold.core.backoff import Backoff
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, LeaseholdError, Refused, Unreachable
from leasehold.limits.log import (
    STORE_REQUEST_NS,
    STORE_ROUND_PAUSE_NS,
    STORE_WATCH_PAUSE_MAX_NS,
    STORE_WATCH_PAUSE_MIN_NS,
)
from leasehold.wire.ports import Clock

_NO_PAUSE: Final = Backoff(STORE_WATCH_PAUSE_MIN_NS, STORE_WATCH_PAUSE_MAX_NS)


class TryFailed(Exception):
    """One member gave no usable answer; another may."""

    def __init__(self, reason: str, *, may_happen: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_happen = may_happen
        """Whether the request may have happened, or may happen later."""


class AskedMember(Protocol):
    """One member that a client asks."""

    @property
    def address(self) -> str: ...


E = TypeVar("E", bound=AskedMember)
A = TypeVar("A")


class MemberTurns(Generic[E]):
    """The members of one engine, which has the name `engine` in errors. Those that failed last are asked last."""

    def __init__(self, engine: str, members: Sequence[E], clock: Clock) -> None:
        self._engine = engine
        self._members = list(members)
        self._clock = clock
        self._is_closed = False

    @property
    def first(self) -> E:
        """The member that gets the next request."""
        return self._members[0]

    @property
    def all(self) -> tuple[E, ...]:
        return tuple(self._members)

    async def ask(self, attempt: Callable[[E], Awaitable[A]], *, may_repeat: bool) -> A:
        """Tries until one member answers. Raises `Unreachable`, definite errors, and unless the request may repeat
        `Indefinite` as soon as it is not known whether it happened."""
        deadline_ns = self._clock.now_ns() + STORE_REQUEST_NS
        reasons: dict[str, str] = {}
        while True:
            for member in self.all:
                self.check_open()
                try:
                    return await attempt(member)
                except TryFailed as failed:
                    self.ask_last(member)
                    reasons[member.address] = failed.reason
                    if failed.may_happen and not may_repeat:
                        raise self._unknown(member.address, failed.reason) from failed
                if self._clock.now_ns() >= deadline_ns:
                    raise self.unreachable(reasons)
            await self._clock.sleep_until(min(deadline_ns, self._clock.now_ns() + STORE_ROUND_PAUSE_NS))

    def ask_last(self, member: E) -> None:
        self._members.remove(member)
        self._members.append(member)

    async def watch(self, follow: Callable[[], AsyncGenerator[None, None]]) -> AsyncGenerator[None, None]:
        """Yields whenever `follow` does, which is opened again after each fault, with a growing pause."""
        pause = _NO_PAUSE
        while True:
            self.check_open()
            try:
                async with aclosing(follow()) as changes:
                    async for _ in changes:
                        pause = _NO_PAUSE
                        yield
            except (TryFailed, LeaseholdError):
                pause = pause.after_failure(self._clock.now_ns())
            await self._clock.sleep_until(pause.until_ns)

    def check_open(self) -> None:
        """Raises `Refused` with code CLOSED after `close`."""
        if self._is_closed:
            raise Refused(f"this client of {self._engine} is closed", code=ErrorCode.CLOSED, hint="open it again")

    def close(self) -> None:
        """Nobody is asked from now on; idempotent."""
        self._is_closed = True

    def unreachable(self, reasons: dict[str, str]) -> Unreachable:
        """No member could answer, each for its reason."""
        each = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        hint = f"check that most members of {self._engine} run and can be reached"
        return Unreachable(f"no member of {self._engine} could answer: {each}", hint=hint)

    def _unknown(self, address: str, reason: str) -> Indefinite:
        text = f"it is not known whether {self._engine} at {address} did what it was asked: {reason}"
        return Indefinite(text, hint="look whether it happened")
