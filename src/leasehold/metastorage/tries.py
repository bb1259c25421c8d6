"""Asking the members of an engine in turn, until one of them answers.

Each try at one member has its own short bound. A try that failed is followed by one at the next member, until
`STORE_REQUEST_NS` have passed. A member that failed is asked last by the requests that follow.

**A write is sent again only if it surely did not happen.** A try says so (`TryFailed.may_happen`). Otherwise the write
raises `Indefinite`, and the caller looks. Of a write that raises `Unreachable` it is known that it never happens.

**A member that declines is passed over** while another one answers: it does not accept the user, or is unsuitable.
Where no member answers, and one declines, it counts whether this client stands by:

| the client | error |
| --- | --- |
| asks for somebody who starts | that of the member that declines: it says what to correct |
| stands by (`stand_by`) | `Unreachable` with that text, code and hint: somebody corrects it while this process runs |

**A member of another cluster** is a wrong setting, and nobody knows which cluster is meant. So it is refused at the
start, whoever answers. Later only if all members are of another cluster: then the store was replaced, and the process
has to find out anew what it holds.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from leasehold.core.backoff import Backoff
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Indefinite, LeaseholdError, Refused, Unreachable
from leasehold.limits.log import (
    STORE_REQUEST_NS,
    STORE_ROUND_PAUSE_NS,
    STORE_WATCH_PAUSE_MAX_NS,
    STORE_WATCH_PAUSE_MIN_NS,
)
from leasehold.metastorage.log.store import OtherStore, StoreDenied, StoreMember, StoreUnsuitable
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

Decline: TypeAlias = BadSettings | StoreDenied | StoreUnsuitable
"""`BadSettings` is of a password that can't be read."""
DECLINES: Final = (BadSettings, StoreDenied, StoreUnsuitable)

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
        self._stands_by = False
        self._is_closed = False

    @property
    def first(self) -> E:
        """The member that gets the next request."""
        return self._members[0]

    @property
    def all(self) -> tuple[E, ...]:
        return tuple(self._members)

    def stand_by(self) -> None:
        """From now on whoever declines is asked again, like a member that does not answer."""
        self._stands_by = True

    async def ask(self, attempt: Callable[[E], Awaitable[A]], *, may_repeat: bool) -> A:
        """Tries until one member answers. Raises `Unreachable`, definite errors, and unless the request may repeat
        `Indefinite` as soon as it is not known whether it happened."""
        deadline_ns = self._clock.now_ns() + STORE_REQUEST_NS
        reasons: dict[str, str] = {}
        while True:
            declines: dict[str, Decline] = {}
            for member in self.all:
                self.check_open()
                try:
                    answer = await attempt(member)
                except TryFailed as failed:
                    self.ask_last(member)
                    reasons[member.address] = failed.reason
                    if failed.may_happen and not may_repeat:
                        raise self._unknown(member.address, failed.reason) from failed
                except DECLINES as decline:
                    self._check_setting(decline)
                    self.ask_last(member)
                    declines[member.address] = decline
                    reasons[member.address] = decline.text
                else:
                    _tell(declines)
                    return answer
                if self._clock.now_ns() >= deadline_ns:
                    raise self._unanswered(declines, reasons)
            if declines and (len(declines) == len(self._members) or not self._stands_by):
                raise self._unanswered(declines, reasons)
            await self._clock.sleep_until(min(deadline_ns, self._clock.now_ns() + STORE_ROUND_PAUSE_NS))

    async def ask_each(self, look: Callable[[E], Awaitable[A]]) -> tuple[dict[str, A], dict[str, Decline]]:
        """The answers of all members that answer, and why others are passed over, by their addresses. Raises as `ask`
        if none answers."""
        deadline_ns = self._clock.now_ns() + STORE_REQUEST_NS
        while True:
            self.check_open()
            answers, declines, reasons = await self._look_at_each(look)
            if answers:
                return answers, declines
            if declines or self._clock.now_ns() >= deadline_ns:
                raise self._unanswered(declines, reasons)
            await self._clock.sleep_until(min(deadline_ns, self._clock.now_ns() + STORE_ROUND_PAUSE_NS))

    async def _look_at_each(
        self, look: Callable[[E], Awaitable[A]]
    ) -> tuple[dict[str, A], dict[str, Decline], dict[str, str]]:
        """Asks each member once: the answers, who declines, and the reasons of all that did not answer."""
        answers: dict[str, A] = {}
        declines: dict[str, Decline] = {}
        reasons: dict[str, str] = {}

        async def ask_one(member: E) -> None:
            try:
                answers[member.address] = await look(member)
            except TryFailed as failed:
                reasons[member.address] = failed.reason
            except DECLINES as decline:
                declines[member.address] = decline
                reasons[member.address] = decline.text

        await asyncio.gather(*(ask_one(member) for member in self.all))
        for decline in declines.values():
            self._check_setting(decline)
        return answers, declines, reasons

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

    def _check_setting(self, decline: Decline) -> None:
        if isinstance(decline, OtherStore) and not self._stands_by:
            raise decline

    def _unanswered(self, declines: Mapping[str, Decline], reasons: Mapping[str, str]) -> LeaseholdError:
        """No member has answered, each for its reason."""
        found = sorted(declines.values(), key=lambda one: isinstance(one, StoreUnsuitable))
        is_replaced = len(declines) == len(self._members) and all(isinstance(one, OtherStore) for one in found)
        if found and (is_replaced or not self._stands_by):
            return found[0]
        if len(declines) == len(self._members):
            return Unreachable(found[0].text, code=found[0].code, hint=found[0].hint)
        each = "; ".join(f"{address}: {reasons[address]}" for address in sorted(reasons))
        hint = (
            f"start the members of {self._engine} that do not answer, until most run and can be reached"
            " (after `leasehold up`: `leasehold chaos start meta-1`); everything then continues by itself"
        )
        return Unreachable(f"no member of {self._engine} could answer: {each}", code=ErrorCode.NO_QUORUM, hint=hint)

    def _unknown(self, address: str, reason: str) -> Indefinite:
        text = f"it is not known whether {self._engine} at {address} did what it was asked: {reason}"
        return Indefinite(text, hint="look whether it happened")


def _tell(declines: Mapping[str, Decline]) -> None:
    """Says which members are passed over, now that another one has answered."""
    for address, decline in declines.items():
        log.warning("%s; %s", passed_over(address, decline).warning, decline.hint)


def passed_over(address: str, decline: Decline) -> StoreMember:
    """A member that declines, for people."""
    return StoreMember(
        name=address, address=address, version="", leads=False, warning=f"{decline.text}, so this member is passed over"
    )
