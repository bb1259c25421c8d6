"""Asking a store again that gave no answer, and a replica that declines for a while."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar

from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, Refused, Unreachable
from leasehold.limits.log import LOG_RETRY_NS
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

_PASSES: Final = frozenset({ErrorCode.DISK_FULL, ErrorCode.BUSY})
"""Codes with which a replica declines what it may take later."""


async def until_answered(ask: Callable[[], Awaitable[T]], *, lasts: Callable[[], bool], clock: Clock) -> T:
    """Asks until there is an answer. Raises `Indefinite` as soon as an attempt has none and `lasts` no longer holds."""
    while True:
        try:
            return await ask()
        except Indefinite:
            if not lasts():
                raise
        await clock.sleep_until(clock.now_ns() + LOG_RETRY_NS)


class PatientClient:
    """Asks a store again for `patience_ns`, in a command that a person runs."""

    def __init__(self, clock: Clock, patience_ns: int) -> None:
        self.clock: Final = clock
        self._patience_ns = patience_ns

    async def surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of the store to what is harmless to repeat. Raises `Unreachable`."""
        until_ns = self.clock.now_ns() + self._patience_ns
        try:
            return await until_answered(ask, lasts=lambda: self.clock.now_ns() < until_ns, clock=self.clock)
        except Indefinite as error:
            raise Unreachable(
                f"the store does not answer: {error.text}",
                hint="check the addresses of the store, and that most members run; then run the command again",
            ) from error


class ReplicaDeclines:
    """What a replica declines for a while is tried again; the first time in a row, the log says why."""

    def __init__(self) -> None:
        self._is_said = False

    @contextlib.contextmanager
    def for_now(self) -> Generator[None]:
        """Around a try: makes `Indefinite` of what passes by itself."""
        try:
            yield
        except Refused as error:
            if error.code not in _PASSES:
                raise
            if not self._is_said:
                log.warning("the replica can't follow the log, which is tried again: %s", error)
            self._is_said = True
            raise Indefinite(error.text, code=error.code, hint=error.hint) from error
        self._is_said = False
