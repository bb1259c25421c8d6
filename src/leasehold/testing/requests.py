"""Requests to a simulated store, and what becomes of them: the fault knobs of every store in memory."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import ClassVar, Final, TypeAlias, TypeVar

from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, Refused

T = TypeVar("T")


class RequestFate(Enum):
    """The fate of one request."""

    ANSWERED = auto()
    LOST_BEFORE = auto()
    """It does not happen; the caller gets `Indefinite`."""
    LOST_AFTER = auto()
    """It happens, but the caller gets `Indefinite`."""
    LATE = auto()
    """It happens LATE_S later; the caller gets `Indefinite` now."""
    DOUBLED = auto()
    """It happens and is answered, and happens again LATE_S later."""
    STALE = auto()
    """A read is answered from an older state, which says how old it is. A write is answered."""


LATE_S: Final = 5.0
"""Longer than a leadership lasts without beats: another one leads by then, or soon."""

BeforeHook: TypeAlias = Callable[[str], Awaitable[RequestFate]]
"""Awaited before each request with its name: its delay and its fate. The name is that of the method (`history` for a
watch's reads), and for a store of a log also the keys that it reads or puts, `swap log/leader log/term`."""
AfterHook: TypeAlias = Callable[[str], Awaitable[None]]
"""Awaited after a request happened, before its answer: the delay of the answer. It may raise `Indefinite`."""


async def undisturbed(request: str) -> RequestFate:
    """No loss; like a real request, it lets other tasks run."""
    del request
    await asyncio.sleep(0)
    return RequestFate.ANSWERED


async def prompt(request: str) -> None:
    """No delay."""
    del request


def is_transaction(request: str) -> bool:
    """Whether this request is a transaction of a meta storage, or the append to a log that does some."""
    return request == "txn" or request.startswith("swap log/head ")


class FaultyClient:
    """A client of a store in memory; `before` and `after` may be exchanged at any time."""

    store_name: ClassVar[str]

    def __init__(self, before: BeforeHook, after: AfterHook) -> None:
        self.before = before
        self.after = after
        self._is_closed = False

    async def _request(self, name: str, happen: Callable[[], T], stale: Callable[[], T] | None = None) -> T:
        """One request; `stale` is what happens where its answer is an old one."""
        self._check_open()
        fate = await self.before(name)
        if self._is_closed or fate is RequestFate.LOST_BEFORE:
            raise self._lost()
        if fate in {RequestFate.LATE, RequestFate.DOUBLED}:
            asyncio.get_running_loop().call_later(LATE_S, _unheard, happen)
        if fate is RequestFate.LATE:
            raise self._lost()
        if fate is RequestFate.STALE:
            happen = stale or happen
        try:
            result = happen()
        except Definite:
            if fate is RequestFate.LOST_AFTER:
                raise self._lost() from None
            raise
        await self.after(name)
        if self._is_closed or fate is RequestFate.LOST_AFTER:
            raise self._lost()
        return result

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused(f"{self.store_name} is closed", code=ErrorCode.CLOSED, hint="open it again")

    def _lost(self) -> Indefinite:
        return Indefinite(f"no answer from {self.store_name}", hint="look whether it happened")


def _unheard(happen: Callable[[], object]) -> None:
    """Runs a late request, whose caller does not hear of a refusal."""
    with contextlib.suppress(Definite):
        happen()
