"""Asking a store again that gave no answer."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from leasehold.errors import Indefinite
from leasehold.limits.log import LOG_RETRY_NS
from leasehold.wire.ports import Clock

T = TypeVar("T")


async def until_answered(ask: Callable[[], Awaitable[T]], *, lasts: Callable[[], bool], clock: Clock) -> T:
    """Asks until there is an answer. Raises `Indefinite` as soon as an attempt has none and `lasts` no longer holds."""
    while True:
        try:
            return await ask()
        except Indefinite:
            if not lasts():
                raise
        await clock.sleep_until(clock.now_ns() + LOG_RETRY_NS)
