"""The steps of `core/data` on the threads of a client: their runtime, and calls that block as ports of them."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

from leasehold.core.data.known import Known
from leasehold.core.data.places import Places
from leasehold.core.data.runtime import Runtime
from leasehold.core.words.messages import TableFacts
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.steps import ThreadRuntime

T = TypeVar("T")

THREADS: Final = ThreadRuntime(BoottimeClock().now_ns)

Refresh: TypeAlias = Callable[[], TableFacts]
"""Looks a table up again, on any thread; blocks."""


def places_of(
    facts: TableFacts, refresh: Refresh | None = None, *, known: Known | None = None, runtime: Runtime = THREADS
) -> Places:
    """The replicas of a table. `refresh` looks them up again, None to keep what is known."""
    return Places(facts, None if refresh is None else blocking(refresh), runtime=runtime, known=known)


def blocking(call: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """`call` as a port of steps that threads run."""

    async def steps() -> T:
        return call()

    return steps
